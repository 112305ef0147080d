"""Sampling parameters of a request: defaults, ranges, and what an engine survives.

Strategy: the engine does not check what comes over gRPC. Some values it silently
accepts, some kill it together with every stream it serves, so all of them are checked
here, each with an error that names the field. The ranges are those of SGLang's own
HTTP server; the reasons for the deadly ones are in the constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from sglrouter.backend.scheduler import Sampling
from sglrouter.errors import BadRequest
from sglrouter.schema.chat import ChatRequest

# More is refused by the engine.
MAX_STOPS = 32
# OpenAI's bound; each alternative costs the engine a row of its vocabulary.
MAX_TOP_LOGPROBS = 20
MAX_BIASES = 1024
# The largest finite float32, which is what the wire carries.
_FLOAT_MAX = 3.4028234e38
# The smallest normal one. Less would become zero, which engines take for "left out".
_FLOAT_MIN = 1.17549435e-38
_INT_MAX = 2**31 - 1


class Limits(msgspec.Struct, frozen=True):
    """What bounds a request for one model.

    Attributes:
        vocab_size: Ids from here on kill an engine.
        context_length: Prompt and answer together, in tokens; 0 if unknown.
        max_prompt_tokens: The longest prompt the engine takes; 0 if unknown.
        max_n: Most choices of one request.
    """

    vocab_size: int
    context_length: int
    max_prompt_tokens: int
    max_n: int


def choices(request: ChatRequest, limits: Limits) -> int:
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
        raise BadRequest("top_logprobs needs logprobs to be true", param="top_logprobs")
    return count


def check_prompt(ids: Sequence[int], limits: Limits) -> None:
    """Refuses a prompt that the engine cannot take.

    Raises:
        BadRequest: It is empty, too long, or holds ids outside the vocabulary.
    """
    if not ids:
        # The engine dies of a prompt without tokens.
        raise BadRequest("The prompt has no tokens", code="empty_prompt", param="messages")
    if max(ids) >= limits.vocab_size:
        raise BadRequest(
            f"The prompt holds the token id {max(ids)}, but the model has only "
            f"{limits.vocab_size}: its tokenizer does not fit it",
            code="token_out_of_vocabulary",
            param="messages",
        )
    longest = limits.context_length - 1 if limits.context_length else 0
    if limits.max_prompt_tokens:
        longest = min(longest or limits.max_prompt_tokens, limits.max_prompt_tokens)
    if longest and len(ids) > longest:
        raise BadRequest(
            f"This model takes prompts of up to {longest} tokens, but the messages have "
            f"{len(ids)}. Please shorten them.",
            code="context_length_exceeded",
            param="messages",
        )


def sampling(
    request: ChatRequest,
    *,
    prompt_tokens: int,
    defaults: Mapping[str, float],
    limits: Limits,
    constraint: tuple[str, str] | None,
) -> Sampling:
    """Builds the sampling parameters of each sample.

    Args:
        request: The client's wishes.
        prompt_tokens: Length of the prompt.
        defaults: The model's own values for what the client left out.
        limits: Bounds of the model.
        constraint: (kind, text) of a grammar, or None.

    Raises:
        BadRequest: A value is out of range.
    """

    def number(name: str, fallback: float, low: float, high: float) -> float:
        value = getattr(request, name)
        if value is None:
            value = defaults.get(name, fallback)
        if not low <= value <= high:
            bounds = f"between {low:g} and {high:g}" if high < _FLOAT_MAX else f"at least {low:g}"
            raise _out_of_range(name, value, bounds)
        return float(value)

    repetition_penalty = number("repetition_penalty", 1.0, 0.0, 2.0)
    if repetition_penalty == 0.0:
        raise _out_of_range("repetition_penalty", 0.0, "above 0 and at most 2")
    top_p = number("top_p", 1.0, 0.0, 1.0)
    if top_p == 0.0:
        raise _out_of_range("top_p", 0.0, "above 0 and at most 1")
    min_new_tokens, max_new_tokens = _lengths(request, prompt_tokens, limits)
    return Sampling(
        temperature=number("temperature", 1.0, 0.0, _FLOAT_MAX),
        top_p=max(top_p, _FLOAT_MIN),
        top_k=_top_k(request, defaults),
        min_p=number("min_p", 0.0, 0.0, 1.0),  # above 1 kills
        frequency_penalty=number("frequency_penalty", 0.0, -2.0, 2.0),
        presence_penalty=number("presence_penalty", 0.0, -2.0, 2.0),
        repetition_penalty=max(repetition_penalty, _FLOAT_MIN),  # below 0 kills
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens,
        stop=_stop(request),
        stop_token_ids=_stop_token_ids(request, limits),
        ignore_eos=bool(request.ignore_eos),
        no_stop_trim=bool(request.no_stop_trim),
        skip_special_tokens=request.skip_special_tokens is not False,
        logit_bias=_logit_bias(request, limits),
        constraint=constraint,
    )


def _out_of_range(name: str, value: object, wanted: str) -> BadRequest:
    return BadRequest(f"{name} must be {wanted}, not {value}", code="invalid_value", param=name)


def _lengths(request: ChatRequest, prompt_tokens: int, limits: Limits) -> tuple[int, int | None]:
    """The least and the most new tokens.

    Both are clamped to what is left of the context: agents ask for a large number by
    habit.
    """
    name = "max_completion_tokens" if request.max_completion_tokens is not None else "max_tokens"
    most: int | None = getattr(request, name)
    if most is not None and most < 1:
        raise _out_of_range(name, most, "at least 1")
    least = request.min_tokens or 0
    if least < 0 or (most is not None and least > most):
        raise _out_of_range("min_tokens", least, f"between 0 and {name}")
    left = _INT_MAX
    if limits.context_length:
        left = max(1, min(left, limits.context_length - prompt_tokens))
    return min(least, left), None if most is None else min(most, left)


def _top_k(request: ChatRequest, defaults: Mapping[str, float]) -> int:
    value = request.top_k if request.top_k is not None else int(defaults.get("top_k", -1))
    # Below -1 kills; 0 and -1 both mean all.
    if not -1 <= value <= _INT_MAX:
        raise _out_of_range("top_k", value, "-1, for all tokens, or at least 1")
    return value or -1


def _stop(request: ChatRequest) -> tuple[str, ...]:
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or []
    # An empty string matches at once.
    stop = [text for text in stop if text]
    if len(stop) > MAX_STOPS:
        raise BadRequest(f"stop takes at most {MAX_STOPS} strings", param="stop")
    return tuple(stop)


def _stop_token_ids(request: ChatRequest, limits: Limits) -> tuple[int, ...]:
    ids = request.stop_token_ids or []
    for token in ids:
        # With min_new_tokens, an id outside the vocabulary kills.
        if not 0 <= token < limits.vocab_size:
            raise _out_of_range("stop_token_ids", token, f"between 0 and {limits.vocab_size - 1}")
    return tuple(ids)


def _logit_bias(request: ChatRequest, limits: Limits) -> tuple[tuple[int, float], ...]:
    biases = request.logit_bias or {}
    if len(biases) > MAX_BIASES:
        raise BadRequest(f"logit_bias takes at most {MAX_BIASES} tokens", param="logit_bias")
    checked = []
    for key, bias in biases.items():
        # Anything but a decimal id inside the vocabulary kills.
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise _out_of_range("logit_bias", repr(key), "a map from token ids")
        if int(key) >= limits.vocab_size:
            raise _out_of_range(
                "logit_bias", key, f"a map from token ids below {limits.vocab_size}"
            )
        if not -100.0 <= bias <= 100.0:
            raise _out_of_range("logit_bias", bias, "a map to values between -100 and 100")
        checked.append((int(key), bias))
    return tuple(checked)
