"""DeepSeek V3.2's prompts, as its own encoder writes them."""

from __future__ import annotations

from tests.prompt.encodings.conversations import (
    BOS,
    BOT,
    CALLED,
    EOS,
    STRICTLY,
    TOOL,
    TWICE,
    USER,
    message,
    render,
)


def test_calls_and_results_of_v32() -> None:
    calls = (
        "\n\n<｜DSML｜function_calls>\n"
        '<｜DSML｜invoke name="get">\n'
        '<｜DSML｜parameter name="city" string="true">Köln</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="n" string="false">[1, 2.0, {"x": null}]</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="on" string="false">true</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n"
        '<｜DSML｜invoke name="get">\n\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>"
    )
    results = (
        "\n\n<function_results>\n<result>first</result>\n<result>second</result>"
        "\n</function_results>\n\n"
    )
    for thinking, opened, thoughts in ((True, "<think>", "hm</think>"), (False, "</think>", "")):
        assert render("deepseek_v32", CALLED, thinking=thinking) == (
            f"{BOS}Be brief.{USER}hi{BOT}{opened}{thoughts}Let me see.{calls}{EOS}{results}{opened}"
        )


def test_a_system_message_may_ask_for_a_format() -> None:
    asked = [message("system", "S", response_format={"type": "object"}), message("user", "q")]
    assert render("deepseek_v32", asked) == (
        f'{BOS}S\n\n{STRICTLY}{{"type": "object"}}{USER}q{BOT}</think>'
    )
    # Tools come before it.
    prompt = render("deepseek_v32", asked, [TOOL])
    assert prompt.index("## Tools") < prompt.index("## Response Format")


def test_thoughts_are_shown_between_a_question_and_its_answer() -> None:
    for tools in (None, [TOOL]):
        turns = [*TWICE, message("assistant", "so", reasoning_content="new")]
        prompt = render("deepseek_v32", [*turns, *TWICE[-1:]], tools, thinking=True)
        # Both are over: the last question is behind them.
        assert "why" not in prompt
        assert "new" not in prompt
        prompt = render("deepseek_v32", turns, tools, thinking=True)
        assert prompt.endswith(f"more{BOT}<think>new</think>so{EOS}{BOT}<think>")
        assert "why" not in prompt


def test_results_keep_the_turn_open_for_thoughts() -> None:
    turns = [*CALLED, message("assistant", "Both.", reasoning_content="aha")]
    prompt = render("deepseek_v32", turns, thinking=True)
    assert f"\n</function_results>\n\n<think>aha</think>Both.{EOS}" in prompt
    # A question after results asks anew.
    prompt = render("deepseek_v32", [*CALLED, message("user", "so?")], thinking=True)
    assert prompt.endswith(f"\n</function_results>\n\n</think>{USER}so?{BOT}<think>")
    assert "hm" not in prompt
