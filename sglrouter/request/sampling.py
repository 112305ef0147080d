"""Sampling parameters of a request: defaults, ranges, and what an engine survives.

Strategy: the engine does not check what comes over gRPC. Some values it silently
accepts, some kill it together with every stream it serves, so all of them are checked
here, each with an error that names the field. The ranges are those of SGLang's own
HTTP server; the reasons for the deadly ones are in the constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from sglrouter.engines.wire.scheduler import Sampling
from sglrouter.errors import BadRequest, Invalid
from sglrouter.request.limits import INT_MAX, Limits
from sglrouter.schema.chat import ChatRequest
from sglrouter.schema.sampling import SamplingRequest

# More is refused by the engine.
MAX_STOPS = 32
# In characters. The engine decodes again as many tokens as the longest has, at each step.
MAX_STOP_LENGTH = 1024
MAX_STOP_TOKEN_IDS = 1024
# OpenAI's bound; each alternative costs the engine a row of its vocabulary.
MAX_TOP_LOGPROBS = 20
MAX_BIASES = 1024
# The largest finite float32, which is what the wire carries.
_FLOAT_MAX = 3.4028234e38
# The smallest normal one. Less would become zero, which engines take for "left out".
_FLOAT_MIN = 1.17549435e-38


class Range(NamedTuple):
    """The numbers that a parameter may be.

    Attributes:
        neutral: What it is where nobody says.
        low: The least.
        high: The most.
        above: Whether even the least is too little.
    """

    neutral: float
    low: float
    high: float
    above: bool = False

    def holds(self, value: float) -> bool:
        """Whether the value is one of them; NaN never is."""
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        low = f"{'above' if self.above else 'at least'} {self.low:g}"
        if self.high == _FLOAT_MAX:
            return low
        return f"{low} and at most {self.high:g}"


RANGES = {
    "temperature": Range(1.0, 0.0, _FLOAT_MAX),
    "top_p": Range(1.0, 0.0, 1.0, above=True),
    "min_p": Range(0.0, 0.0, 1.0),  # above 1 kills
    "frequency_penalty": Range(0.0, -2.0, 2.0),
    "presence_penalty": Range(0.0, -2.0, 2.0),
    "repetition_penalty": Range(1.0, 0.0, 2.0, above=True),  # below 0 kills
}


def is_top_k(value: float) -> bool:
    """Whether the value is a count of tokens, or 0 or -1 for all; less kills."""
    return -1 <= value <= INT_MAX and value == int(value)


def choices(request: SamplingRequest, limits: Limits) -> int:
    """How many samples are asked for."""
    n = 1 if request.n is None else request.n
    if not 1 <= n <= limits.max_n:
        raise _out_of_range("n", n, f"between 1 and {limits.max_n}")
    return n


def top_logprobs(request: ChatRequest, limits: Limits) -> int:
    """How many alternatives to show for each token."""
    count = request.top_logprobs
    if count is None:
        return 0
    most = min(MAX_TOP_LOGPROBS, limits.vocab_size)  # more than there are kills
    if not 0 <= count <= most:
        raise _out_of_range("top_logprobs", count, f"between 0 and {most}")
    if count and not request.logprobs:
        raise BadRequest(
            "top_logprobs needs logprobs to be true", code="invalid_value", param="top_logprobs"
        )
    return count


def check_logprobs(
    params: Sampling, *, n: int, top: int, prompt_tokens: int, limits: Limits
) -> None:
    """Refuses an answer of more log probabilities than may be held in memory.

    It is for answers that are not streamed: a stream holds nothing.

    Args:
        params: The sampling parameters of each sample.
        n: Samples.
        top: Alternatives to each token.
        prompt_tokens: Length of the prompt.
        limits: Bounds of the model.

    Raises:
        BadRequest: The answer could become too large.
    """
    tokens = params.max_new_tokens
    if tokens is None:
        tokens = limits.room(prompt_tokens)
    if tokens is not None and n * (1 + top) * tokens > limits.max_logprobs:
        raise BadRequest(
            f"{n} choices of {tokens} tokens with {1 + top} log probabilities each are more than "
            f"{limits.max_logprobs} in one answer. Please stream it, or set a smaller max_tokens.",
            code="invalid_value",
            param="max_tokens",
        )


def sampling(
    request: SamplingRequest,
    *,
    prompt_tokens: int,
    defaults: Mapping[str, float],
    limits: Limits,
    constraint: tuple[str, str] | None,
    no_tokens: bool = False,
) -> Sampling:
    """Builds the sampling parameters of each sample.

    Args:
        request: The client's wishes.
        prompt_tokens: Length of the prompt.
        defaults: What holds where the client says nothing, as SamplingDefaults gives it.
        limits: Bounds of the model.
        constraint: (kind, text) of a grammar, or None.
        no_tokens: Whether it may be asked for none, to have the prompt alone read.

    Raises:
        BadRequest: A value is out of range.
    """
    params = sampling_of_any_length(
        request, defaults=defaults, limits=limits, constraint=constraint
    )
    return with_lengths(
        params, request, prompt_tokens=prompt_tokens, limits=limits, no_tokens=no_tokens
    )


def sampling_of_any_length(
    request: SamplingRequest,
    *,
    defaults: Mapping[str, float],
    limits: Limits,
    constraint: tuple[str, str] | None,
) -> Sampling:
    """The parameters that do not depend on the prompt; see sampling()."""

    def number(name: str) -> float:
        value = getattr(request, name)
        allowed = RANGES[name]
        if value is None:
            return defaults.get(name, allowed.neutral)
        if not allowed.holds(value):
            raise _out_of_range(name, value, str(allowed))
        return float(value)

    return Sampling(
        temperature=number("temperature"),
        top_p=max(number("top_p"), _FLOAT_MIN),
        top_k=_top_k(request, defaults),
        min_p=number("min_p"),
        frequency_penalty=number("frequency_penalty"),
        presence_penalty=number("presence_penalty"),
        repetition_penalty=max(number("repetition_penalty"), _FLOAT_MIN),
        max_new_tokens=None,
        min_new_tokens=0,
        stop=_stop(request),
        stop_token_ids=_stop_token_ids(request, limits),
        ignore_eos=bool(request.ignore_eos),
        no_stop_trim=bool(request.no_stop_trim),
        skip_special_tokens=request.skip_special_tokens is not False,
        logit_bias=_logit_bias(request, limits),
        constraint=_constraint(request, constraint, limits),
    )


def with_lengths(
    params: Sampling,
    request: SamplingRequest,
    *,
    prompt_tokens: int,
    limits: Limits,
    no_tokens: bool = False,
) -> Sampling:
    """The same parameters for a prompt of some length; see sampling()."""
    least, most = _lengths(request, prompt_tokens, limits, no_tokens)
    if not least and most is None:
        return params
    return msgspec.structs.replace(params, min_new_tokens=least, max_new_tokens=most)


def _out_of_range(name: str, value: object, wanted: str) -> Invalid:
    shown = str(value)
    if len(shown) > 64:
        shown = f"{shown[:64]}..."
    return Invalid(name, f"must be {wanted}, not {shown}", code="invalid_value")


def _lengths(
    request: SamplingRequest, prompt_tokens: int, limits: Limits, no_tokens: bool
) -> tuple[int, int | None]:
    """The least and the most new tokens.

    Both are clamped to what the engine would clamp them to: agents ask for a large
    number by habit.
    """
    name = "max_completion_tokens" if request.max_completion_tokens is not None else "max_tokens"
    most: int | None = getattr(request, name)
    fewest = 0 if no_tokens else 1
    if most is not None and most < fewest:
        raise _out_of_range(name, most, f"at least {fewest}")
    least = request.min_tokens or 0
    if least < 0 or (most is not None and least > most):
        raise Invalid("min_tokens", f"is {least}, but must be between 0 and", beside=[name],
                      code="invalid_value")  # fmt: skip
    room = limits.room(prompt_tokens)
    left = INT_MAX if room is None else max(1, min(room, INT_MAX))
    return min(least, left), None if most is None else min(most, left)


def _top_k(request: SamplingRequest, defaults: Mapping[str, float]) -> int:
    value = request.top_k
    if value is None:
        value = int(defaults.get("top_k", -1))
    elif not is_top_k(value):
        raise _out_of_range("top_k", value, "-1, for all tokens, or at least 1")
    return value or -1


def _stop(request: SamplingRequest) -> tuple[str, ...]:
    if not request.stop:
        return ()
    stop = [request.stop] if isinstance(request.stop, str) else request.stop
    # An empty string matches at once.
    stop = [text for text in stop if text]
    name = "stop"
    if len(stop) > MAX_STOPS:
        raise _out_of_range(name, len(stop), f"at most {MAX_STOPS} strings")
    for text in stop:
        if len(text) > MAX_STOP_LENGTH:
            raise _out_of_range(name, len(text), f"strings of up to {MAX_STOP_LENGTH} characters")
    return tuple(stop)


def _stop_token_ids(request: SamplingRequest, limits: Limits) -> tuple[int, ...]:
    ids = request.stop_token_ids
    if not ids:
        return ()
    name = "stop_token_ids"
    if len(ids) > MAX_STOP_TOKEN_IDS:
        raise _out_of_range(name, len(ids), f"at most {MAX_STOP_TOKEN_IDS} ids")
    for token in ids:
        # With min_new_tokens, an id outside the vocabulary kills.
        if not 0 <= token < limits.vocab_size:
            raise _out_of_range(name, token, f"between 0 and {limits.vocab_size - 1}")
    return tuple(ids)


def _logit_bias(request: SamplingRequest, limits: Limits) -> tuple[tuple[int, float], ...]:
    biases = request.logit_bias
    if not biases:
        return ()
    name = "logit_bias"
    if len(biases) > MAX_BIASES:
        raise _out_of_range(name, len(biases), f"a map of at most {MAX_BIASES} tokens")
    checked = []
    for key, bias in biases.items():
        # Anything but a decimal id inside the vocabulary kills.
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise _out_of_range(name, repr(key), "a map from token ids")
        if int(key) >= limits.vocab_size:
            raise _out_of_range(name, key, f"a map from token ids below {limits.vocab_size}")
        if not -100.0 <= bias <= 100.0:
            raise _out_of_range(name, bias, "a map to values between -100 and 100")
        checked.append((int(key), bias))
    return tuple(checked)


# Where a client writes each kind of grammar; a schema may come from several fields.
_GRAMMAR_FIELDS = {"regex": "regex", "ebnf_grammar": "ebnf"}


def _constraint(
    request: SamplingRequest, constraint: tuple[str, str] | None, limits: Limits
) -> tuple[str, str] | None:
    if constraint is not None and len(constraint[1]) > limits.max_grammar:
        name = _GRAMMAR_FIELDS.get(constraint[0]) or (
            "tools" if request.response_format is None else "response_format"
        )
        raise _out_of_range(
            name,
            len(constraint[1]),
            f"at most {limits.max_grammar} characters as a grammar",
        )
    return constraint
