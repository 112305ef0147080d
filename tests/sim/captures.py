"""Captures of a real engine: reading them, and comparing a reply to one.

Compared is everything but the values of floats and, among alternatives that a model
ranks by itself, the ids: the order of messages, ids, counts, presence, lengths, status.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sglrouter._proto import common
from sglrouter._proto import scheduler as pb

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sim.wire import Reply

_TYPES: dict[str, tuple[type[Any], type[Any]]] = {
    "Generate": (pb.GenerateRequest, pb.GenerateResponse),
    "Embed": (pb.EmbedRequest, pb.EmbedResponse),
    "Abort": (pb.AbortRequest, pb.AbortResponse),
    "HealthCheck": (pb.HealthCheckRequest, pb.HealthCheckResponse),
    "GetModelInfo": (pb.GetModelInfoRequest, pb.GetModelInfoResponse),
    "GetServerInfo": (pb.GetServerInfoRequest, pb.GetServerInfoResponse),
    "GetLoads": (pb.GetLoadsRequest, pb.GetLoadsResponse),
    "GetTokenizer": (common.GetTokenizerRequest, common.GetTokenizerChunk),
    "FlushCache": (common.FlushCacheRequest, common.FlushCacheResponse),
    "StartProfile": (common.StartProfileRequest, common.ProfileResponse),
    "StopProfile": (common.StopProfileRequest, common.ProfileResponse),
    "LoadLoRAAdapter": (pb.LoadLoRAAdapterRequest, pb.LoadLoRAAdapterResponse),
    "ListLoadedLoRAAdapters": (
        pb.ListLoadedLoRAAdaptersRequest,
        pb.ListLoadedLoRAAdaptersResponse,
    ),
}

# The compiler of grammars says what time it is.
_CLOCK = re.compile(r"\[\d\d:\d\d:\d\d\]")


@dataclass
class Capture:
    """One call to a real engine."""

    name: str
    rpc: str
    request: Any
    messages: list[Any]
    code: str
    details: str

    @property
    def samples(self) -> list[list[int]]:
        """The ids of each sample, in the order of samples."""
        if not self.request.stream:
            return [list(message.complete.output_ids) for message in self.messages]
        ids: dict[int, list[int]] = {}
        for message in self.messages:
            if message.HasField("chunk"):
                ids.setdefault(message.chunk.index, []).extend(message.chunk.token_ids)
        return [ids[index] for index in sorted(ids)]

    @property
    def warm(self) -> bool:
        """Whether the engine had this prompt in its cache."""
        return any(_body(message).cached_tokens for message in self.messages)


def read_capture(folder: Path, name: str) -> Capture:
    """Reads one capture by name."""
    lines = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    asked = next(line for line in lines if line["kind"] == "request")
    end = next(line for line in lines if line["kind"] == "end")
    request, response = _TYPES[asked["rpc"]]
    return Capture(
        name=name,
        rpc=asked["rpc"],
        request=request.FromString(base64.b64decode(asked["b64"])),
        messages=[
            response.FromString(base64.b64decode(line["b64"]))
            for line in lines
            if line["kind"] == "msg"
        ],
        code=end["code"],
        details=end["details"],
    )


def status(capture_or_reply: Capture | Reply) -> tuple[str, str]:
    """Code and message of the end, without the time of day."""
    return capture_or_reply.code, _CLOCK.sub("[]", capture_or_reply.details)


def shapes(messages: list[Any]) -> dict[int, list[dict[str, Any]]]:
    """What is compared of the messages, in order, by sample.

    Samples run side by side and their messages interleave by chance; without stream all
    have index 0 and come in order.
    """
    by_sample: dict[int, list[dict[str, Any]]] = {}
    for message in messages:
        by_sample.setdefault(_body(message).index, []).append(_shape(message))
    return by_sample


def _body(message: Any) -> Any:
    return getattr(message, message.WhichOneof("response"))


def _shape(message: Any) -> dict[str, Any]:
    kind = message.WhichOneof("response")
    body = _body(message)
    shape = {
        "kind": kind,
        "request_id": message.request_id,
        "ids": list(body.token_ids if kind == "chunk" else body.output_ids),
        "prompt_tokens": body.prompt_tokens,
        "completion_tokens": body.completion_tokens,
        "cached_tokens": body.cached_tokens,
        "reasoning_tokens": body.reasoning_tokens,
        "output_logprobs": body.HasField("output_logprobs") and _output(body.output_logprobs),
        "input_logprobs": body.HasField("input_logprobs") and _input(body.input_logprobs),
    }
    if kind == "complete":
        matched = body.WhichOneof("matched_stop")
        shape["finish_reason"] = body.finish_reason
        shape["matched"] = matched and (matched, getattr(body, matched))
    return shape


def _output(logprobs: pb.OutputLogProbs) -> dict[str, Any]:
    return {
        "values": len(logprobs.token_logprobs),
        "ids": list(logprobs.token_ids),
        "top": [_lengths(row) for row in logprobs.top_logprobs],
        "selected": [(_lengths(row), list(row.token_ids)) for row in logprobs.token_ids_logprobs],
    }


def _input(logprobs: pb.InputLogProbs) -> dict[str, Any]:
    return {
        "values": [each.HasField("value") for each in logprobs.token_logprobs],
        "ids": list(logprobs.token_ids),
        "top": [_lengths(row) for row in logprobs.top_logprobs],
    }


def _lengths(row: pb.TopLogProbs) -> tuple[int, int]:
    return len(row.values), len(row.token_ids)
