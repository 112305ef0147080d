"""Faults of answers that users of other servers have reported, each shown to be absent here.

Each answer is built from the same ids as a stream in the given pieces, as a stream of
single tokens, and as a whole; all have to come to the same. Above each test are the
reports that it is about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from tokenizers import AddedToken, Tokenizer

from sglrouter._fast.wire import GenerateReader
from sglrouter._proto import scheduler
from sglrouter.families.formats.forced_calls import forced
from sglrouter.families.formats.program import Tools
from sglrouter.families.reading import Reading
from sglrouter.families.registry import REASONING_FORMATS, TOOL_FORMATS
from sglrouter.output.chat import ChatCompletion, ChatStream
from sglrouter.output.choice import Choice
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.head import Head
from sglrouter.output.sample import Sample
from sglrouter.request.reasoning_start import starts_in_reasoning
from tests.families.reading import read_every_way
from tests.fast import messages
from tests.output import models
from tests.output.test_chat import events_of

TOKENIZER = models.byte_level((" world",))
FACTORY = DetokenizerFactory(TOKENIZER)
EOS = TOKENIZER.get_vocab()[models.EOS]
HEAD = Head(id="chatcmpl-1", created=1_700_000_000, model="m")

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = Tools([{"type": "function", "function": {"name": "get", "parameters": CITY}}])
QWEN = Reading(reasoning=REASONING_FORMATS["qwen3"], calls=TOOL_FORMATS["qwen25"], tools=TOOLS)
THINKING = Reading(
    reasoning=REASONING_FORMATS["qwen3"], calls=TOOL_FORMATS["qwen25"], tools=TOOLS, inside=True
)
GEMMA = REASONING_FORMATS["gemma4"]
PLAIN = Reading()


def call(arguments: str = "{}", name: str = "get") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


class Answer(NamedTuple):
    """What a client has in the end, and the deltas that it was streamed as."""

    content: str
    reasoning: str
    calls: list[tuple[str, str]]
    finish_reason: str | None
    matched_stop: int | str | None
    logprobs: list[dict[str, Any]]
    usage: dict[str, Any]
    deltas: list[dict[str, Any]]


def ids_of(text: str) -> list[int]:
    return models.byte_ids(TOKENIZER, text)


def streamed(reading: Reading, sequence: Sequence[bytes], options: dict[str, Any]) -> Answer:
    choice = Choice(
        Sample(FACTORY, eos_ids=[EOS], **options["sample"]), reading.parser(), **options["choice"]
    )
    stream = ChatStream(HEAD, [choice], FACTORY.piece, include_usage=True)
    said = stream.begin()
    for message in sequence:
        if choice.finish_reason is None:
            said += stream.feed(0, [message])
    *events, last = events_of(said + stream.end())
    content, reasoning, logprobs = "", "", []
    calls: list[tuple[str, str]] = []
    chunks = [event["choices"][0] for event in events]
    for chunk in chunks:
        delta = chunk["delta"]
        content += delta.get("content", "")
        reasoning += delta.get("reasoning_content", "")
        logprobs += (chunk["logprobs"] or {"content": []})["content"]
        for piece in delta.get("tool_calls", ()):
            function = piece["function"]
            if "id" in piece:
                calls.append((function["name"], ""))
            name, before = calls[piece["index"]]
            calls[piece["index"]] = name, before + function["arguments"]
    assert [chunk["finish_reason"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    return Answer(
        content,
        reasoning,
        calls,
        chunks[-1]["finish_reason"],
        chunks[-1]["matched_stop"],
        logprobs,
        last["usage"],
        [chunk["delta"] for chunk in chunks],
    )


def whole(reading: Reading, sequence: Sequence[bytes], options: dict[str, Any]) -> Answer:
    choice = Choice(
        Sample(FACTORY, eos_ids=[EOS], **options["sample"]), reading.parser(), **options["choice"]
    )
    completion = ChatCompletion(HEAD, [choice], FACTORY.piece)
    completion.feed(0, sequence)
    body = json.loads(completion.body())
    (got,) = body["choices"]
    message = got["message"]
    functions = [each["function"] for each in message.get("tool_calls", ())]
    return Answer(
        message["content"] or "",
        message.get("reasoning_content", ""),
        [(function["name"], function["arguments"]) for function in functions],
        got["finish_reason"],
        got["matched_stop"],
        (got["logprobs"] or {"content": []})["content"],
        body["usage"],
        [],
    )


def answer(
    reading: Reading,
    parts: Sequence[str | Sequence[int]],
    *,
    reason: str = "stop",
    top: int | None = None,
    choice: dict[str, Any] | None = None,
    **sample: Any,
) -> Answer:
    """An answer whose text, or ids, comes in these parts, in every way that it can come."""
    deltas = [ids_of(part) if isinstance(part, str) else list(part) for part in parts]
    ids = [token for delta in deltas for token in delta]
    options = {"sample": {**sample, "logprobs": top is not None}, "choice": choice or {}}
    got = streamed(reading, messages.sample(deltas, reason=reason, top=top), options)
    for other in (
        streamed(
            reading, messages.sample([[each] for each in ids], reason=reason, top=top), options
        ),
        whole(
            reading, messages.sample([ids], messages.Style.NOT_STREAMED, reason, top=top), options
        ),
    ):
        assert other._replace(usage={}, deltas=[]) == got._replace(usage={}, deltas=[])
    return got


# Reasoning.


# llama.cpp#14060
def test_a_bracket_in_thoughts_waits_for_what_it_is() -> None:
    parts = ["<think>use iface ", "<", "name> ok", "</think>Done"]
    got = answer(QWEN, parts)
    assert (got.reasoning, got.content) == ("use iface <name> ok", "Done")
    pieces = [delta["reasoning_content"] for delta in got.deltas if "reasoning_content" in delta]
    assert pieces == ["use iface ", "<name> ok"]


# Rapid-MLX#575
def test_thoughts_that_are_cut_off_are_no_content() -> None:
    got = answer(THINKING, ["First I ", "compare"], reason="length")
    assert (got.reasoning, got.content, got.finish_reason) == ("First I compare", "", "length")


@pytest.mark.parametrize(
    ("reading", "parts", "reasoning", "content"),
    [
        # lmdeploy#3664
        (QWEN, ["<think>", "\n", "why", "</think>", "yes"], "\nwhy", "yes"),
        (QWEN, ["yes"], "", "yes"),
        # SwiftLM#108, oh-my-pi#10575
        (THINKING, ["a+b…\n</think>\n\n12"], "a+b…\n", "\n\n12"),
        # smg PR#1635
        (THINKING, ["hm</th", "ink>ok"], "hm", "ok"),
        # smg#1998, smg PR#2523, TensorRT-LLM#17156
        (THINKING, ["value is 3 <", "/thi"], "value is 3 </thi", ""),
        (QWEN, ["value is 3 ", "<"], "", "value is 3 <"),
        (QWEN, ["<thi"], "", "<thi"),
    ],
)
def test_reasoning_is_split_at_its_markers(
    reading: Reading, parts: list[str], reasoning: str, content: str
) -> None:
    got = answer(reading, parts, reason="length")
    assert (got.reasoning, got.content) == (reasoning, content)


# vllm#42781, vllm#41691, vllm#39885
def test_words_around_the_end_of_gemmas_thoughts_stay() -> None:
    reading = Reading(reasoning=GEMMA, calls=TOOL_FORMATS["gemma4"], tools=TOOLS, inside=True)
    got = answer(reading, ["I should", " be brief<channel|>Hel", "lo"])
    assert (got.reasoning, got.content) == ("I should be brief", "Hello")
    # A prompt that has not opened them says that they are none; the output may.
    closed = Reading(reasoning=GEMMA, calls=TOOL_FORMATS["gemma4"], tools=TOOLS)
    got = answer(closed, ["<|channel>thought\nI should", " be brief<channel|>Hel", "lo"])
    assert (got.reasoning, got.content) == ("I should be brief", "Hello")


# vllm#39056
def test_a_call_in_open_thoughts_is_delivered() -> None:
    parts = ["<think>need data ", "<tool_c", 'all>\n{"name":"get","arguments":{}}\n</tool_call>']
    got = answer(QWEN, parts)
    assert (got.reasoning, got.calls) == ("need data ", [("get", "{}")])
    assert (got.content, got.finish_reason) == ("", "tool_calls")


# renderers#78: in families whose calls do not end reasoning
def test_a_call_that_thoughts_only_mention_is_none() -> None:
    reading = Reading(
        reasoning=REASONING_FORMATS["deepseek-r1"], calls=TOOL_FORMATS["hermes"], tools=TOOLS
    )
    got = answer(reading, [f"<think>I could use {call()} but no</think>Nothing to do."])
    assert (got.calls, got.content, got.finish_reason) == ([], "Nothing to do.", "stop")
    assert got.reasoning == f"I could use {call()} but no"


# sglang#17551
@pytest.mark.parametrize("tail", ["<think>", "</think>"])
def test_the_prompts_tail_decides_after_a_tools_result(tail: str) -> None:
    prompt = f"<｜User｜>hi<｜Assistant｜><think>x</think><｜tool▁output▁end｜>20{tail}"
    reading = Reading(
        reasoning=REASONING_FORMATS["deepseek-v3"],
        calls=TOOL_FORMATS["deepseekv32"],
        tools=TOOLS,
        inside=starts_in_reasoning(prompt, "<think>", "</think>"),
    )
    got = answer(reading, ["It is 20 ", "degrees"])
    said = (got.reasoning, got.content)
    assert said == (("It is 20 degrees", "") if tail == "<think>" else ("", "It is 20 degrees"))


# vllm PR#50624, mlx-vlm#1408
def test_reasoning_has_the_name_that_clients_read() -> None:
    sequence = messages.sample([ids_of("hm</think>ok")])
    for fields in (("reasoning_content",), ("reasoning",), ("reasoning_content", "reasoning")):
        more: dict[str, Any] = {"reasoning_fields": fields}
        if fields == ("reasoning_content",):
            more = {}  # what nobody has to ask for
        choices = [Choice(Sample(FACTORY), THINKING.parser()) for _ in range(2)]
        stream = ChatStream(HEAD, choices[:1], FACTORY.piece, **more)
        events = events_of(stream.feed(0, sequence) + stream.end())
        assert events[0]["choices"][0]["delta"] == dict.fromkeys(fields, "hm")
        completion = ChatCompletion(HEAD, choices[1:], FACTORY.piece, **more)
        completion.feed(0, sequence)
        message = json.loads(completion.body())["choices"][0]["message"]
        assert message == {"role": "assistant", "content": "ok", **dict.fromkeys(fields, "hm")}


# Usage.


# sglang#15660, smg PR#1747
@pytest.mark.parametrize("in_chunks", [False, True])
def test_the_engines_count_of_reasoning_is_told(in_chunks: bool) -> None:
    ids = ids_of("hm</think>ok")
    end = scheduler.GenerateComplete(
        output_ids=ids, finish_reason="stop", completion_tokens=len(ids), reasoning_tokens=10
    )
    sequence = [scheduler.GenerateResponse(complete=end).SerializeToString()]
    if in_chunks:
        sequence = [messages.chunk([token], i + 1) for i, token in enumerate(ids)] + sequence
    options: dict[str, Any] = {"sample": {}, "choice": {}}
    for got in (streamed(THINKING, sequence, options), whole(THINKING, sequence, options)):
        assert got.usage["completion_tokens_details"] == {"reasoning_tokens": 10}


# Streams.


# ollama#7881, vercel/ai#7238, langchain PR#35678, spring-ai PR#6525, lmdeploy#3412,
# sglang PR#35625, cursor-byok PR#391, ovms#3927
def test_every_piece_of_a_call_has_its_index_and_the_first_its_name() -> None:
    first = call('{"city": "Rio"}')
    got = answer(QWEN, [first[:45], first[45:50], first[50:], call('{"city": "Bern"}')])
    pieces = [piece for delta in got.deltas for piece in delta.get("tool_calls", ())]
    begun = [piece for piece in pieces if "id" in piece]
    assert len(pieces) > len(begun)
    for piece in pieces:
        assert type(piece["index"]) is int
        if piece in begun:
            assert set(piece) == {"index", "id", "type", "function"}
            assert set(piece["function"]) == {"name", "arguments"}
        else:
            assert set(piece) == {"index", "function"}
            assert set(piece["function"]) == {"arguments"}
    assert [(piece["index"], piece["function"]["name"]) for piece in begun] == [
        (0, "get"),
        (1, "get"),
    ]
    assert begun[0]["id"] != begun[1]["id"]
    assert [json.loads(arguments) for _, arguments in got.calls] == [
        {"city": "Rio"},
        {"city": "Bern"},
    ]
    assert got.finish_reason == "tool_calls"


# llama.cpp PR#20729
@pytest.mark.parametrize(
    "end",
    ['<tool_call>\n{"name": "get", "arguments": {"city": 1,,}}}</tool_', "<tool_call>{]", "<tool_"],
)
def test_bad_markup_at_the_end_does_not_break_the_answer(end: str) -> None:
    got = answer(QWEN, ["ok ", end], reason="length")
    assert got.content.startswith("ok ")
    assert got.finish_reason == "length"


# FastFlowLM PR#500
@pytest.mark.parametrize("reason", ["abort", "cancel", "error", "unknown"])
def test_a_reason_that_clients_do_not_know_is_an_error(reason: str) -> None:
    sample = Sample(FACTORY)
    choice = Choice(sample)
    stream = ChatStream(HEAD, [choice], FACTORY.piece)
    events = stream.feed(0, messages.sample([ids_of("so far")], reason=reason))
    assert choice.finish_reason is None
    assert sample.failure is not None
    content, error = events_of(events + stream.fail(sample.failure))
    assert content["choices"][0]["delta"] == {"content": "so far"}
    assert error["error"]["type"] == "server_error"
    assert reason in error["error"]["message"]


# Log probabilities.


# sglang#26778, sglang#28456, vllm#37737, sglang#25055
def test_every_token_has_its_log_probability_once() -> None:
    text = f"<think>hm</think>So {call()} ok"
    got = answer(QWEN, [text[:10], text[10:40], text[40:]], top=0)
    assert (got.reasoning, len(got.calls), got.content) == ("hm", 1, "So  ok")
    assert "".join(entry["token"] for entry in got.logprobs) == text


# sglang#39260
def test_every_token_of_a_chunk_has_alternatives_of_its_own() -> None:
    ids = ids_of("abc")
    got = answer(PLAIN, [ids], top=2)
    for token, entry in zip(ids, got.logprobs, strict=True):
        values = [each["logprob"] for each in entry["top_logprobs"]]
        assert values == [messages.logprob_of(token), messages.logprob_of(token + 1)]


# sglang PR#21583
def test_log_probabilities_that_are_sent_again_are_told_once() -> None:
    ids = ids_of("abcdef")
    sequence = []
    for start, end in ((0, 1), (1, 1), (1, 4), (4, 6)):
        chunk = scheduler.GenerateStreamChunk(token_ids=ids[start:end], completion_tokens=end)
        chunk.output_logprobs.CopyFrom(messages.logprobs(ids[:end], 1))
        sequence.append(scheduler.GenerateResponse(chunk=chunk).SerializeToString())
    sequence.append(messages.complete(ids, len(ids), top=1))
    options: dict[str, Any] = {"sample": {"logprobs": True}, "choice": {}}
    for got in (streamed(PLAIN, sequence, options), whole(PLAIN, sequence, options)):
        assert "".join(entry["token"] for entry in got.logprobs) == "abcdef"
        assert [entry["logprob"] for entry in got.logprobs] == [
            messages.logprob_of(token) for token in ids
        ]


# Stop strings.


@pytest.mark.parametrize(
    ("reading", "stop", "parts", "reasoning", "content", "matched"),
    [
        # vllm#3574, TGI#1254, mlx-knife#68
        (PLAIN, "QRSTU", ["OP", "QR", "ST", "U", "V"], "", "OP", True),
        (PLAIN, "QRSTU", ["OP", "QR", "ST", "V"], "", "OPQRSTV", False),
        # SwiftLM#126
        (THINKING, "<END>", ["hm</think>ok<", "END>x"], "hm", "ok", True),
        (THINKING, "<END>", ["ok<", "END>x"], "ok", "", True),
        # vllm PR#45636
        (THINKING, "STOP", ["a</think>", "b"], "a", "b", False),
        (THINKING, "k>b!", ["a</think>", "b"], "a", "b", False),
    ],
)
def test_stop_strings_and_reasoning_do_not_mix(
    reading: Reading, stop: str, parts: list[str], reasoning: str, content: str, matched: bool
) -> None:
    got = answer(reading, parts, stop=[stop])
    assert (got.reasoning, got.content) == (reasoning, content)
    assert (got.finish_reason, got.matched_stop) == ("stop", stop if matched else None)


# smg PR#2203
def test_only_what_may_become_a_stop_string_waits() -> None:
    stop = [f"</tool_call>{'!' * 100}", "z" * 100]
    got = answer(QWEN, ["Hello", " there", call()], stop=stop)
    pieces = [delta["content"] for delta in got.deltas if delta.get("content")]
    assert pieces == ["Hello", " there"]
    # What had waited at the end was read as the end of the call.
    assert (got.calls, got.finish_reason) == ([("get", "{}")], "tool_calls")


# Text of tokens.


# sglang#34740, sglang PR#34852
@pytest.mark.parametrize(
    ("make", "symbol"),
    [
        (models.metaspace_with_bytes, "\ufffd"),
        (models.metaspace_with_bytes, "<0x80>"),
        (lambda: models.byte_fallback(strip=False), "\ufffd"),
        (lambda: models.byte_fallback(strip=False), "<0x80>"),
    ],
)
def test_replacement_characters_do_not_pile_up(make: Callable[[], Tokenizer], symbol: str) -> None:
    tokenizer = make()
    (token,) = models.ids_of(tokenizer, symbol)
    decoder = DetokenizerFactory(tokenizer).new(skip_special=True, stop_ids=())
    text = b""
    for count in range(1, 2001):
        reader = GenerateReader()
        reader.feed(messages.chunk([token], count))
        text += decoder.feed(reader)
        assert len(text) >= 3 * (count - 16)
    assert (text + decoder.finish()).decode() == "\ufffd" * 2000


# lattice#751
def test_half_a_character_at_the_end_shows_in_both_ways() -> None:
    got = answer(PLAIN, [[*ids_of("a"), ids_of("é")[0]], [EOS]])
    assert (got.content, got.finish_reason) == ("a\ufffd", "stop")


# mlx-vlm#1771, mlx-vlm PR#1778
def test_a_space_does_not_cut_a_character() -> None:
    lead = ids_of("日")[:2]
    (world,) = models.ids_of(TOKENIZER, "\u0120world")
    got = answer(PLAIN, [ids_of("a"), lead, [world]])
    pieces = [delta["content"] for delta in got.deltas if delta.get("content")]
    assert pieces == ["a", "\ufffd world"]
    got = answer(PLAIN, [lead, ids_of("日")[2:], [world]])
    assert [delta["content"] for delta in got.deltas if delta.get("content")] == ["日", " world"]


# tt-inference-server#2586, ferrox#124, vllm-mlx PR#109
def test_an_emoji_of_two_tokens_comes_whole() -> None:
    ids = ids_of("🚀")
    got = answer(PLAIN, [ids[:2], ids[2:]])
    assert [delta["content"] for delta in got.deltas if delta.get("content")] == ["🚀"]


# smg PR#1122
@pytest.mark.parametrize("skip_special", [True, False])
def test_a_second_end_of_text_does_not_show(skip_special: bool) -> None:
    tokenizer = models.byte_level()
    tokenizer.add_special_tokens([AddedToken("<|eot_id|>", special=True)])
    factory = DetokenizerFactory(tokenizer)
    first, second = models.ids_of(tokenizer, models.EOS, "<|eot_id|>")
    sample = Sample(factory, eos_ids=[first, second], skip_special=skip_special)
    ids = [*models.byte_ids(tokenizer, "hi"), second]
    text = sample.feed(messages.sample([ids], reason="stop", matched=second)).text
    assert (text, sample.finish_reason) == (b"hi", "stop")


# smg PR#1090
def test_special_tokens_reach_the_parser_and_not_the_client() -> None:
    tokenizer = models.byte_level()
    markers = ["<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"]
    markers += ["<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"]
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in [*markers, "<pad>"]])
    factory = DetokenizerFactory(tokenizer)
    begin, one, separator, end, over, pad = models.ids_of(tokenizer, *markers, "<pad>")
    reading = Reading(calls=TOOL_FORMATS["deepseekv31"], tools=TOOLS)
    get, arguments = models.byte_ids(tokenizer, "get"), models.byte_ids(tokenizer, '{"city": "x"}')
    ids = [*models.byte_ids(tokenizer, "Hi"), pad, begin, one, *get, separator, *arguments, end]
    sample = Sample(factory, shown=factory.special_tokens_in(reading.markers))
    choice = Choice(sample, reading.parser())
    piece = choice.feed(messages.sample([[*ids, over]], reason="stop"))
    assert piece.content == b"Hi"
    assert [(name, text) for _, _, name, text in piece.calls] == [("get", b'{"city": "x"}')]
    assert choice.finish_reason == "tool_calls"


# Calls.


# sglang PR#23863
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(
    ("parser", "text"),
    [
        ("hermes", call(name="mystery")),
        ("deepseekv31", "<｜tool▁call▁begin｜>mystery<｜tool▁sep｜>{}<｜tool▁call▁end｜>"),
    ],
)
def test_an_unknown_function_and_why_the_answer_ended_agree(
    parser: str, text: str, drop: bool
) -> None:
    reading = Reading(calls=TOOL_FORMATS[parser], tools=TOOLS, drop_unknown=drop)
    got = answer(reading, ["So. ", text])
    assert got.content == "So. "
    assert got.calls == ([] if drop else [("mystery", "{}")])
    assert got.finish_reason == ("stop" if drop else "tool_calls")


# vllm#51977, vllm#23567, vllm PR#52055
@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary to=functions.get extra words<|message|>",
        "<|channel|>commentary to=functions.get<|constrain|>json<|constrain|>json<|message|>",
        "<|channel|>commentary commentary to=functions.get <|message|>",
    ],
)
def test_a_malformed_header_is_no_error(header: str) -> None:
    reading = Reading(calls=TOOL_FORMATS["gpt-oss"], tools=TOOLS)
    got = answer(reading, [f'{header}{{"city": ', '"x"}<|call|>'])
    assert got.calls == [("get", '{"city": "x"}')]
    assert got.finish_reason == "tool_calls"


# vllm#55080, sglang#30925
@pytest.mark.parametrize(
    "markup",
    [call(), "<tool_call>get<arg_key>city</arg_key><arg_value>x</arg_value></tool_call>"],
)
def test_without_a_parser_what_looks_like_a_call_stays(markup: str) -> None:
    got = answer(PLAIN, ["Sure. ", markup, " Done."])
    assert (got.content, got.calls) == (f"Sure. {markup} Done.", [])
    assert got.finish_reason == "stop"


# sglang#9696
def test_one_call_where_one_is_wanted() -> None:
    got = answer(QWEN, [call() + call(), call()], choice={"first_call_only": True})
    assert (got.calls, got.finish_reason) == ([("get", "{}")], "tool_calls")


# sglang PR#12894
@pytest.mark.parametrize(
    ("parser", "text"),
    [
        *[
            (parser, f'[{{"name": "get", "{key}": {{"city": "x"}}}}]')
            for parser in ("hermes", "mistral", "pythonic", "glm45")
            for key in ("parameters", "arguments")
        ],
        ("hermes", call('{"city": "x"}')),
        ("glm45", "<tool_call>get<arg_key>city</arg_key><arg_value>x</arg_value></tool_call>"),
        # These begin with a bracket, as the array does.
        ("mistral", '[TOOL_CALLS][{"name": "get", "arguments": {"city": "x"}}]'),
        ("mistral", '[TOOL_CALLS]get[ARGS]{"city": "x"}'),
        ("pythonic", '[get(city="x")]'),
        ("lfm2", '[{"nothing": 1}] <|tool_call_start|>[get(city="x")]<|tool_call_end|>'),
    ],
)
def test_a_forced_call_is_read_however_it_is_written(parser: str, text: str) -> None:
    reading = Reading(calls=forced(TOOL_FORMATS[parser]), tools=TOOLS)
    result = read_every_way(reading, text)
    assert [(each.name, json.loads(each.arguments)) for each in result.calls] == [
        ("get", {"city": "x"})
    ]
    assert result.content.strip() in ("", '[{"nothing": 1}]')


# vllm#58127: the family's models of today do not wrap their answers, so a tag is the answer's.
def test_a_tag_around_the_answer_is_shown_whole() -> None:
    reading = Reading(
        reasoning=REASONING_FORMATS["hunyuan"], calls=TOOL_FORMATS["hunyuan"], tools=TOOLS
    )
    assert answer(reading, ["<answer>hi</ans", "wer>"]).content == "<answer>hi</answer>"


# langchain#39275, langchainjs#11469
@pytest.mark.parametrize("reason", ["length", "stop"])
def test_arguments_that_are_cut_off_are_not_repaired(reason: str) -> None:
    text = call('{"city": "Lima", "day": "monday"}')
    got = answer(QWEN, [text[:50], text[50:62]], reason=reason)
    ((name, arguments),) = got.calls
    assert name == "get"
    with pytest.raises(json.JSONDecodeError):
        json.loads(arguments)
    assert got.finish_reason == reason
