"""An engine's messages, in each of the styles that engines have."""

from __future__ import annotations

import struct
from enum import Enum
from typing import TYPE_CHECKING

from sglrouter._proto import legacy, scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence


PromptScore = tuple[int, float | None, list[tuple[int, float]]]


class Style(Enum):
    """How a stream ends; the comment on each says which engines do that."""

    REPEATED = "the last delta again in complete"  # SGLang from 0.5.10
    ONLY_IN_COMPLETE = "the last delta only in complete"  # SGLang up to 0.5.9
    WHOLE = "the whole output again in complete"  # what the protocol's comment promises
    NOT_STREAMED = "one complete with everything"  # stream = false


def logprob_of(token: int) -> float:
    """A log probability that tells the token, exact as a 32-bit float."""
    return -token / 4


def selected_row(position: int, selected: Sequence[int]) -> list[tuple[int, float]]:
    """The scores of the selected ids at a position; no two positions have the same."""
    return [(token, logprob_of(token) - position) for token in selected]


def prompt_scores(ids: Sequence[int], top: int = 0) -> list[PromptScore]:
    """What engines say of a prompt: nothing of its first token."""
    return [
        (token, logprob_of(token), [(each, logprob_of(each)) for each in range(token, token + top)])
        if i
        else (token, None, [])
        for i, token in enumerate(ids)
    ]


def with_scores(
    sequence: Sequence[bytes],
    *,
    selected: Sequence[int] = (),
    prompt: Sequence[PromptScore] = (),
    all_rows: bool = True,
    prompt_again: bool = False,
) -> list[bytes]:
    """A sample's messages with scores of selected ids, and of the prompt in the first.

    Args:
        sequence: The messages.
        selected: The ids.
        prompt: From prompt_scores().
        all_rows: Whether the end has the rows of all ids, as engines have it, or of its own.
        prompt_again: Whether the end has the prompt's scores as well.
    """
    scored: list[bytes] = []
    position = 0
    for message in sequence:
        response = scheduler.GenerateResponse.FromString(message)
        ends = response.HasField("complete")
        part = response.complete if ends else response.chunk
        if ends:
            total, own = response.complete.completion_tokens, len(response.complete.output_ids)
            positions = range(0 if all_rows else total - own, total)
        else:
            positions = range(position, position + len(response.chunk.token_ids))
            position = positions.stop
        if selected:
            part.output_logprobs.token_ids_logprobs.extend(
                _row(selected_row(each, selected)) for each in positions
            )
        if prompt and (not scored or (ends and prompt_again)):
            part.input_logprobs.CopyFrom(_input_logprobs(prompt))
        scored.append(response.SerializeToString())
    return scored


def _input_logprobs(scores: Sequence[PromptScore]) -> scheduler.InputLogProbs:
    return scheduler.InputLogProbs(
        token_logprobs=[scheduler.InputTokenLogProb(value=value) for _, value, _ in scores],
        token_ids=[token for token, _, _ in scores],
        top_logprobs=[_row(top) for _, _, top in scores],
    )


def _row(entries: Sequence[tuple[int, float]]) -> scheduler.TopLogProbs:
    return scheduler.TopLogProbs(
        token_ids=[token for token, _ in entries], values=[value for _, value in entries]
    )


def logprobs(ids: Sequence[int], top: int = 0) -> scheduler.OutputLogProbs:
    """OutputLogProbs of `ids`, each with the `top` ids after it as alternatives."""
    return scheduler.OutputLogProbs(
        token_logprobs=[logprob_of(token) for token in ids],
        token_ids=ids,
        top_logprobs=[
            scheduler.TopLogProbs(
                token_ids=range(token, token + top),
                values=[logprob_of(each) for each in range(token, token + top)],
            )
            for token in ids
        ]
        if top
        else [],
    )


def chunk(
    ids: Sequence[int], total: int, *, prompt_tokens: int = 7, top: int | None = None
) -> bytes:
    """A delta; `top` None is one without logprobs."""
    message = scheduler.GenerateStreamChunk(
        token_ids=ids, completion_tokens=total, prompt_tokens=prompt_tokens, cached_tokens=3
    )
    if top is not None:
        message.output_logprobs.CopyFrom(logprobs(ids, top))
    return scheduler.GenerateResponse(request_id="r", chunk=message).SerializeToString()


def complete(
    ids: Sequence[int],
    total: int,
    reason: str = "length",
    *,
    matched: int | str | None = None,
    prompt_tokens: int = 7,
    top: int | None = None,
) -> bytes:
    """The end of a sample; `total` 0 leaves the count out."""
    message = scheduler.GenerateComplete(
        output_ids=ids,
        finish_reason=reason,
        completion_tokens=total,
        prompt_tokens=prompt_tokens,
        cached_tokens=3,
    )
    if isinstance(matched, int):
        message.matched_token_id = matched
    elif matched is not None:
        message.matched_stop_str = matched
    if top is not None:
        message.output_logprobs.CopyFrom(logprobs(ids, top))
    return scheduler.GenerateResponse(request_id="r", complete=message).SerializeToString()


def failure(text: str, status: str) -> bytes:
    """A failure inside the response."""
    error = legacy.GenerateError(message=text, http_status_code=status)
    return legacy.GenerateFailure(request_id="r", error=error).SerializeToString()


def sample(
    deltas: Sequence[Sequence[int]],
    style: Style = Style.REPEATED,
    reason: str = "length",
    *,
    matched: int | str | None = None,
    top: int | None = None,
) -> list[bytes]:
    """All messages of one sample whose ids come in these deltas."""
    ids = [token for delta in deltas for token in delta]
    last = list(deltas[-1]) if deltas else []
    messages = []
    total = 0
    if style is not Style.NOT_STREAMED:
        for delta in deltas[:-1] if style is Style.ONLY_IN_COMPLETE else deltas:
            total += len(delta)
            messages.append(chunk(delta, total, top=top))
    whole = style in (Style.WHOLE, Style.NOT_STREAMED)
    messages.append(complete(ids if whole else last, len(ids), reason, matched=matched, top=top))
    return messages


def varint(value: int) -> bytes:
    """A protobuf varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: bytes | float) -> bytes:
    """A protobuf field: a varint, a length-delimited one, or a 32-bit float."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value
