"""The two services of an engine as tables of handlers: scheduler and standard health.

Which methods exist depends on the dialect; a method that is not there answers
UNIMPLEMENTED "Method not found!", as gRPC itself says it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import grpc

from sglrouter._proto import common, health
from sglrouter._proto import scheduler as pb
from sglrouter.sim.calls import UnaryCall, metadata_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sglrouter.sim.calls import CallLog
    from sglrouter.sim.generate import GenerateCalls
    from sglrouter.sim.inspection import InspectionCalls
    from sglrouter.sim.options import Dialect

SCHEDULER_SERVICE = "sglang.grpc.scheduler.SglangScheduler"
HEALTH_SERVICE = "grpc.health.v1.Health"

_Status = health.HealthCheckResponse.ServingStatus


class _Serializable(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802


class HealthCalls:
    """The handlers of grpc.health.v1."""

    def __init__(self) -> None:
        self.serving = True

    async def check(
        self, request: health.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> health.HealthCheckResponse:
        """Serves Check."""
        status = self._status(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Unknown service: {request.service}")
        return health.HealthCheckResponse(status=status)

    async def watch(
        self,
        request: health.HealthCheckRequest,
        _context: grpc.aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[health.HealthCheckResponse]:
        """Serves Watch: the real one says it once and ends."""
        status = self._status(request.service)
        yield health.HealthCheckResponse(
            status=_Status.SERVICE_UNKNOWN if status is None else status
        )

    def _status(self, service: str) -> health.HealthCheckResponse.ServingStatus | None:
        if not self.serving:
            return _Status.NOT_SERVING
        return _Status.SERVING if service in ("", SCHEDULER_SERVICE) else None


def health_service(calls: HealthCalls) -> grpc.GenericRpcHandler[Any, Any]:
    """The health service."""
    return grpc.method_handlers_generic_handler(
        HEALTH_SERVICE,
        {
            "Check": _unary(calls.check, health.HealthCheckRequest),
            "Watch": _stream(calls.watch, health.HealthCheckRequest),
        },
    )


def scheduler_service(
    generate: GenerateCalls, inspection: InspectionCalls, dialect: Dialect, log: CallLog
) -> grpc.GenericRpcHandler[Any, Any]:
    """The scheduler service, without what the dialect lacks."""

    def unary(
        name: str, handler: Callable[..., Any], request: type[Any]
    ) -> grpc.RpcMethodHandler[Any, Any]:
        async def serve(message: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            log.unary.append(UnaryCall(name, message, metadata_of(context)))
            return await handler(message, context)

        return _unary(serve, request)

    methods = {
        "Generate": _stream(generate.generate, pb.GenerateRequest),
        "GetTokenizer": _stream(inspection.get_tokenizer, common.GetTokenizerRequest),
    }
    for name, handler, request in (
        ("Embed", generate.embed, pb.EmbedRequest),
        ("Abort", generate.abort, pb.AbortRequest),
        ("HealthCheck", inspection.health_check, pb.HealthCheckRequest),
        ("GetModelInfo", inspection.get_model_info, pb.GetModelInfoRequest),
        ("GetServerInfo", inspection.get_server_info, pb.GetServerInfoRequest),
        ("GetLoads", inspection.get_loads, pb.GetLoadsRequest),
        ("FlushCache", inspection.flush_cache, common.FlushCacheRequest),
        ("StartProfile", inspection.start_profile, common.StartProfileRequest),
        ("StopProfile", inspection.stop_profile, common.StopProfileRequest),
        ("LoadLoRAAdapter", inspection.no_lora, pb.LoadLoRAAdapterRequest),
        ("UnloadLoRAAdapter", inspection.no_lora, pb.UnloadLoRAAdapterRequest),
        ("ListLoadedLoRAAdapters", inspection.no_lora, pb.ListLoadedLoRAAdaptersRequest),
    ):
        methods[name] = unary(name, handler, request)
    present = {
        name: handler for name, handler in methods.items() if name not in dialect.missing_methods
    }
    return grpc.method_handlers_generic_handler(SCHEDULER_SERVICE, present)


def _serialize(message: _Serializable) -> bytes:
    # Not bound to a class: old dialects answer with messages of their own.
    return message.SerializeToString()


def _unary(handler: Callable[..., Any], request: type[Any]) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(handler, request.FromString, _serialize)


def _stream(handler: Callable[..., Any], request: type[Any]) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_stream_rpc_method_handler(handler, request.FromString, _serialize)
