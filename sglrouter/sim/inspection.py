"""The calls that tell something about the engine, or tend to it.

GetModelInfo is wrong where the real Python servicer is wrong: cache size for context,
constants for the vocabulary and the special ids. Slow calls take the real time.
"""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import grpc

from sglrouter._proto import common
from sglrouter._proto import scheduler as pb
from sglrouter.sim.admission import INPUT_RESERVE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sglrouter.sim.mailboxes import Mailboxes
    from sglrouter.sim.model_folder import ModelFolder
    from sglrouter.sim.options import Dialect, SimOptions
    from sglrouter.sim.scheduler import Scheduler

Context = grpc.aio.ServicerContext[Any, Any]

_HEALTH_SECONDS = 0.5
_FLUSH_SECONDS = 1.0
_IDLE_POLL = 0.01
_CHUNK_BYTES = 64 * 1024
_LOAD_SECTIONS = frozenset({"core", "memory", "spec", "lora", "disagg", "queues", "all"})
_NO_LORA = "Unexpected <class 'NotImplementedError'>: Method not implemented!"


class InspectionCalls:
    """The handlers of everything that makes no tokens for a client."""

    def __init__(
        self,
        *,
        options: SimOptions,
        dialect: Dialect,
        folder: ModelFolder,
        scheduler: Scheduler,
        mailboxes: Mailboxes,
    ) -> None:
        self._options = options
        self._dialect = dialect
        self._folder = folder
        self._scheduler = scheduler
        self._mailboxes = mailboxes
        self._started = time.time()
        self._profiling = False
        self._flushing = False
        self.stopping = False

    async def health_check(
        self, _request: pb.HealthCheckRequest, _context: Context
    ) -> pb.HealthCheckResponse:
        """Serves HealthCheck: half a second, for the token that the real one makes."""
        if self.stopping:
            return pb.HealthCheckResponse(healthy=False, message="Server is shutting down")
        await asyncio.sleep(_HEALTH_SECONDS)
        return pb.HealthCheckResponse(healthy=True, message="Health check passed")

    async def get_model_info(
        self, _request: pb.GetModelInfoRequest, _context: Context
    ) -> pb.GetModelInfoResponse:
        """Serves GetModelInfo."""
        path = str(self._folder.path)
        defaults = self._folder.sampling_defaults
        return pb.GetModelInfoResponse(
            model_path=path,
            tokenizer_path=path,
            is_generation=not self._options.embedding,
            weight_version="default",
            served_model_name=self._options.served_model_name,
            max_context_length=self._scheduler.max_total_tokens,
            vocab_size=128256,
            model_type=self._folder.config.get("model_type", ""),
            bos_token_id=1,
            max_req_input_len=self._scheduler.context_length - INPUT_RESERVE,
            architectures=self._folder.config.get("architectures", []),
            id2label_json=json.dumps(self._folder.labels),
            num_labels=len(self._folder.labels),
            default_sampling_params_json=json.dumps(defaults, separators=(",", ":"))
            if defaults
            else "",
        )

    async def get_server_info(
        self, _request: pb.GetServerInfoRequest, _context: Context
    ) -> pb.GetServerInfoResponse:
        """Serves GetServerInfo."""
        total = self._scheduler.max_total_tokens
        response = pb.GetServerInfoResponse(
            active_requests=len(self._mailboxes),
            last_receive_timestamp=time.time(),
            uptime_seconds=time.time() - self._started,
            sglang_version=self._dialect.sglang_version,
            server_type="grpc",
            max_total_num_tokens=total,
        )
        response.start_time.FromSeconds(int(self._started))
        response.server_args.update(self._server_args())
        response.scheduler_info.update(
            {
                "status": "ready",
                "max_total_num_tokens": total,
                "max_req_input_len": self._scheduler.context_length - INPUT_RESERVE,
            }
        )
        return response

    async def get_loads(self, request: pb.GetLoadsRequest, context: Context) -> pb.GetLoadsResponse:
        """Serves GetLoads for the one rank there is."""
        sections = set(request.include) or {"all"}
        if unknown := sections - _LOAD_SECTIONS:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"Invalid include sections: {sorted(unknown)}. "
                f"Valid options: {sorted(_LOAD_SECTIONS)}",
            )
        wanted = not request.HasField("dp_rank") or request.dp_rank == 0
        loads = [self._load(sections)] if wanted else []
        aggregate = pb.AggregateMetrics()
        for load in loads:
            aggregate.total_running_reqs = load.num_running_reqs
            aggregate.total_waiting_reqs = load.num_waiting_reqs
            aggregate.total_reqs = load.num_total_reqs
            aggregate.avg_token_usage = load.token_usage
        return pb.GetLoadsResponse(
            timestamp=datetime.now(UTC).isoformat(),
            version=self._dialect.sglang_version,
            dp_rank_count=len(loads),
            loads=loads,
            aggregate=aggregate,
        )

    async def get_tokenizer(
        self,
        _request: common.GetTokenizerRequest,
        _context: Context,
    ) -> AsyncIterator[common.GetTokenizerChunk]:
        """Serves GetTokenizer: the archive in pieces, its digest with the last one."""
        data, digest = self._folder.archive
        for start in range(0, len(data), _CHUNK_BYTES):
            piece = data[start : start + _CHUNK_BYTES]
            last = start + len(piece) == len(data)
            yield common.GetTokenizerChunk(data=piece, sha256=digest if last else "")

    async def flush_cache(
        self, request: common.FlushCacheRequest, _context: Context
    ) -> common.FlushCacheResponse:
        """Serves FlushCache: a busy engine says so with status OK, at once or after a while."""
        if self._flushing:
            return common.FlushCacheResponse(
                success=False, message="Another flush_cache is already in progress."
            )
        if self._busy and request.timeout_s <= 0.0:
            return common.FlushCacheResponse(success=False, message="failed")
        self._flushing = True
        try:
            deadline = time.monotonic() + request.timeout_s
            while self._busy:
                if time.monotonic() >= deadline:
                    return common.FlushCacheResponse(
                        success=False, message="Timed out waiting for idle state."
                    )
                await asyncio.sleep(_IDLE_POLL)
        finally:
            self._flushing = False
        await asyncio.sleep(_FLUSH_SECONDS)
        self._scheduler.cache.clear()
        return common.FlushCacheResponse(success=True, message="Cache flushed successfully")

    async def start_profile(
        self, _request: common.StartProfileRequest, _context: Context
    ) -> common.ProfileResponse:
        """Serves StartProfile; failures come inside the answer."""
        if self._profiling:
            return common.ProfileResponse(
                success=False,
                message="Profiling is already in progress. Call /stop_profile first.",
            )
        self._profiling = True
        return common.ProfileResponse(success=True, message="Start profiling succeeded")

    async def stop_profile(
        self, _request: common.StopProfileRequest, _context: Context
    ) -> common.ProfileResponse:
        """Serves StopProfile; failures come inside the answer."""
        if not self._profiling:
            return common.ProfileResponse(
                success=False, message="Profiling is not in progress. Call /start_profile first."
            )
        self._profiling = False
        return common.ProfileResponse(success=True, message="Stop profiling succeeded")

    async def no_lora(self, _request: object, context: Context) -> None:
        """Serves the LoRA calls, which the engine declares and does not have."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, _NO_LORA)

    @property
    def _busy(self) -> bool:
        return bool(self._scheduler.running or self._scheduler.waiting)

    def _load(self, sections: set[str]) -> pb.SchedulerLoad:
        scheduler = self._scheduler
        total = scheduler.max_total_tokens
        load = pb.SchedulerLoad(
            num_running_reqs=scheduler.running,
            num_waiting_reqs=scheduler.waiting,
            num_total_reqs=scheduler.running + scheduler.waiting,
            num_used_tokens=scheduler.used_tokens,
            max_total_num_tokens=total,
            token_usage=round(scheduler.used_tokens / total, 4),
            max_running_requests=self._options.max_running_requests,
            num_waiting_uncached_tokens=scheduler.waiting_tokens,
        )
        if sections & {"all", "memory"}:
            load.memory.weight_gb = 0.001
            load.memory.kv_cache_gb = 0.004
            load.memory.token_capacity = total
        if sections & {"all", "disagg"}:
            load.disaggregation.mode = "null"
        if sections & {"all", "queues"}:
            load.queues.waiting = scheduler.waiting
            load.queues.SetInParent()
        return load

    def _server_args(self) -> dict[str, Any]:
        options = self._options
        path = str(self._folder.path)
        return {
            "model_path": path,
            "tokenizer_path": path,
            "served_model_name": options.served_model_name or None,
            "host": options.host,
            "port": options.port,
            "context_length": self._scheduler.context_length,
            "max_running_requests": options.max_running_requests,
            "max_queued_requests": options.max_queued_requests,
            "max_total_tokens": self._scheduler.max_total_tokens,
            "stream_interval": options.stream_interval,
            "is_embedding": options.embedding,
            "skip_tokenizer_init": False,
            "grammar_backend": "xgrammar",
            "tool_call_parser": None,
            "reasoning_parser": None,
            "chat_template": None,
            "dp_size": 1,
            "tp_size": 1,
            "disaggregation_mode": "null",
            "disaggregation_bootstrap_port": 8998,
            "kv_events_config": None,
            "schedule_policy": "fcfs",
            "weight_version": "default",
            **options.server_args,
        }
