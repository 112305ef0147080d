"""The gunicorn worker: gevent's, with direct writes, a watch on clients, a prompt stop.

A response may be written straight from the event loop: the application finds the
client in its environment, and what it sends there is framed as gunicorn frames it and
counted in gunicorn's response, so that status, access log and keep-alive stay
gunicorn's. The same object tells when the client has left.

gunicorn waits on SIGTERM until no connection is left, and one without a request counts
until its time is over. This worker brings that time forward: at once for an idle
keep-alive connection, a little later for one that has just been made and whose client
is about to send. Connections with a request on them are left alone.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import gevent
import gevent.socket
from gunicorn.http.wsgi import Response
from gunicorn.workers.ggevent import GeventWorker

from sglrouter._fast.chunked import BodyWriter
from sglrouter.http.client import ENVIRON_KEY
from sglrouter.server.json_errors import use_json_errors
from sglrouter.server.quick_request import use_quick_requests
from sglrouter.server.savings import save_work

# Seconds that a new connection has for its first request once the worker stops.
_FIRST_REQUEST = 5.0

_READ = 1


class RouterWorker(GeventWorker):  # type: ignore[misc]  # gunicorn has no types
    """A gevent worker that lets the application at its clients, and stops promptly.

    Attributes:
        application: The WSGI application as it was loaded.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waits: set[RequestWait] = set()
        self.wsgi: Any = None
        self.application: Any = None

    def load_wsgi(self) -> None:
        """Loads the application and puts the client into its environment."""
        use_quick_requests()
        use_json_errors()
        save_work(self.cfg)
        super().load_wsgi()
        application: Any = self.wsgi
        self.application = application

        def with_client(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            response = start_response.__self__
            # HTTP/2 and TLS frame what is written in ways of their own.
            if type(response) is Response and type(response.sock) is gevent.socket.socket:
                environ[ENVIRON_KEY] = DirectClient(response, gevent.getcurrent().watch)
            body: Iterable[bytes] = application(environ, start_response)
            return body

        self.wsgi = with_client

    def timeout_ctx(self) -> RequestWait:
        """The wait for a connection's next request, bounded by `keepalive`."""
        seconds = self.cfg.keepalive
        served = getattr(gevent.getcurrent(), "has_served", False)
        grace = 0.0 if served else min(seconds, _FIRST_REQUEST)
        # A stream that outlives SIGTERM leaves an idle connection behind, too.
        return RequestWait(seconds if self.alive else grace, grace, self._waits)

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Serves one connection."""
        watch = gevent.getcurrent().watch = ConnectionWatch(client)
        try:
            super().handle(listener, client, addr)
        finally:
            watch.close()

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> Any:
        """Serves one request; from then on its connection may be idle."""
        gevent.getcurrent().has_served = True
        return super().handle_request(listener_name, req, sock, addr)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM: no new connections, no idle ones, the others to their end."""
        super().handle_exit(sig, frame)
        gevent.spawn(self._stop_waiting)

    def _stop_waiting(self) -> None:
        for wait in self._waits:
            wait.bring_forward()


class DirectClient:
    """The client of one request, written to without gunicorn's own loop over the body.

    See sglrouter.http.client.Client.
    """

    def __init__(self, response: Any, watch: ConnectionWatch) -> None:
        self._response = response
        self._socket = response.sock
        self._watch = watch
        self.writer: BodyWriter | None = None

    def send(self, body: bytes, *, last: bool = False) -> bool:
        """Writes a part of the body now, the headers in the same packet as the first."""
        response, writer = self._response, self.writer
        head = b""
        if writer is None:
            head = self._headers()
            writer = self.writer = BodyWriter(self._socket.fileno(), response.chunked)
        try:
            return writer.write(body, last, head)
        finally:
            response.sent = writer.written
            if last and response.chunked:
                # Else gunicorn would end the body once more, or close the connection.
                response.chunked = False
                response.response_length = response.sent

    def wait_until_taken(self) -> None:
        """Waits until the client has taken what was kept."""
        if self.writer is not None:
            # It stays kept until it is sent: a sink that saw nothing would write into it.
            self._socket.sendall(self.writer.kept)
            self.writer.take_kept()

    def watch(self, on_gone: Callable[[], None]) -> None:
        """Has `on_gone` called when the client closes its connection."""
        self._watch.start(on_gone)

    def unwatch(self) -> None:
        """Ends the watch."""
        self._watch.stop()
        if self.writer is not None:
            # What was written past send() belongs into the access log, too.
            self._response.sent = self.writer.written

    def _headers(self) -> bytes:
        """What gunicorn would send as the response's head."""
        response = self._response
        recorder = _Recorder()
        response.sock = recorder
        try:
            response.send_headers()
        finally:
            response.sock = self._socket
        return recorder.data


class ConnectionWatch:
    """Notices that the client of a connection closes it.

    It serves all requests of the connection: a new watcher for each would cost a call
    into the kernel.
    """

    def __init__(self, sock: Any) -> None:
        self._socket = sock
        self._watcher: Any = None

    def start(self, on_gone: Callable[[], None]) -> None:
        """Has `on_gone` called, from the event loop, when the client is gone."""
        if self._watcher is None:
            self._watcher = gevent.get_hub().loop.io(self._socket.fileno(), _READ)
        self._watcher.start(self._on_readable, on_gone)

    def stop(self) -> None:
        """Stops watching until the next start."""
        if self._watcher is not None:
            self._watcher.stop()

    def close(self) -> None:
        """Ends it, before the socket is closed."""
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher.close()
            self._watcher = None

    def _on_readable(self, on_gone: Callable[[], None]) -> None:
        try:
            gone = not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            gone = True
        # What is there is the next request: it waits, and so nothing more can be seen.
        self.stop()
        if gone:
            on_gone()


class _Recorder:
    """Stands in for a socket to learn what would be sent."""

    data = b""

    def sendall(self, data: bytes) -> None:
        self.data += data


class RequestWait:
    """A gevent.Timeout that can be brought forward while it runs.

    Args:
        seconds: The time that the connection has.
        grace: The time that it still has once it is brought forward.
        waits: All that are going on; this one is in it meanwhile.
    """

    def __init__(self, seconds: float, grace: float, waits: set[RequestWait]) -> None:
        self._greenlet = gevent.getcurrent()
        self._timeout = gevent.Timeout(seconds, False)
        self._grace = grace
        self._sooner: Any = None
        self._waits = waits

    def __enter__(self) -> None:
        self._waits.add(self)
        self._timeout.start()

    def __exit__(self, *exc_info: object) -> bool:
        self._waits.discard(self)
        if self._sooner is not None:
            self._sooner.stop()
            self._sooner.close()
        return bool(self._timeout.__exit__(*exc_info))

    def bring_forward(self) -> None:
        """Leaves only the grace; a request that has arrived by then is served."""
        if self._sooner is None:
            # Less urgent than the sockets, as the timeout itself is.
            self._sooner = gevent.get_hub().loop.timer(self._grace, priority=-1)
            self._sooner.start(self._greenlet.throw, self._timeout)
