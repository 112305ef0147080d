"""Grammars of calls in the formats of model families.

Each expectation was compared with what xgrammar 0.2.7, the compiler in SGLang 0.5.23,
accepts for the same tags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sglrouter.families.formats.structural_tags import Call, CallTag, Tag
from sglrouter.families.registry import KNOWN
from tests.families.tag_language import accepts

CALLS = [Call("get_x", {"title": "strict"}), Call("get", {"type": "object"})]


def json_calls(begin: str, end: str) -> list[str]:
    return [
        f'{begin}{{"name":"{name}", "arguments":<json {schema}>}}{end}'
        for name, schema in (("get_x", "strict"), ("get", "any"))
    ]


def both(write: Callable[[str, str], str], style: str = "json") -> list[str]:
    return [write("get_x", f"<{style} strict>"), write("get", f"<{style} any>")]


def dsml(invoke: str, style: str = "deepseek_xml") -> list[str]:
    return both(
        lambda name, args: f'<｜DSML｜{invoke} name="{name}">\n{args}</｜DSML｜{invoke}>\n', style
    )


# Parser: the calls, what joins them, what is around all of them.
WRITTEN: dict[str, tuple[list[str], str, tuple[str, str]]] = {
    "qwen25": (json_calls("<tool_call>\n", "\n</tool_call>"), "\n", ("", "")),
    "hermes": (json_calls("<tool_call>", "</tool_call>"), "\n", ("", "")),
    "llama3": (json_calls("<|python_tag|>", ""), ";", ("", "")),
    "mistral": (json_calls("", ""), ", ", ("[TOOL_CALLS] [", "]")),
    "deepseekv3": (
        both(
            lambda name, args: (
                f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{args}\n```"
                "<｜tool▁call▁end｜>"
            )
        ),
        "\n",
        ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ),
    "deepseekv31": (
        both(
            lambda name, args: f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{args}<｜tool▁call▁end｜>"
        ),
        "",
        ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ),
    "deepseekv32": (
        dsml("invoke"),
        "",
        ("<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>"),
    ),
    "deepseekv4": (dsml("invoke"), "", ("<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>")),
    "deepseekv41": (
        dsml(" invoke", "deepseek_v4_1_xml"),
        "",
        ("<｜DSML｜ calls>\n", "</｜DSML｜ calls>"),
    ),
    "interns1": (
        both(
            lambda name, args: (
                f'<|action_start|> <|plugin|>\n{{"name": "{name}", "parameters": {args}}}'
                "<|action_end|>"
            )
        ),
        "",
        ("", ""),
    ),
    "apertus2509": (
        both(lambda name, args: f'{{"{name}": {args}}}'),
        ", ",
        ("<|tools_prefix|>[", "]<|tools_suffix|>"),
    ),
    "kimi_k2": (
        both(
            lambda name, args: (
                f"<|tool_call_begin|>functions.{name}:12<|tool_call_argument_begin|>{args}"
                "<|tool_call_end|>"
            )
        ),
        "",
        ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ),
    "kimi_k3": (
        both(
            lambda name, args: (
                f'<|open|>call tool="{name}" index="1"<|sep|>{args}<|close|>call<|sep|>'
            ),
            "kimi_k3_xml",
        ),
        "",
        ("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
    ),
    "qwen3_coder": (
        both(
            lambda name, args: f"<tool_call>\n<function={name}>\n{args}\n</function>\n</tool_call>",
            "qwen_xml",
        ),
        "\n",
        ("", ""),
    ),
    "glm47": (
        both(lambda name, args: f"<tool_call>{name}{args}</tool_call>", "glm_xml"),
        "\n",
        ("", ""),
    ),
    "inkling": (
        both(
            lambda name, args: (
                f'<|message_model|>{name}<|content_invoke_tool_json|>{{"name":"{name}",'
                f'"args":{args}}}<|end_message|>'
            )
        ),
        "",
        ("", ""),
    ),
    "gpt-oss": (
        both(
            lambda name, args: (
                f"<|channel|>commentary to=functions.{name}<|constrain|>json<|message|>"
                f"{args}<|call|>"
            )
        ),
        "<|start|>assistant",
        ("", ""),
    ),
}
# What comes before calls that must come.
LEADS = {"deepseekv32": "\n\n", "deepseekv4": "\n\n", "deepseekv41": "\n\n"}
TEXTS = {"gpt-oss": "<|channel|>final<|message|>hello<|return|>"}
SAME = {
    "qwen": "qwen25",
    "trinity": "qwen25",
    "llama": "llama3",
    "deepseek": "deepseekv3",
    "deepseek31": "deepseekv31",
    "deepseek32": "deepseekv32",
    "deepseek_v4": "deepseekv4",
    "kimik2": "kimi_k2",
    "qwen_coder": "qwen3_coder",
    "qwen_xml": "qwen3_coder",
    "step3p5": "qwen3_coder",
    "nanbeige": "qwen3_coder",
    "glm47_moe": "glm47",
}


TAGS: dict[str, Tag] = {
    name: family.tag for name, family in KNOWN.writers.items() if family.tag is not None
}


def tag(parser: str, *, at_least_one: bool = False, stop_after_first: bool = False) -> Any:
    return TAGS[parser].of_calls(
        CALLS, at_least_one=at_least_one, stop_after_first=stop_after_first
    )


def test_every_name_has_an_expectation() -> None:
    assert set(TAGS) == set(WRITTEN) | set(SAME)
    for other, name in SAME.items():
        assert tag(other) == tag(name)
    for name in ("pythonic", "lfm2", "glm45", "step3", "hunyuan", "json"):
        assert KNOWN.writers[name].tag is None


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("parser", WRITTEN)
def test_calls_in_the_familys_own_format(parser: str, forced: bool, stop: bool) -> None:
    calls, between, (begin, end) = WRITTEN[parser]
    if forced:
        begin = LEADS.get(parser, "") + begin
    allowed = tag(parser, at_least_one=forced, stop_after_first=stop)
    for call in calls:
        assert accepts(allowed, begin + call + end)
        assert not accepts(allowed, begin + call.replace("get", "nope") + end) or (
            parser == "inkling" and not forced
        )
    assert accepts(allowed, begin + between.join(calls) + end) is not stop
    assert accepts(allowed, TEXTS.get(parser, "hello")) is not forced
    assert accepts(allowed, "") is not forced
    if parser != "gpt-oss":
        leads_in = not forced or parser == "kimi_k3"
        assert accepts(allowed, "hello " + begin + calls[0] + end) is leads_in
        if stop:
            assert not accepts(allowed, begin + calls[0] + end + " bye")


def test_strict_arguments_are_not_any_arguments() -> None:
    for parser, (calls, _, (begin, end)) in WRITTEN.items():
        wrong = calls[0].replace(" strict>", " any>")
        lead = LEADS.get(parser, "")
        assert not accepts(tag(parser, at_least_one=True), lead + begin + wrong + end), parser


def test_the_old_form_is_sent_where_it_says_enough() -> None:
    for parser in ("qwen", "hermes", "llama3", "interns1", "inkling"):
        assert "structures" in tag(parser)
        assert tag(parser, at_least_one=True)["at_least_one"] is True
        assert "format" in tag(parser, stop_after_first=True)
    for parser in ("mistral", "deepseekv31", "kimi_k2", "qwen3_coder", "glm47", "gpt-oss"):
        assert "format" in tag(parser)


def test_harmony_thinks_before_it_calls_but_does_not_answer_instead() -> None:
    thought = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
    call = WRITTEN["gpt-oss"][0][0]
    other = call.replace("<|channel|>commentary to=functions.get_x", " to=functions.get_x"
                         "<|channel|>commentary ")  # fmt: skip
    for forced in (False, True):
        for stop in (False, True):
            allowed = tag("gpt-oss", at_least_one=forced, stop_after_first=stop)
            assert accepts(allowed, thought + call)
            assert accepts(allowed, thought + other)
            assert accepts(allowed, thought + thought + call)
            assert accepts(allowed, thought + TEXTS["gpt-oss"]) is not forced
            both = TEXTS["gpt-oss"] + "<|start|>assistant" + call
            assert accepts(allowed, both) is not forced
            assert accepts(allowed, f"{thought}{call}<|start|>assistant{call}") is not stop
    assert not accepts(tag("gpt-oss", at_least_one=True), thought[: -len("<|start|>assistant")])


def test_a_name_is_written_as_its_place_needs() -> None:
    odd = [Call('a"\n', {})]
    in_json = TAGS["hermes"].of_calls(odd, at_least_one=True, stop_after_first=False)
    assert accepts(in_json, '<tool_call>{"name":"a\\"\\n", "arguments":<json any>}</tool_call>')
    plain = TAGS["glm47"].of_calls(odd, at_least_one=True, stop_after_first=False)
    assert accepts(plain, '<tool_call>a"\n<glm_xml any></tool_call>')


def test_two_tools_of_one_name_share_a_trigger() -> None:
    twice = [Call("f", {"title": "one"}), Call("f", {"title": "two"})]
    for tag in TAGS.values():
        if not isinstance(tag, CallTag):
            continue  # Harmony has no free text, and so no triggers
        form = tag.of_calls(twice, at_least_one=False, stop_after_first=False)
        triggers = form.get("triggers") or form["format"]["triggers"]
        assert len(triggers) == 1


def test_an_answer_or_calls() -> None:
    answer = {"title": "answer"}
    qwen = KNOWN.writers["qwen"].tag
    assert isinstance(qwen, CallTag)
    allowed = qwen.of_answer_or_calls(CALLS, answer=answer, stop_after_first=True)
    call = WRITTEN["qwen25"][0][1]
    assert accepts(allowed, "<json answer>")
    assert accepts(allowed, call)
    assert not accepts(allowed, call + call)
    assert not accepts(allowed, "hello")
    more = qwen.of_answer_or_calls(CALLS, answer=answer, stop_after_first=False)
    assert accepts(more, call + call)


def test_who_is_always_held_to_the_format() -> None:
    assert {name for name, tag in TAGS.items() if tag.always} == {"kimi_k3", "inkling"}
