"""A channel over grpcio.

Strategy: grpcio hands out messages to a blocking iterator, so each streaming call has
a reader of its own that fills a bounded queue. It is written with `threading`: in a
gevent worker, where that is patched, a reader is a greenlet; elsewhere it is a thread.
While the queue is full the reader stops asking, and HTTP/2 flow control holds the
engine back.

A channel must be made in the process that uses it: grpcio does not survive a fork.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc

from sglrouter._fast.sink import Sink
from sglrouter.endpoint import Endpoint
from sglrouter.engines.channel.channel import Bell, ChannelOptions, Metadata, Status
from sglrouter.waiting import about_to_wait

MAX_MESSAGE = 256 * 1024 * 1024
_DEFAULTS = ChannelOptions()

_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    # Generate is not idempotent; whether to try again is not the transport's to decide.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Channels to one engine must not share a connection behind our back.
    ("grpc.use_local_subchannel_pool", 1),
    # An engine that is silent for long is pinged all the while, not twice.
    ("grpc.http2.max_pings_without_data", 0),
]

# grpcio tells by its words alone that a request has not left, or was not looked at.
_UNSEEN = (
    "failed to connect to all addresses",
    "errors resolving ",
    "DNS resolution failed",
    "Name resolution failure",
    "Stream refused by server",
    "Received RST_STREAM with error code 7",
    "GOAWAY received",
)

# Of an answer that is longer than MAX_MESSAGE, and of ENHANCE_YOUR_CALM.
_TOO_LARGE = ("CLIENT: Received message larger than max", "Received message larger than max")
_CALM = "Received RST_STREAM with error code 11"

_prepared_for_gevent = False


def _prepare_for_gevent() -> None:
    """Makes grpcio's waits cooperative where the process is patched."""
    global _prepared_for_gevent
    if _prepared_for_gevent:
        return
    from gevent.monkey import is_module_patched

    if is_module_patched("threading"):
        from grpc.experimental.gevent import init_gevent

        init_gevent()
        _prepared_for_gevent = True


class GrpcioChannel:
    """A Channel over grpcio, plaintext or TLS with the system's certificates."""

    def __init__(self, endpoint: Endpoint, options: ChannelOptions = _DEFAULTS) -> None:
        _prepare_for_gevent()
        settings = [
            *_OPTIONS,
            ("grpc.keepalive_time_ms", _milliseconds(options.keepalive)),
            ("grpc.keepalive_timeout_ms", _milliseconds(options.keepalive_timeout)),
            # Without it the first is at least a minute.
            ("grpc.http2.ping_timeout_ms", _milliseconds(options.keepalive_timeout)),
        ]
        self._channel: Any = (
            grpc.secure_channel(endpoint.target, grpc.ssl_channel_credentials(), settings)
            if endpoint.tls
            else grpc.insecure_channel(endpoint.target, settings)
        )
        self._read_ahead = options.read_ahead
        self._connected: bool | None = None
        self._counting = threading.Lock()
        self._active = 0
        self._unary_methods: dict[str, Any] = {}
        self._stream_methods: dict[str, Any] = {}

    def _on_end(self, status: Status) -> None:
        with self._counting:
            self._active -= 1
        self._observe(status)

    def _observe(self, status: Status) -> None:
        # grpcio would tell by polling; the outcome of calls costs nothing.
        self._connected = status.code != "UNAVAILABLE"

    @property
    def connected(self) -> bool | None:
        """Whether the last call to end reached the engine; None before the first."""
        return self._connected

    def unary(
        self, method: str, request: bytes, *, timeout: float, metadata: Metadata = ()
    ) -> tuple[Status, bytes]:
        """Makes one call and waits for its answer."""
        about_to_wait()
        call = self._unary_methods.get(method)
        if call is None:
            call = self._unary_methods[method] = self._channel.unary_unary(method)
        status, answer = Status("OK", ""), b""
        try:
            answer = call(request, timeout=timeout, metadata=tuple(metadata))
        except grpc.RpcError as exc:
            status = _status(exc)
        except ValueError as exc:
            # grpcio's way to say that the channel was closed meanwhile.
            return Status("UNAVAILABLE", str(exc)), b""
        self._observe(status)
        return status, answer

    def stream(
        self,
        method: str,
        request: bytes,
        *,
        timeout: float,
        arrived: Bell,
        metadata: Metadata = (),
    ) -> GrpcioCall:
        """Starts a server-streaming call."""
        # Of its news only somebody hears who waits.
        about_to_wait()
        call = self._stream_methods.get(method)
        if call is None:
            call = self._stream_methods[method] = self._channel.unary_stream(method)
        try:
            made = call(request, timeout=timeout, metadata=tuple(metadata))
        except ValueError as exc:
            made = _OnClosedChannel(str(exc))
        with self._counting:
            self._active += 1
        return GrpcioCall(made, arrived, self._on_end, self._read_ahead)

    @property
    def active(self) -> int:
        """How many streaming calls are under way."""
        return self._active

    def counts(self) -> Mapping[str, int]:
        """Nothing: grpcio keeps its figures to itself."""
        return {}

    def close(self) -> None:
        """Ends the connection and every call on it."""
        self._channel.close()


