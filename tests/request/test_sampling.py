"""Every bound of a request, and the requests that an engine would not survive."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter._proto import scheduler
from sglrouter.engines.wire import scheduler as backend
from sglrouter.engines.wire.scheduler import Sampling, generate_request
from sglrouter.errors import BadRequest
from sglrouter.request.limits import Limits, check_prompt
from sglrouter.request.sampling import (
    MAX_BIASES,
    MAX_STOP_LENGTH,
    MAX_STOP_TOKEN_IDS,
    MAX_STOPS,
    RANGES,
    check_logprobs,
    choices,
    sampling,
    top_logprobs,
)
from sglrouter.request.sampling_defaults import usable
from sglrouter.schema.chat import ChatRequest

VOCAB = 1000
CONTEXT = 100
# What the engine leaves after the ten tokens of a prompt.
ROOM = 88
LIMITS = Limits(vocab_size=VOCAB, context_length=CONTEXT, max_prompt_tokens=0, max_n=4)
ROOMY = Limits(vocab_size=VOCAB, context_length=0, max_prompt_tokens=0, max_n=4)


def request(**fields: Any) -> ChatRequest:
    return ChatRequest(messages=[{"role": "user", "content": "hi"}], **fields)


def sampled(
    *,
    defaults: dict[str, float] | None = None,
    limits: Limits = LIMITS,
    prompt_tokens: int = 10,
    **fields: Any,
) -> Sampling:
    return sampling(
        request(**fields),
        prompt_tokens=prompt_tokens,
        defaults=defaults or {},
        limits=limits,
        constraint=None,
    )


def refusal(**fields: Any) -> BadRequest:
    with pytest.raises(BadRequest) as raised:
        sampled(**fields)
    error = raised.value
    assert error.status == 400
    assert error.param is not None
    assert error.param in error.message
    return error


def test_what_nobody_sets_is_neutral() -> None:
    assert sampled() == Sampling()


@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k", "min_p", "repetition_penalty"])
def test_the_request_wins_over_the_models_default_over_ours(name: str) -> None:
    neutral = getattr(Sampling(), name)
    models, wish = (20, 7) if name == "top_k" else (0.25, 0.5)
    wishes: dict[str, Any] = {name: wish}
    assert getattr(sampled(), name) == neutral
    assert getattr(sampled(defaults={name: models}), name) == models
    assert getattr(sampled(defaults={name: models}, **wishes), name) == wish


def test_a_wish_of_zero_is_a_wish() -> None:
    assert sampled(defaults={"temperature": 0.6, "min_p": 0.1}, temperature=0.0, min_p=0.0) == (
        Sampling(temperature=0.0, min_p=0.0)
    )


BOUNDS: list[tuple[str, list[Any], list[Any]]] = [
    ("temperature", [0.0, 0.7, 2.0, 5.0, 1e30], [-0.01, -1.0, 3.5e38, 1e300]),
    ("top_p", [1e-9, 0.5, 1.0], [0.0, -0.1, 1.01, 2.0]),
    ("top_k", [-1, 0, 1, 40, 2**31 - 1], [-2, -100, 2**31, 10**30]),
    ("min_p", [0.0, 0.5, 1.0], [-0.01, 1.01, 2.0]),
    ("frequency_penalty", [-2.0, 0.0, 2.0], [-2.01, 2.01, 50.0]),
    ("presence_penalty", [-2.0, 0.0, 2.0], [-2.01, 2.01, 50.0]),
    ("repetition_penalty", [0.01, 1.0, 2.0], [0.0, -0.0, -0.1, 2.01]),
    ("max_tokens", [1, 50, 10**30], [0, -1, -(10**30)]),
    ("max_completion_tokens", [1, 50, 10**30], [0, -1]),
    ("min_tokens", [0, 1, 10**30], [-1]),
    (
        "stop_token_ids",
        [[], [0], [VOCAB - 1], [1] * MAX_STOP_TOKEN_IDS],
        [[VOCAB], [-1], [0, 10**30], [1] * (MAX_STOP_TOKEN_IDS + 1)],
    ),
    (
        "logit_bias",
        [{}, {"0": 100.0}, {str(VOCAB - 1): -100.0}, {"007": 1.0}],
        [
            {str(VOCAB): 1.0},
            {"-1": 1.0},
            {"": 1.0},
            {"x": 1.0},
            {"1.0": 1.0},
            {" 1": 1.0},
            {"+1": 1.0},
            {"1_0": 1.0},
            {"٣": 1.0},
            {"9" * 5000: 1.0},
            {"1": 100.01},
            {"1": -100.01},
            {str(i): 0.0 for i in range(MAX_BIASES + 1)},
        ],
    ),
    (
        "stop",
        [[], "", "a", ["a"] * MAX_STOPS, "a" * MAX_STOP_LENGTH, ["a" * MAX_STOP_LENGTH]],
        [["a"] * (MAX_STOPS + 1), "a" * (MAX_STOP_LENGTH + 1), ["a", "a" * 10**6]],
    ),
]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, good, _ in BOUNDS for value in good]
)
def test_values_up_to_the_bounds_are_sent(name: str, value: Any) -> None:
    fields: dict[str, Any] = {name: value}
    assert_safe(sent(sampled(**fields)), ROOM)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, _, bad in BOUNDS for value in bad]
)
def test_values_beyond_the_bounds_are_refused_by_name(name: str, value: object) -> None:
    error = refusal(**{name: value})
    assert (error.param, error.code) == (name, "invalid_value")
    # What was sent is not sent back whole.
    assert len(error.message) < 300


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "name",
    [
        "temperature",
        "top_p",
        "min_p",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
    ],
)
def test_what_is_not_a_number_is_refused(name: str, value: float) -> None:
    assert refusal(**{name: value}).param == name
    assert refusal(logit_bias={"1": value}).param == "logit_bias"


def test_zero_top_k_means_all_tokens() -> None:
    assert sampled(top_k=0).top_k == -1
    assert sampled(defaults={"top_k": 0}).top_k == -1


@pytest.mark.parametrize("name", ["top_p", "repetition_penalty"])
def test_a_value_too_small_for_the_wire_does_not_become_zero(name: str) -> None:
    """Zero is "left out" to the engine: the opposite of what was asked for."""
    fields: dict[str, Any] = {name: 1e-300}
    params = sent(sampled(**fields))
    assert 0.0 < getattr(params, name) < 1e-30


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 88}, 88),
        ({"max_tokens": 89}, 88),
        ({"max_tokens": 10**30}, 88),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 7, "max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 7}, 7),
        ({"max_tokens": 0, "max_completion_tokens": 7}, 7),
    ],
)
def test_max_tokens_is_clamped_to_what_is_left_of_the_context(
    fields: dict[str, Any], wanted: int | None
) -> None:
    assert sampled(**fields).max_new_tokens == wanted


def test_without_a_known_context_max_tokens_is_clamped_to_the_wire() -> None:
    assert sampled(limits=ROOMY, max_tokens=10**30).max_new_tokens == 2**31 - 1
    assert sampled(limits=ROOMY, min_tokens=10**30).min_new_tokens == 2**31 - 1


def test_the_engines_room_counts_where_it_is_smaller() -> None:
    """A cache of 57 tokens: prompts of up to 50, and at least five tokens to say."""
    small = Limits(vocab_size=VOCAB, context_length=CONTEXT, max_prompt_tokens=50, max_n=1)
    assert sampled(limits=small, max_tokens=99).max_new_tokens == 45
    assert sampled(limits=small, max_tokens=99, prompt_tokens=50).max_new_tokens == 5
    assert sampled(limits=small, min_tokens=99).min_new_tokens == 45


def test_the_longest_prompt_leaves_five_tokens() -> None:
    longest = CONTEXT - 7
    check_prompt([1] * longest, LIMITS)
    assert sampled(prompt_tokens=longest, max_tokens=9).max_new_tokens == 5
    assert sampled(prompt_tokens=CONTEXT + 9, max_tokens=9).max_new_tokens == 1


def test_max_completion_tokens_is_named_when_it_is_the_one_that_counts() -> None:
    assert refusal(max_completion_tokens=0, max_tokens=5).param == "max_completion_tokens"
    error = refusal(min_tokens=9, max_completion_tokens=5, max_tokens=50)
    assert error.param == "min_tokens"
    assert "max_completion_tokens" in error.message


def test_min_tokens_is_compared_with_what_was_asked_and_clamped_with_it() -> None:
    assert refusal(min_tokens=6, max_tokens=5).param == "min_tokens"
    assert sampled(min_tokens=5, max_tokens=5).min_new_tokens == 5
    both = sampled(min_tokens=200, max_tokens=300)
    assert (both.min_new_tokens, both.max_new_tokens) == (ROOM, ROOM)


@pytest.mark.parametrize(
    ("stop", "wanted"),
    [
        (None, ()),
        ("", ()),
        ([], ()),
        ("a", ("a",)),
        (["a", "", "b"], ("a", "b")),
        ([""] * 100, ()),
        (["\n", "\x00", "\U0001f600"], ("\n", "\x00", "\U0001f600")),
    ],
)
def test_stop_strings_without_those_that_match_at_once(stop: Any, wanted: tuple[str, ...]) -> None:
    assert sampled(stop=stop).stop == wanted


def test_switches() -> None:
    off = sampled(skip_special_tokens=False, ignore_eos=False, no_stop_trim=False)
    assert (off.skip_special_tokens, off.ignore_eos, off.no_stop_trim) == (False, False, False)
    on = sampled(skip_special_tokens=True, ignore_eos=True, no_stop_trim=True)
    assert (on.skip_special_tokens, on.ignore_eos, on.no_stop_trim) == (True, True, True)


def test_the_constraint_is_handed_through() -> None:
    constraint = ("regex", "a+")
    values = sampling(request(), prompt_tokens=1, defaults={}, limits=LIMITS, constraint=constraint)
    assert values.constraint == constraint
    assert sent(values).regex == "a+"


@pytest.mark.parametrize(("n", "wanted"), [(None, 1), (1, 1), (4, 4)])
def test_choices(n: int | None, wanted: int) -> None:
    assert choices(request(n=n), LIMITS) == wanted


@pytest.mark.parametrize("n", [0, -1, 5, 10**30])
def test_choices_out_of_range(n: int) -> None:
    with pytest.raises(BadRequest, match="between 1 and 4") as raised:
        choices(request(n=n), LIMITS)
    assert raised.value.param == "n"


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, 0),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 0}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
        ({"top_logprobs": 0}, 0),
    ],
)
def test_top_logprobs(fields: dict[str, Any], wanted: int) -> None:
    assert top_logprobs(request(**fields), LIMITS) == wanted


@pytest.mark.parametrize(
    "fields",
    [
        {"logprobs": True, "top_logprobs": 21},
        {"logprobs": True, "top_logprobs": -1},
        {"logprobs": True, "top_logprobs": 10**30},
        {"logprobs": False, "top_logprobs": 1},
        {"top_logprobs": 1},
    ],
)
def test_top_logprobs_out_of_range(fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as raised:
        top_logprobs(request(**fields), LIMITS)
    assert raised.value.param == "top_logprobs"


def test_more_alternatives_than_tokens_are_refused() -> None:
    few = Limits(vocab_size=5, context_length=0, max_prompt_tokens=0, max_n=1)
    assert top_logprobs(request(logprobs=True, top_logprobs=5), few) == 5
    with pytest.raises(BadRequest, match="between 0 and 5"):
        top_logprobs(request(logprobs=True, top_logprobs=6), few)


@pytest.mark.parametrize(
    ("kind", "fields", "param"),
    [
        ("regex", {"regex": "x"}, "regex"),
        ("ebnf_grammar", {"ebnf": "x"}, "ebnf"),
        ("json_schema", {"response_format": {}}, "response_format"),
        ("structural_tag", {"response_format": {}}, "response_format"),
        ("json_schema", {"tools": []}, "tools"),
    ],
)
def test_a_grammar_of_many_characters_is_refused(
    kind: str, fields: dict[str, Any], param: str
) -> None:
    limits = Limits(
        vocab_size=VOCAB, context_length=0, max_prompt_tokens=0, max_n=1, max_grammar=1000
    )

    def build(text: str) -> Sampling:
        return sampling(
            request(**fields), prompt_tokens=1, defaults={}, limits=limits, constraint=(kind, text)
        )

    assert build("x" * 1000).constraint == (kind, "x" * 1000)
    with pytest.raises(BadRequest, match="at most 1000 characters") as raised:
        build("x" * 1001)
    assert raised.value.param == param


FEW = Limits(vocab_size=VOCAB, context_length=102, max_prompt_tokens=0, max_n=4, max_logprobs=1000)


@pytest.mark.parametrize(
    ("fields", "n", "top", "good"),
    [
        ({"max_tokens": 50}, 4, 4, True),
        ({"max_tokens": 51}, 4, 4, False),
        ({"max_tokens": 50}, 4, 5, False),
        ({"max_tokens": 1000}, 4, 0, True),  # clamped to 90
        ({}, 1, 10, True),
        ({}, 1, 11, False),
    ],
)
def test_an_answer_holds_a_bounded_number_of_log_probabilities(
    fields: dict[str, Any], n: int, top: int, good: bool
) -> None:
    asked = request(**{"logprobs": True} | fields)
    params = sampling(asked, prompt_tokens=10, defaults={}, limits=FEW, constraint=None)
    if good:
        check_logprobs(params, n=n, top=top, prompt_tokens=10, limits=FEW)
        return
    with pytest.raises(BadRequest, match="smaller max_tokens") as raised:
        check_logprobs(params, n=n, top=top, prompt_tokens=10, limits=FEW)
    assert raised.value.param == "max_tokens"


def sent(values: Sampling) -> scheduler.SamplingParams:
    """What an engine would read."""
    message = generate_request(
        request_id="id", text="t", ids=[1], sampling=values, stream=True, top_logprobs=20
    )
    return scheduler.GenerateRequest.FromString(message).sampling_params


@pytest.mark.parametrize(
    "values",
    [
        Sampling(constraint=("regex", "x" * 2000)),
        Sampling(stop=("x" * 600, "y" * 600)),
        Sampling(stop_token_ids=tuple(range(1001))),
        Sampling(logit_bias=tuple((i, 1.0) for i in range(1001))),
    ],
)
def test_what_is_long_is_sent_but_not_remembered(values: Sampling) -> None:
    """Else clients could fill a worker's memory with grammars of theirs."""
    before = backend._remembered.cache_info()
    params = sent(values)
    assert backend._remembered.cache_info() == before
    assert params.regex == (values.constraint or ("", ""))[1]
    assert tuple(params.stop) == values.stop
    assert tuple(params.stop_token_ids) == values.stop_token_ids
    assert len(params.logit_bias) == len(values.logit_bias)
    sent(Sampling(temperature=0.123))
    assert backend._remembered.cache_info() != before


