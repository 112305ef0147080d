"""The files of the tiny model: the chat template, the tokenizer, and that a build gives them."""

from __future__ import annotations

import json
from typing import Any

import jinja2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from sglrouter.sim.build_tiny import (
    MARKER_TOKENS,
    PADDED_VOCABULARY,
    SPECIAL_TOKENS,
    TINY,
    build_files,
)

TOKENIZER = Tokenizer.from_file(str(TINY / "tokenizer.json"))

Message = dict[str, Any]


def encode(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False).ids)


# The template, in the environment that transformers gives it.


def _tojson(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _template() -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    return environment.from_string((TINY / "chat_template.jinja").read_text("utf-8"))


TEMPLATE = _template()

QUESTION: Message = {"role": "user", "content": "Wie ist das Wetter?"}
CALL: Message = {
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": [1, 2]}},
}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather in a city: <now>",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def render(*messages: Message, **variables: Any) -> str:
    defaults = {"tools": None, "add_generation_prompt": False}
    return TEMPLATE.render(messages=messages, **(defaults | variables))


def test_plain_conversation() -> None:
    text = render(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": " And\nnow? "},
        add_generation_prompt=True,
    )
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello!<|im_end|>\n"
        "<|im_start|>user\n And\nnow? <|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_nothing_is_said_that_was_not_asked_for() -> None:
    assert render(QUESTION) == "<|im_start|>user\nWie ist das Wetter?<|im_end|>\n"


@pytest.mark.parametrize(
    ("variables", "end"),
    [
        ({}, "<|im_start|>assistant\n"),
        ({"enable_thinking": False}, "<|im_start|>assistant\n"),
        ({"enable_thinking": True}, "<|im_start|>assistant\n<think>\n"),
    ],
)
def test_thinking_is_opened_on_demand(variables: dict[str, bool], end: str) -> None:
    text = render(QUESTION, add_generation_prompt=True, **variables)
    assert text == "<|im_start|>user\nWie ist das Wetter?<|im_end|>\n" + end


TOOL_TEXT = (
    "# Tools\n\nYou can call these functions. Each line is one function:\n<tools>\n"
    '{"type": "function", "function": {"name": "get_weather", "description": "Weather in a city:'
    ' <now>", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}\n'
    "</tools>\n\nTo call a function, answer with its name and its arguments as JSON, for each"
    ' call:\n<tool_call>\n{"name": <name>, "arguments": <object>}\n</tool_call><|im_end|>\n'
)


def test_tools_are_listed_in_a_system_turn_of_their_own() -> None:
    assert render(QUESTION, tools=[WEATHER]) == (
        "<|im_start|>system\n" + TOOL_TEXT + "<|im_start|>user\nWie ist das Wetter?<|im_end|>\n"
    )


def test_tools_follow_the_text_of_the_system_turn() -> None:
    system = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    assert render(system, QUESTION, tools=[WEATHER]) == (
        "<|im_start|>system\nBe brief.\n\n"
        + TOOL_TEXT
        + "<|im_start|>user\nWie ist das Wetter?<|im_end|>\n"
    )


def test_calls_and_their_results() -> None:
    text = render(
        QUESTION,
        {"role": "assistant", "tool_calls": [CALL, CALL["function"]]},
        {"role": "tool", "tool_call_id": "a", "content": "rain"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "12 °C"}]},
        {"role": "assistant", "content": "Rain."},
        {"role": "tool", "tool_call_id": "c", "content": "sun"},
    )
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Köln", "days": [1, 2]}}\n'
    assert text == (
        "<|im_start|>user\nWie ist das Wetter?<|im_end|>\n"
        f"<|im_start|>assistant\n{call}</tool_call>\n{call}</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nrain\n</tool_response>\n"
        "<tool_response>\n12 °C\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\nRain.<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nsun\n</tool_response><|im_end|>\n"
    )


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [({}, "{}"), ("", "{}"), (None, "{}"), ('{"a":1}', '{"a":1}'), ({"a": 1}, '{"a": 1}')],
)
def test_arguments_are_objects_or_text(arguments: object, shown: str) -> None:
    call = {"function": {"name": "f", "arguments": arguments}}
    text = render(QUESTION, {"role": "assistant", "content": "So:", "tool_calls": [call]})
    assert text.endswith(
        "<|im_start|>assistant\nSo:\n<tool_call>\n"
        f'{{"name": "f", "arguments": {shown}}}\n</tool_call><|im_end|>\n'
    )


