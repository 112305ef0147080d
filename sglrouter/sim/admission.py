"""What an engine thinks of a request before it runs: fine, refused, or deadly.

Refusals come in two kinds, because old dialects report them in two ways: those of the
front part, which reads the message, and those of the scheduler, which knows the context
length. Deadly requests pass both and crash the scheduler when they run; the real engine
checks none of them. Those of the sampler (min_p, top_k, repetition_penalty) are known
from sampled requests only and are taken as deadly for greedy ones, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglrouter.sim.grammar import grammar_error

if TYPE_CHECKING:
    from sglrouter._proto import scheduler as pb
    from sglrouter.sim.options import Dialect

MAX_STOPS = 32

# The longest prompt is this much shorter than the context, and one more to be refused.
INPUT_RESERVE = 6


class InvalidRequestError(ValueError):
    """The front part cannot read the request; the message is for the client."""


def check_readable(request: pb.GenerateRequest, dialect: Dialect) -> None:
    """Raises InvalidRequestError for what the front part refuses."""
    if not request.HasField("tokenized"):
        raise InvalidRequestError("Tokenized input must be provided")
    if request.return_hidden_states and dialect.refuses_hidden_states:
        raise InvalidRequestError(
            "The server is not configured to return hidden states. Please launch with "
            "`--return-hidden-states-mode full` to allow return_hidden_states=True."
        )
    stops = len(request.sampling_params.stop)
    if stops > MAX_STOPS:
        raise InvalidRequestError(f"at most {MAX_STOPS} stop strings are allowed, got {stops}")


def scheduler_refusal(request: pb.GenerateRequest, context_length: int) -> str | None:
    """The words with which the scheduler refuses a request, or None."""
    length = len(request.tokenized.input_ids)
    longest = context_length - INPUT_RESERVE
    if length >= longest:
        return (
            f"Input length ({length} tokens) exceeds the maximum allowed length ({longest} "
            "tokens). Use a shorter input or enable --allow-auto-truncate."
        )
    if request.return_logprob and request.logprob_start_len > length:
        return (
            f"req.logprob_start_len={request.logprob_start_len} is higher than the number of "
            f"input tokens len(req.origin_input_ids)={length}. Please use a smaller "
            "logprob_start_len."
        )
    return grammar_error(request.sampling_params)


def deadly_because(request: pb.GenerateRequest, vocab_size: int) -> str | None:
    """Why running this request kills the engine, or None."""
    ids = request.tokenized.input_ids
    params = request.sampling_params
    if not ids:
        return "empty input_ids"
    if max(ids) >= vocab_size:
        return "a token id past the vocabulary"
    for key in params.logit_bias:
        try:
            known = int(key) < vocab_size
        except ValueError:
            return "a logit_bias key that is no integer"
        if not known:
            return "a logit_bias key past the vocabulary"
    if request.return_logprob:
        if request.top_logprobs_num > vocab_size:
            return "top_logprobs_num past the vocabulary"
        if any(token >= vocab_size for token in request.token_ids_logprob):
            return "a token_ids_logprob id past the vocabulary"
    if params.min_new_tokens and any(token >= vocab_size for token in params.stop_token_ids):
        return "min_new_tokens with a stop_token_ids id past the vocabulary"
    if params.min_p > 1.0:
        return "min_p past 1"
    if params.top_k < -1:
        return "top_k below -1"
    if params.repetition_penalty < 0.0:
        return "repetition_penalty below 0"
    return None
