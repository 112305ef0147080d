"""Request bodies of every kind, for tests that throw them at a router."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import strategies as st

from sglrouter.schema.chat import ChatRequest

VOCAB = 4096

numbers = st.one_of(
    st.none(),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [-2, -1, 0, 1, 2, VOCAB - 1, VOCAB, VOCAB + 1, 0.0, -0.0, 1.0, 1.5, -1e-9, 1e-46, 1e300]
    ),
)
# As they are, in quotes, and what Python writes for what JSON does not have.
loose = st.one_of(
    numbers,
    numbers.map(str),
    st.sampled_from([True, "nan", "inf", "-inf", "1e400", "0x10", "", float("nan"), float("inf")]),
)
ids = st.one_of(
    st.integers(-2, VOCAB + 2),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**64, -(2**32)]),
)
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["\0", "\ud800", "\u2028", "<|im_end|>", "<|im_start|>", "\U0010ffff" * 3, "{%"]
    ),
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), loose, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)
switches = st.one_of(st.none(), st.booleans(), st.sampled_from(["true", "0", 1, 2, "no"]))

contents = st.one_of(
    texts,
    st.none(),
    st.lists(
        st.one_of(st.builds(lambda text: {"type": "text", "text": text}, texts), anything),
        max_size=3,
    ),
)
functions = st.fixed_dictionaries(
    {"name": st.one_of(st.sampled_from(["f", "g"]), texts)},
    optional={
        "description": anything,
        "parameters": st.one_of(st.just({"type": "object"}), anything),
    },
)
messages = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {
                "role": st.sampled_from(["system", "user", "assistant", "tool", "developer"]),
                "content": contents,
            },
            optional={
                "name": texts,
                "tool_call_id": texts,
                "reasoning_content": texts,
                "tool_calls": st.one_of(
                    anything,
                    st.lists(
                        st.builds(
                            lambda name, arguments: {
                                "id": "c",
                                "type": "function",
                                "function": {"name": name, "arguments": arguments},
                            },
                            texts,
                            st.one_of(anything, st.just('{"a": 1}')),
                        ),
                        max_size=2,
                    ),
                ),
            },
        ),
        st.dictionaries(st.sampled_from(["role", "content"]), anything),
    ),
    max_size=3,
)
formats = st.one_of(
    st.sampled_from([{"type": "text"}, {"type": "json_object"}]),
    st.builds(lambda schema: {"type": "json_schema", "json_schema": {"schema": schema}}, anything),
    st.builds(lambda tag: {"type": "structural_tag", "structures": tag, "triggers": []}, anything),
    anything,
)
choices = st.one_of(
    st.sampled_from(["none", "auto", "required", {"type": "function", "function": {"name": "f"}}]),
    anything,
)

_OWN: dict[str, st.SearchStrategy[Any]] = {
    "model": texts,
    "stream": switches,
    "stream_options": st.one_of(
        st.none(), st.fixed_dictionaries({"include_usage": switches}), anything
    ),
    "n": st.one_of(st.integers(1, 3), loose),
    "temperature": loose,
    "top_p": loose,
    "top_k": loose,
    "min_p": loose,
    "frequency_penalty": loose,
    "presence_penalty": loose,
    "repetition_penalty": loose,
    "logit_bias": st.dictionaries(st.one_of(ids.map(str), texts), loose, max_size=3),
    "seed": loose,
    "max_tokens": st.one_of(st.integers(1, 5), loose),
    "max_completion_tokens": st.one_of(st.integers(1, 5), loose),
    "min_tokens": st.one_of(st.integers(0, 5), loose),
    "stop": st.one_of(texts, st.lists(texts, max_size=40), anything),
    "stop_token_ids": st.one_of(st.lists(ids, max_size=4), st.lists(loose, max_size=2)),
    "ignore_eos": switches,
    "no_stop_trim": switches,
    "skip_special_tokens": switches,
    "logprobs": switches,
    "top_logprobs": st.one_of(st.integers(0, 25), loose),
    "response_format": formats,
    "regex": st.one_of(texts, st.sampled_from(["a+", "(", "[", "(a+)+$", ""])),
    "ebnf": st.one_of(texts, st.sampled_from(['root ::= "a"', "root ::= ", "x", ""])),
    "tools": st.one_of(
        st.lists(st.builds(lambda f: {"type": "function", "function": f}, functions), max_size=3),
        anything,
    ),
    "tool_choice": choices,
    "parallel_tool_calls": switches,
    "functions": st.one_of(st.lists(functions, max_size=2), anything),
    "function_call": st.one_of(st.sampled_from(["none", "auto", {"name": "f"}]), anything),
    "chat_template_kwargs": anything,
    "reasoning_effort": st.one_of(st.sampled_from(["low", "none"]), loose, texts),
    "reasoning": st.one_of(st.fixed_dictionaries({"effort": texts, "enabled": switches}), anything),
    "enable_thinking": switches,
    "thinking": st.one_of(switches, st.just({"type": "disabled"}), anything),
    "add_generation_prompt": switches,
    "continue_final_message": switches,
    "lora_path": st.one_of(st.none(), texts, st.just("")),
    "input_ids": st.one_of(st.lists(ids, max_size=4), anything),
    "data_parallel_rank": ids,
    "routed_dp_rank": ids,
}

# One for each field that the router knows, apart from messages.
FIELDS = {
    field.name: _OWN.get(field.name, anything)
    for field in msgspec.structs.fields(ChatRequest)
    if field.name != "messages"
}

_USUAL = {"max_tokens": 3, "messages": [{"role": "user", "content": "x"}]}

# What is nothing special, for company: parameters act together.
_GOOD: dict[str, st.SearchStrategy[Any]] = {
    "stream": st.booleans(),
    "n": st.integers(1, 2),
    "temperature": st.floats(0, 2),
    "top_p": st.floats(0.1, 1),
    "top_k": st.sampled_from([-1, 1, 40]),
    "min_p": st.floats(0, 1),
    "frequency_penalty": st.floats(-2, 2),
    "presence_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.5, 2),
    "logit_bias": st.dictionaries(st.integers(0, VOCAB - 1).map(str), st.integers(-100, 100)),
    "max_completion_tokens": st.integers(1, 5),
    "min_tokens": st.integers(0, 1),
    "stop": st.lists(st.text(min_size=1, max_size=3), max_size=3),
    "stop_token_ids": st.lists(st.integers(0, VOCAB - 1), max_size=3),
    "ignore_eos": st.booleans(),
    "no_stop_trim": st.booleans(),
    "skip_special_tokens": st.booleans(),
    "logprobs": st.booleans(),
    "tools": st.just([{"type": "function", "function": {"name": "f"}}]),
    "response_format": st.just({"type": "json_object"}),
    "reasoning_effort": st.just("low"),
    "seed": st.integers(),
}


def _around(*bounds: float) -> st.SearchStrategy[Any]:
    """Numbers at the bounds, beside them and far away, in each form that is read."""
    values = [bound + step for bound in bounds for step in (-1, -1e-6, 0, 1e-6, 1)]
    return st.one_of(
        st.sampled_from([*values, -(2**32) - 2, 2**31, 2**32 + 1, 1e39, 1e300]),
        *[st.sampled_from(bounds).map(lambda bound: bound - 1)] * 2,
        st.sampled_from(bounds).map(lambda bound: str(bound + 1)),
    )


def _fields(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(strategies)


_ids = st.one_of(
    st.sampled_from([VOCAB, VOCAB + 1, VOCAB - 1, -1, 2**31 - 1, 2**32 - 1, 2**32]), ids
)

# Each known way to kill or hang an engine, and its neighbourhood.
ATTACKS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "min_p": _fields(min_p=_around(0, 1)),
    "top_k": _fields(top_k=_around(-1, 0)),
    "top_p": _fields(top_p=_around(0, 1)),
    "temperature": _fields(temperature=_around(0)),
    "repetition_penalty": _fields(repetition_penalty=_around(0, 2)),
    "penalties": _fields(frequency_penalty=_around(-2, 2), presence_penalty=_around(0)),
    "logit_bias": _fields(
        logit_bias=st.dictionaries(
            st.one_of(_ids.map(str), _ids.map(str), texts, st.sampled_from(["1.0", "1e3", "+1"])),
            st.integers(-100, 100),
            min_size=1,
            max_size=2,
        )
    ),
    "stop_token_ids": _fields(
        stop_token_ids=st.lists(_ids, min_size=1, max_size=2), min_tokens=st.integers(1, 3)
    ),
    "top_logprobs": _fields(logprobs=st.just(True), top_logprobs=_around(0, 20, VOCAB)),
    "lengths": _fields(min_tokens=_around(0, 3), max_tokens=_around(0, 3)),
    "n": _fields(n=_around(0, 16)),
    "stop": _fields(stop=st.lists(st.just("x"), min_size=31, max_size=34)),
    "ids": _fields(input_ids=st.lists(_ids, max_size=2), data_parallel_rank=ids),
    "prompt": _fields(
        messages=st.sampled_from([[], [{"role": "user", "content": ""}], [{"role": "user"}]])
    ),
    "lora_path": _fields(lora_path=texts),
}
# Those that have ended an engine, not only puzzled it.
_DEADLY = ("min_p", "top_k", "repetition_penalty", "logit_bias", "stop_token_ids", "top_logprobs")


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A usual body with something in it that is not."""
    names = draw(st.lists(st.sampled_from(sorted(_GOOD)), max_size=4, unique=True))
    fields = _USUAL | {name: draw(_GOOD[name]) for name in names}
    kind = draw(st.sampled_from(["attack", "attack", "attack", "field", "messages"]))
    if kind == "attack":
        fields |= draw(ATTACKS[draw(st.sampled_from(_DEADLY + _DEADLY + tuple(ATTACKS)))])
    elif kind == "messages":
        fields["messages"] = draw(st.one_of(messages, anything))
    else:
        for name in draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=2)):
            fields[name] = draw(FIELDS[name])
    return json.dumps(fields).encode()


@st.composite
def broken_bodies(draw: st.DrawFn) -> bytes:
    """A body cut, doubled or with a few bytes changed, or any bytes at all."""
    body = bytearray(draw(bodies()))
    kind = draw(st.sampled_from(["cut", "change", "insert", "any"]))
    at = draw(st.integers(0, len(body)))
    noise = draw(st.binary(max_size=6))
    if kind == "cut":
        del body[at:]
    elif kind == "change":
        body[at : at + len(noise)] = noise
    elif kind == "insert":
        body[at:at] = noise
    else:
        return noise
    return bytes(body)