_number = (
    st.floats()
    | st.floats(-3.0, 3.0)
    | st.sampled_from([0.0, -0.0, 1.0, 2.0, -2.0, 5e-324, 1e-40, 3.4028234e38, 3.4028235e38])
)
_integer = (
    st.integers() | st.integers(-3, VOCAB + 3) | st.sampled_from([2**31, 2**32, 2**63, 2**64])
)
_fields = st.fixed_dictionaries(
    {},
    optional={
        "temperature": _number,
        "top_p": _number,
        "top_k": _integer,
        "min_p": _number,
        "frequency_penalty": _number,
        "presence_penalty": _number,
        "repetition_penalty": _number,
        "logit_bias": st.dictionaries(
            st.integers(-1, VOCAB + 1).map(str) | st.text(max_size=3), _number, max_size=3
        ),
        "max_tokens": _integer,
        "max_completion_tokens": _integer,
        "min_tokens": _integer,
        "stop": st.text(max_size=3) | st.lists(st.text(max_size=3), max_size=MAX_STOPS + 2),
        "stop_token_ids": st.lists(_integer, max_size=3),
        "ignore_eos": st.booleans(),
    },
)
_defaults = st.dictionaries(
    st.sampled_from([*RANGES, "top_k", "max_new_tokens"]), _number | _integer, max_size=3
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    fields=_fields,
    defaults=_defaults,
    context=st.sampled_from([0, 1, 100, 2**40]),
    prompt_tokens=st.integers(1, 200),
)
def test_whatever_passes_is_safe_for_an_engine_as_it_reads_it(
    fields: dict[str, Any], defaults: dict[str, float], context: int, prompt_tokens: int
) -> None:
    defaults = usable(defaults, "a test")
    limits = Limits(vocab_size=VOCAB, context_length=context, max_prompt_tokens=0, max_n=1)
    try:
        values = sampled(limits=limits, defaults=defaults, prompt_tokens=prompt_tokens, **fields)
    except BadRequest as exc:
        param = exc.param
    else:
        assert_safe(sent(values), max(1, context - 2 - prompt_tokens) if context else 2**31 - 1)
        return
    assert param in fields