class _OnClosedChannel(grpc.RpcError):
    """A call on a channel that was closed meanwhile, and how it ends."""

    def __iter__(self) -> Iterator[bytes]:
        raise self

    def cancel(self) -> None:
        pass

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return str(self)


class GrpcioCall:
    """A server-streaming call and the reader that follows it."""

    def __init__(
        self,
        call: Any,
        arrived: Bell,
        on_end: Callable[[Status], None],
        read_ahead: int,
    ) -> None:
        self._call = call
        self._arrived = arrived
        self._on_end = on_end
        self._read_ahead = read_ahead
        self._messages: deque[bytes] = deque()
        self._room = threading.Event()
        self._room.set()
        self._cancelled = False
        self._status: Status | None = None
        threading.Thread(target=self._read, name="grpcio-reader", daemon=True).start()

    def _read(self) -> None:
        touched = False
        try:
            for message in self._call:
                touched = True
                self._messages.append(message)
                self._arrived.set()
                if len(self._messages) >= self._read_ahead:
                    self._wait_for_room()
            status = Status("OK", "")
        except grpc.RpcError as exc:
            status = _status(exc)
            if touched:
                status = status._replace(unseen=False)
        self._status = status
        self._on_end(status)
        self._arrived.set()

    def _wait_for_room(self) -> None:
        self._room.clear()
        # take() may have emptied the queue between the check and the clear().
        if len(self._messages) >= self._read_ahead and not self._cancelled:
            self._room.wait()

    def take(self) -> list[bytes]:
        """Returns the messages that have arrived since the last take."""
        messages = self._messages
        taken = [messages.popleft() for _ in range(len(messages))]
        self._room.set()
        return taken

    @property
    def status(self) -> Status | None:
        """How the call ended, once it has."""
        return self._status

    @property
    def holds_back(self) -> bool:
        """Never: what was taken has made room at once."""
        return False

    def listen(self, on_news: Callable[[], None] | None) -> bool:  # noqa: ARG002
        """Not here: the reader is a thread of its own."""
        return False

    def divert(self, sink: Sink) -> None:
        """Does nothing."""

    def cancel(self) -> None:
        """Tells the engine to stop."""
        self._cancelled = True
        self._room.set()
        self._call.cancel()


def _milliseconds(seconds: float) -> int:
    return max(1, min(int(seconds * 1000), 2**31 - 1))


def _status(error: Any) -> Status:
    code, words = error.code().name, error.details() or ""
    if code == "RESOURCE_EXHAUSTED":
        code = _unless_ours(words)
    unseen = code == "UNAVAILABLE" and _bare(words).startswith(_UNSEEN)
    return Status(code, words, unseen=unseen)


def _bare(words: str) -> str:
    """The reason alone: newer versions of grpcio put it in brackets."""
    return words.removeprefix("Stream removed (").removeprefix("RST_STREAM (")


def _unless_ours(words: str) -> str:
    """What the transport calls exhausted and no engine does."""
    words = _bare(words)
    if words.startswith(_TOO_LARGE):
        return "INTERNAL"
    return "UNAVAILABLE" if words.startswith(_CALM) else "RESOURCE_EXHAUSTED"