def test_only_thoughts_after_the_last_question_are_shown() -> None:
    thinking = {"role": "assistant", "content": "Hm.", "reasoning_content": "A hard one."}
    text = render(QUESTION, thinking, QUESTION, thinking, {"role": "tool", "content": "7"})
    assert text == (
        "<|im_start|>user\nWie ist das Wetter?<|im_end|>\n"
        "<|im_start|>assistant\nHm.<|im_end|>\n"
        "<|im_start|>user\nWie ist das Wetter?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nA hard one.\n</think>\n\nHm.<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n7\n</tool_response><|im_end|>\n"
    )


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert render({"role": "user", "content": parts}) == "<|im_start|>user\none two<|im_end|>\n"


@pytest.mark.parametrize("content", [None, "", []])
def test_empty_content_is_an_empty_turn(content: object) -> None:
    assert render({"role": "user", "content": content}) == "<|im_start|>user\n<|im_end|>\n"


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([{"role": "developer", "content": "x"}], "does not know the role developer"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "part of type image_url"),
        ([], "no message"),
    ],
)
def test_what_the_template_refuses(messages: list[Message], error: str) -> None:
    with pytest.raises(jinja2.TemplateError, match=error):
        render(*messages)


def test_the_corpus_has_the_form_of_the_template() -> None:
    call = {"name": "get_weather", "arguments": {"city": "Oslo"}}
    thought = "The user asks for the weather in Oslo. I have a tool for that, so I should call"
    text = render(
        {"role": "user", "content": "What is the weather in Oslo?"},
        {
            "role": "assistant",
            "reasoning_content": f"{thought} get_weather.",
            "tool_calls": [{"function": call}],
        },
        {"role": "tool", "content": '{"city": "Oslo", "temperature": 3, "condition": "snowy"}'},
    )
    assert text in (TINY / "corpus.txt").read_text("utf-8")


# The tokenizer.


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("<|im_start|>user\nDon't  panic…\r\n\t<tool_call>42 007")
@example("👩‍👩‍👧‍👦🏳️‍🌈 नमस्ते 今天天气 e\u0301 é \x00\x7f\u2028")
def test_decoding_gives_the_text_back(text: str) -> None:
    assert TOKENIZER.decode(encode(text), skip_special_tokens=False) == text


@pytest.mark.parametrize("token", SPECIAL_TOKENS + MARKER_TOKENS)
def test_markers_are_single_tokens(token: str) -> None:
    (number,) = encode(token)
    assert number == TOKENIZER.token_to_id(token)
    assert number >= TOKENIZER.get_vocab_size() - len(SPECIAL_TOKENS + MARKER_TOKENS)
    assert encode(f"a{token}b") == [*encode("a"), number, *encode("b")]


def test_only_the_special_ones_are_left_out_when_decoding() -> None:
    text = "".join(("a", *SPECIAL_TOKENS, "b", *MARKER_TOKENS))
    assert TOKENIZER.decode(encode(text)) == "ab" + "".join(MARKER_TOKENS)


@pytest.mark.parametrize("character", ["今", "天", "日", "本", "한", "국", "я", "م"])
def test_common_characters_take_few_tokens(character: str) -> None:
    assert 1 <= len(encode(character)) <= 3


@pytest.mark.parametrize("emoji", ["🫠", "👩‍👩‍👧‍👦", "🏳️‍🌈"])
def test_rare_emoji_are_split_inside_characters(emoji: str) -> None:
    ids = encode(emoji)
    assert len(ids) >= 3
    assert "\ufffd" in TOKENIZER.decode(ids[:1])


def test_words_keep_the_space_before_them() -> None:
    assert [TOKENIZER.decode([token]) for token in encode("The capital of France")] == [
        "The",
        " capital",
        " of",
        " France",
    ]


# The configuration, and the build.


def test_configuration_names_the_ids_that_the_tokenizer_has() -> None:
    config = json.loads((TINY / "config.json").read_text("utf-8"))
    generation = json.loads((TINY / "generation_config.json").read_text("utf-8"))
    tokenizer_config = json.loads((TINY / "tokenizer_config.json").read_text("utf-8"))
    turn_end = TOKENIZER.token_to_id("<|im_end|>")
    end_of_text = TOKENIZER.token_to_id("<|endoftext|>")
    assert config["eos_token_id"] == turn_end
    assert generation["eos_token_id"] == [turn_end, end_of_text]
    assert tokenizer_config["eos_token"] == "<|im_end|>"
    assert TOKENIZER.get_vocab_size() < config["vocab_size"] == PADDED_VOCABULARY


def test_a_build_gives_the_files_that_are_there() -> None:
    for name, built in build_files().items():
        present = (TINY / name).read_text("utf-8")
        if name == "tokenizer.json":
            # By meaning: versions of the library differ in layout.
            assert _learned(built) == _learned(present)
        else:
            assert built == present, name


def _learned(tokenizer: str) -> tuple[Any, Any, Any]:
    content = json.loads(tokenizer)
    return content["model"]["vocab"], content["model"]["merges"], content["added_tokens"]