def assert_safe(params: scheduler.SamplingParams, room: int) -> None:
    assert 0.0 <= params.temperature < math.inf
    assert 0.0 < params.top_p <= 1.0
    assert params.top_k == -1 or params.top_k >= 1
    assert 0.0 <= params.min_p <= 1.0
    assert -2.0 <= params.frequency_penalty <= 2.0
    assert -2.0 <= params.presence_penalty <= 2.0
    assert 0.0 < params.repetition_penalty <= 2.0
    assert all(0 <= int(key) < VOCAB for key in params.logit_bias)
    assert all(-100.0 <= bias <= 100.0 for bias in params.logit_bias.values())
    assert all(0 <= token < VOCAB for token in params.stop_token_ids)
    assert len(params.stop) <= MAX_STOPS
    assert "" not in params.stop
    if params.HasField("max_new_tokens"):
        assert 1 <= params.max_new_tokens <= room
        assert params.min_new_tokens <= params.max_new_tokens


@pytest.mark.parametrize("name", RANGES)
def test_the_documented_ranges_are_those_that_hold(name: str) -> None:
    (_, components) = msgspec.json.schema_components([ChatRequest])
    documented = components["ChatRequest"]["properties"][name]
    allowed = RANGES[name]
    assert documented["exclusiveMinimum" if allowed.above else "minimum"] == allowed.low
    assert documented.get("maximum", allowed.high) == allowed.high
    assert ("maximum" in documented) == (allowed.high < 1e9)
