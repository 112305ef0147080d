"""Outputs of the scheduler as messages on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglrouter._proto import legacy
from sglrouter._proto import scheduler as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sglrouter.sim.distribution import Ranked
    from sglrouter.sim.generation import Output, PromptLogprobs, TokenLogprobs
    from sglrouter.sim.options import Dialect

Reply = pb.GenerateResponse | legacy.GenerateFailure


def streamed(request_id: str, output: Output, index: int, dialect: Dialect) -> Iterator[Reply]:
    """The message or messages for one output of a streaming request."""
    if output.finish is None or not dialect.last_delta_in_complete_only:
        yield chunk(request_id, output, index, dialect)
    if output.finish is not None:
        yield complete(request_id, output, index, dialect)


def chunk(request_id: str, output: Output, index: int, dialect: Dialect) -> pb.GenerateResponse:
    """A step of a stream: what is new."""
    return pb.GenerateResponse(
        request_id=request_id,
        chunk=pb.GenerateStreamChunk(
            token_ids=output.token_ids,
            prompt_tokens=output.prompt_tokens,
            completion_tokens=output.completion_tokens,
            cached_tokens=output.cached_tokens,
            output_logprobs=_output_logprobs(output.logprobs, output.logprobs, dialect),
            input_logprobs=_input_logprobs(output.prompt_logprobs),
            index=index,
        ),
    )


def complete(request_id: str, output: Output, index: int, dialect: Dialect) -> pb.GenerateResponse:
    """The end of a sample: the last ids, and the selected scores of all."""
    finish = output.finish
    assert finish is not None
    message = pb.GenerateComplete(
        output_ids=output.token_ids,
        finish_reason=finish.reason,
        prompt_tokens=output.prompt_tokens,
        completion_tokens=output.completion_tokens,
        cached_tokens=output.cached_tokens,
        output_logprobs=_output_logprobs(output.logprobs, output.all_logprobs, dialect),
        input_logprobs=_input_logprobs(output.prompt_logprobs),
        index=index,
    )
    # Set by assignment: an id of 0 and an empty string are present, too.
    if isinstance(finish.matched, int):
        message.matched_token_id = finish.matched
    elif finish.matched is not None:
        message.matched_stop_str = finish.matched
    return pb.GenerateResponse(request_id=request_id, complete=message)


def failure(request_id: str, message: str, http_status: int) -> legacy.GenerateFailure:
    """An error the old way: inside the response."""
    return legacy.GenerateFailure(
        request_id=request_id,
        error=legacy.GenerateError(message=message, http_status_code=str(http_status)),
    )


def _output_logprobs(
    new: list[TokenLogprobs] | None, selected: list[TokenLogprobs] | None, dialect: Dialect
) -> pb.OutputLogProbs | None:
    if new is None:
        return None
    sends_selected = selected is not None and dialect.sends_selected_logprobs
    return pb.OutputLogProbs(
        token_logprobs=[row.logprob for row in new if row.token is not None],
        token_ids=[row.token for row in new if row.token is not None],
        top_logprobs=[_top(row.top) for row in new if row.top],
        token_ids_logprobs=[_top(row.selected) for row in selected or () if row.selected]
        if sends_selected
        else None,
    )


def _input_logprobs(rows: list[PromptLogprobs] | None) -> pb.InputLogProbs | None:
    if rows is None:
        return None
    with_top = any(row.top for row in rows)
    return pb.InputLogProbs(
        token_logprobs=[pb.InputTokenLogProb(value=row.logprob) for row in rows],
        token_ids=[row.token for row in rows],
        top_logprobs=[_top(row.top) for row in rows] if with_top else None,
    )


def _top(ranked: Ranked) -> pb.TopLogProbs:
    return pb.TopLogProbs(
        values=[logprob for _, logprob in ranked], token_ids=[token for token, _ in ranked]
    )
