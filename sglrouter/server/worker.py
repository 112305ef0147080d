"""The gunicorn worker: gevent's, with callbacks, bounds for clients, a prompt stop.

Plain requests are served in callbacks of the event loop; see connection. For all others a
response may still be written straight from there: the application finds the client in its
environment; see direct_client. A connection beyond `worker_connections` is served
in the application's knowledge of that, and closed; see listener and idle_connections.

gunicorn waits on SIGTERM until no connection is left, and one without a request counts
until its time is over. This worker brings that time forward: at once for an idle
keep-alive connection, a little later for one that has just been made and whose client
is about to send. Connections with a request on them are left alone, until shortly before
the graceful time is over: then each gets an error for its end.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import FrameType
from typing import Any

import gevent
import gevent.socket
from gunicorn.http.wsgi import Response
from gunicorn.workers.ggevent import GeventWorker

from sglrouter.errors import RouterError
from sglrouter.http.admission import SURPLUS_KEY
from sglrouter.http.client import ENVIRON_KEY, WholeBody
from sglrouter.http.clock import Clock
from sglrouter.server.body_intake import Bodies, BodyBounds, unread
from sglrouter.server.connection import Connection
from sglrouter.server.direct_client import DirectClient, WaitingClients
from sglrouter.server.idle_connections import RequestWait, Room
from sglrouter.server.json_errors import use_json_errors
from sglrouter.server.lingering import LONGEST, linger
from sglrouter.server.listener import RESERVE, RouterServer, bound_sends
from sglrouter.server.plain_serving import PlainServing, allows_callbacks
from sglrouter.server.requests import Requests, use_requests
from sglrouter.server.savings import save_work

# Seconds before the end of the graceful time at which requests are ended.
_LAST_WORDS = 1.0
# Bytes of an unread body that are read for the sake of keeping the connection.
_LITTLE = 64 * 1024
# Seconds that a client may go on sending what will not be read any more.
_SHORT_LINGER = 1.0


class RouterWorker(GeventWorker):  # type: ignore[misc]  # gunicorn has no types
    """A gevent worker that lets the application at its clients, and stops promptly.

    Attributes:
        application: The WSGI application as it was loaded.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clock = Clock()
        self._room = Room(self.cfg.worker_connections, RESERVE, self._clock)
        self._waiting = WaitingClients()
        self._serving: PlainServing
        self._callbacks = False
        self._bodies: Bodies
        self._send_timeout = 0.0
        self._stopping = False
        self.worker_connections = self.cfg.worker_connections + RESERVE
        self.wsgi: Any = None
        self.application: Any = None

    def load_wsgi(self) -> None:
        """Loads the application and puts the client into its environment."""
        use_json_errors()
        save_work(self.cfg)
        super().load_wsgi()
        application: Any = self.wsgi
        self.application = application
        settings = application.settings
        self._send_timeout = settings.send_timeout
        self._bodies = Bodies(
            BodyBounds(settings.body_timeout, settings.body_rate, settings.body_memory),
            application.large_request,
        )
        use_requests(self._bodies, self._prepare)
        self._callbacks = settings.callbacks and allows_callbacks(self.cfg)
        self._serving = PlainServing(self, application, self._room, self._waiting, self._clock)

        def with_client(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            response = start_response.__self__
            connection = gevent.getcurrent().connection
            client = None
            # HTTP/2 and TLS frame what is written in ways of their own.
            if type(response) is Response and type(response.sock) is gevent.socket.socket:
                client = environ[ENVIRON_KEY] = DirectClient(
                    response,
                    connection.watch_in_greenlet,
                    response.req.unreader,
                    self._waiting,
                    self._clock,
                )
            if not connection.inside:
                environ[SURPLUS_KEY] = True
                response.force_close()
            body: Iterable[bytes] = application(environ, start_response)
            if client is None:
                return body
            left = unread(response.req)
            if left is None or left > _LITTLE or not self.alive:
                response.force_close()
            if type(body) is list and body and not response._omits_body:
                return WholeBody(client, b"".join(body))
            return body

        self.wsgi = with_client

    def run(self) -> None:
        """Serves until it is told to stop, and then to the end of what it serves."""
        for listener in self.sockets:
            bound_sends(listener, self._send_timeout)
        super().run()

    def server_class(self, listener: Any, *, spawn: Any, **_others: Any) -> RouterServer:
        """Makes what accepts connections from a listening socket."""
        alone = self.cfg.workers == 1
        return RouterServer(
            listener, partial(self.handle, listener), spawn, self._room, alone=alone
        )

    def notify(self) -> None:
        """Tells the master each second that this worker lives."""
        if not self.alive:
            self._begin_to_stop()
        super().notify()

    def timeout_ctx(self) -> AbstractContextManager[object]:
        """No bound round gunicorn's wait for a request: Requests has its own."""
        return nullcontext()

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Serves one connection."""
        greenlet = gevent.getcurrent()
        connection = Connection(client, self._serving, inside=self._room.enter())
        greenlet.connection, greenlet.server_address = connection, listener.getsockname()
        try:
            super().handle(listener, client, addr)
        finally:
            connection.close()

    def _prepare(self, requests: Requests) -> None:
        """Puts the callbacks of a connection before gunicorn's parser."""
        greenlet = gevent.getcurrent()
        connection, server = greenlet.connection, greenlet.server_address
        # A client of a Unix socket has no address.
        if self._callbacks and isinstance(server, tuple):
            requests.plainly = partial(connection.serve, requests.source_addr, server)
        requests.wait = partial(self._request_wait, connection)

    def _request_wait(self, connection: Connection) -> RequestWait:
        seconds, grace = connection.times()
        return RequestWait(
            self._room, seconds, grace, inside=connection.inside, served=connection.served
        )

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> Any:
        """Serves one request; from then on its connection may be idle."""
        connection = gevent.getcurrent().connection
        connection.served = True
        unreader = req.unreader
        unreader.request = req
        try:
            return super().handle_request(listener_name, req, sock, addr)
        except StopIteration:
            # The connection is to be closed.
            if unread(req) != 0:
                in_haste = req.must_close or not connection.inside or not self.alive
                linger(sock, _SHORT_LINGER if in_haste else LONGEST)
            raise
        except TimeoutError as exc:
            self.log.warning("a client took nothing for too long")
            raise BrokenPipeError(errno.EPIPE, "the client takes nothing") from exc
        finally:
            unreader.end_request()

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answers what cannot be read, or has failed, and closes its connection."""
        super().handle_error(req, client, addr, exc)
        if type(client) is gevent.socket.socket:
            linger(client, _SHORT_LINGER)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM: no new connections, no idle ones, the others to their end."""
        super().handle_exit(sig, frame)
        self._begin_to_stop()

    def _begin_to_stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            gevent.spawn(self._stop)

    def _stop(self) -> None:
        self._room.empty()
        # Half of a time that is shorter than two seconds.
        graceful = self.cfg.graceful_timeout
        gevent.sleep(max(graceful - _LAST_WORDS, graceful / 2))
        error = RouterError("The router is shutting down", status=503, code="server_shutting_down")
        self._bodies.end_all(error)
        self._waiting.end_all(error)
