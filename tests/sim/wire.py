"""A plain gRPC client and request builder for tests of the simulated engine."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

from sglrouter._proto import common, health
from sglrouter._proto import scheduler as pb

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SERVICE = "sglang.grpc.scheduler.SglangScheduler"
# Seconds beyond a call's deadline after which grpcio is not believed to end it.
_GRACE = 5.0

_CHANNEL_OPTIONS = [
    # A channel of its own for every client, and no second of back-off after a restart.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 100),
    ("grpc.max_receive_message_length", -1),
]

_RESPONSES: dict[str, type[Any]] = {
    "Generate": pb.GenerateResponse,
    "Embed": pb.EmbedResponse,
    "Abort": pb.AbortResponse,
    "HealthCheck": pb.HealthCheckResponse,
    "GetModelInfo": pb.GetModelInfoResponse,
    "GetServerInfo": pb.GetServerInfoResponse,
    "GetLoads": pb.GetLoadsResponse,
    "GetTokenizer": common.GetTokenizerChunk,
    "FlushCache": common.FlushCacheResponse,
    "StartProfile": common.ProfileResponse,
    "StopProfile": common.ProfileResponse,
    "LoadLoRAAdapter": pb.LoadLoRAAdapterResponse,
    "UnloadLoRAAdapter": pb.UnloadLoRAAdapterResponse,
    "ListLoadedLoRAAdapters": pb.ListLoadedLoRAAdaptersResponse,
}


@dataclass
class Reply:
    """All that a call gave: messages, then a status."""

    messages: list[Any]
    code: str
    details: str

    @property
    def kinds(self) -> list[str]:
        return [message.WhichOneof("response") for message in self.messages]

    @property
    def chunks(self) -> list[pb.GenerateStreamChunk]:
        return [each.chunk for each in self.messages if each.HasField("chunk")]

    @property
    def completes(self) -> list[pb.GenerateComplete]:
        return [each.complete for each in self.messages if each.HasField("complete")]

    @property
    def complete(self) -> pb.GenerateComplete:
        (only,) = self.completes
        return only

    @property
    def deltas(self) -> list[list[int]]:
        return [list(chunk.token_ids) for chunk in self.chunks]


class LiveCall:
    """A stream that a test reads step by step."""

    def __init__(self, call: Any, timeout: float) -> None:
        self._call = call
        self._timeout = timeout
        self.messages: list[Any] = []
        self.lost = False

    def read(self, count: int) -> None:
        for _ in range(count):
            self.messages.append(next(self._call))

    def cancel(self) -> None:
        self._call.cancel()

    def finish(self) -> Reply:
        # grpcio now and then loses a call, deadline and all, that was made while its connection
        # closed; not even cancel() ends such a call, so it is left to a thread of its own.
        reader = threading.Thread(target=self._drain, daemon=True)
        reader.start()
        reader.join(self._timeout + _GRACE)
        if reader.is_alive():
            self.lost = True
            self._call.cancel()
            return Reply([], "UNKNOWN", "grpcio has lost the call")
        return Reply(self.messages, self._call.code().name, self._call.details() or "")

    def _drain(self) -> None:
        # The status tells how it ended.
        with suppress(grpc.RpcError):
            self.messages.extend(self._call)


class EngineClient:
    """Calls an engine's services."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)

    def close(self) -> None:
        self._channel.close()

    def start(
        self,
        name: str,
        request: Any,
        *,
        response: type[Any] | None = None,
        service: str = SERVICE,
        timeout: float = 10.0,
        wait_for_ready: bool = False,
    ) -> LiveCall:
        kind = response or _RESPONSES[name]
        method = self._channel.unary_stream(
            f"/{service}/{name}",
            request_serializer=lambda message: (
                message if isinstance(message, bytes) else message.SerializeToString()
            ),
            response_deserializer=kind.FromString,
        )
        call = method(request, timeout=timeout, wait_for_ready=wait_for_ready)
        return LiveCall(call, timeout)

    def call(self, name: str, request: Any, **settings: Any) -> Reply:
        call = self.start(name, request, **settings)
        reply = call.finish()
        return self.start(name, request, **settings).finish() if call.lost else reply

    def generate(self, request: pb.GenerateRequest, **settings: Any) -> Reply:
        return self.call("Generate", request, **settings)

    def generate_again(self, request: pb.GenerateRequest) -> Reply:
        """Generates once the connection is back; a call may still meet the broken one."""
        deadline = time.monotonic() + 10.0
        while True:
            reply = self.generate(request, wait_for_ready=True)
            if reply.code != "UNAVAILABLE" or time.monotonic() > deadline:
                return reply

    def health(self, service: str = "", method: str = "Check") -> Reply:
        return self.call(
            method,
            health.HealthCheckRequest(service=service),
            response=health.HealthCheckResponse,
            service="grpc.health.v1.Health",
        )


_counter = iter(range(1_000_000_000))


def request(
    ids: Sequence[int] = (10, 11, 12, 13),
    *,
    stream: bool = True,
    rid: str | None = None,
    text: str = "",
    logprobs: bool = False,
    logprob_start_len: int = -1,
    top: int = 0,
    selected: Sequence[int] = (),
    lora_id: str = "",
    **sampling: Any,
) -> pb.GenerateRequest:
    """A request as a careful client sends it; `sampling` overrides its parameters."""
    params = {"top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "n": 1} | sampling
    return pb.GenerateRequest(
        request_id=f"request-{next(_counter):012d}" if rid is None else rid,
        tokenized=pb.TokenizedInput(original_text=text, input_ids=ids),
        sampling_params=pb.SamplingParams(**params),
        return_logprob=logprobs,
        logprob_start_len=logprob_start_len,
        top_logprobs_num=top,
        token_ids_logprob=selected,
        lora_id=lora_id,
        stream=stream,
    )


def samples(reply: Reply) -> Iterator[tuple[int, list[int], pb.GenerateComplete]]:
    """Index, joined deltas and end of each sample of a streaming reply."""
    for complete in reply.completes:
        ids = [
            token
            for chunk in reply.chunks
            if chunk.index == complete.index
            for token in chunk.token_ids
        ]
        yield complete.index, ids, complete
