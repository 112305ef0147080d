"""The calls of an engine that are answered once: its state, its upkeep.

Strategy: one method a call, with a deadline a little beyond the longest time that the
engine itself allows for it. What fails is a RouterError, as from a generation: 501 for a
call that the engine does not have, 504 past the deadline. What an engine was told to do
and did not is no error here but an Outcome that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from sglrouter.engines.channel.channel import Channel, Metadata, sendable
from sglrouter.engines.wire import control_messages as messages
from sglrouter.engines.wire.control_messages import Outcome
from sglrouter.engines.wire.scheduler import (
    GET_MODEL_INFO,
    HEALTH_CHECK,
    EngineFacts,
    health_request,
    model_info_request,
    read_health,
    read_model_info,
)
from sglrouter.errors import EngineError, from_grpc_status

T = TypeVar("T")

# Probes are answered from memory; an engine that takes longer is in trouble.
PROBE_TIMEOUT = 2.0
# The same with more patience; older ones ask their scheduler between two steps.
_INFORMATION_TIMEOUT = 10.0
# An engine waits 20 s for its token, half a minute or more for its cache to be free, and
# ten minutes for a profile to be written.
_HEALTH_TIMEOUT = 25.0
_FLUSH_TIMEOUT = 30.0
_FLUSH_MARGIN = 10.0
_PROFILE_TIMEOUT = 600.0
# How much longer to wait here, so that the engine's own words come through.
_GRACE = 5.0


class Control:
    """What an engine can be asked for besides generating.

    Its methods raise RouterError for a call that fails. Those that serve a client take
    `metadata`, request headers to send along.

    Args:
        channel: Gives the connection to the engine.
    """

    def __init__(self, channel: Callable[[], Channel]) -> None:
        self._channel = channel

    def facts(self) -> EngineFacts:
        """Returns what the engine says of itself and its model."""
        return self._ask(GET_MODEL_INFO, model_info_request(), read_model_info, PROBE_TIMEOUT)

    def health(self) -> bool:
        """Returns whether its health service says that it serves."""
        return self._ask(HEALTH_CHECK, health_request(), read_health, PROBE_TIMEOUT)

    def server_info(self, *, metadata: Metadata = ()) -> dict[str, Any]:
        """Returns the engine's arguments and state; see read_server_info().

        Engines whose servicer does not fit their SGLang fail here and nowhere else.
        """
        return self._ask(
            messages.GET_SERVER_INFO,
            messages.server_info_request(),
            messages.read_server_info,
            _INFORMATION_TIMEOUT,
            metadata,
        )

    def loads(
        self,
        include: Sequence[str] = (),
        *,
        dp_rank: int | None = None,
        metadata: Metadata = (),
    ) -> dict[str, Any]:
        """Returns how busy the engine is: its ranks as "loads", and their "aggregate".

        Args:
            include: Sections, of core, memory, spec, lora, disagg, queues, all; empty for
                all. An engine refuses others.
            dp_rank: The one rank to tell about.
            metadata: Request headers.
        """
        request = messages.loads_request(include, dp_rank)
        return self._ask(
            messages.GET_LOADS, request, messages.read_loads, _INFORMATION_TIMEOUT, metadata
        )

    def flush_cache(self, timeout: float = 0.0, *, metadata: Metadata = ()) -> Outcome:
        """Empties the prefix cache, which an engine does only while nothing runs.

        Args:
            timeout: How long in seconds the engine may wait until nothing does.
            metadata: Request headers.
        """
        longest = max(_FLUSH_TIMEOUT, timeout + _FLUSH_MARGIN) + _GRACE
        request = messages.flush_cache_request(timeout)
        return self._ask(
            messages.FLUSH_CACHE, request, messages.read_flush_cache, longest, metadata
        )

    def start_profile(
        self,
        *,
        output_dir: str | None = None,
        start_step: int | None = None,
        num_steps: int | None = None,
        activities: Sequence[str] | None = None,
        with_stack: bool | None = None,
        record_shapes: bool | None = None,
        profile_by_stage: bool | None = None,
        metadata: Metadata = (),
    ) -> Outcome:
        """Starts the engine's profiler; None leaves an option to the engine."""
        request = messages.start_profile_request(
            {
                "output_dir": output_dir,
                "start_step": start_step,
                "num_steps": num_steps,
                "activities": activities,
                "with_stack": with_stack,
                "record_shapes": record_shapes,
                "profile_by_stage": profile_by_stage,
            }
        )
        return self._profile(messages.START_PROFILE, request, metadata)

    def stop_profile(self, *, metadata: Metadata = ()) -> Outcome:
        """Stops the engine's profiler, which writes its traces; that can take minutes."""
        return self._profile(messages.STOP_PROFILE, messages.stop_profile_request(), metadata)

    def health_generate(
        self, *, timeout: float = _HEALTH_TIMEOUT, metadata: Metadata = ()
    ) -> Outcome:
        """Has the engine generate a token: never quick, half a second at least."""
        return self._ask(
            messages.HEALTH_GENERATE,
            messages.health_generate_request(),
            messages.read_health_generate,
            timeout,
            metadata,
        )

    def _profile(self, method: str, request: bytes, metadata: Metadata) -> Outcome:
        longest = _PROFILE_TIMEOUT + _GRACE
        return self._ask(method, request, messages.read_profile, longest, metadata)

    def _ask(
        self,
        method: str,
        request: bytes,
        read: Callable[[bytes], T],
        timeout: float,
        metadata: Metadata = (),
    ) -> T:
        """Makes a call and reads its answer."""
        status, answer = self._channel().unary(
            method, request, timeout=timeout, metadata=sendable(metadata)
        )
        if not status.ok:
            raise from_grpc_status(status.code, status.message)
        try:
            return read(answer)
        except DecodeError as exc:
            raise EngineError(f"The engine sent a message that cannot be read: {exc}") from exc
