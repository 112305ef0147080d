"""A client's connection: plain requests in callbacks of the event loop, all others in a greenlet.

Strategy: a connection has a greenlet, which sleeps. While it does, callbacks read requests,
call the application and write what it returns; most requests are begun in one callback and
answered in another, and nothing is switched to or from. What is not plain is handed over
with all its bytes: the greenlet wakes, and gunicorn's own parser and loop serve that request
and give the connection back. So does a request that finds that it has to wait.

A connection has one of these states (State). Requests that a client sends ahead stay in the
reader until their turn comes.
"""

from __future__ import annotations

import logging
from enum import Enum
from time import monotonic
from typing import Any

import gevent
from gevent.event import Event

from sglrouter._fast.request_reader import RequestReader
from sglrouter.errors import ClientGone
from sglrouter.http.admission import SURPLUS_KEY
from sglrouter.http.client import ENVIRON_KEY, Delivery
from sglrouter.http.pushed import PushedStream
from sglrouter.http.whole import WholeDelivery
from sglrouter.server.callback_client import CallbackClient
from sglrouter.server.idle_connections import Wait
from sglrouter.server.plain_serving import PlainServing, Record
from sglrouter.server.presence import ConnectionWatch, note_loss
from sglrouter.waiting import NeedsGreenlet, in_callback

logger = logging.getLogger(__name__)

_READ = 1

# Requests of one client that are served before others have their turn.
_AT_ONCE = 8
# Bytes that a client may send ahead while a request of it is served.
_AHEAD = 64 * 1024
# Seconds that callbacks wait for the rest of a body.
_BODY_TIME = 1.0
# Seconds that a connection has for its first request once the worker stops, and where
# there is no room for it.
_FIRST_REQUEST = 5.0
_SURPLUS_REQUEST = 1.0


class State(Enum):
    """Who has the connection, and what for.

    Attributes:
        IDLE: Callbacks wait for a request, or for the rest of one.
        SERVING: Callbacks serve one.
        HANDED_OVER: The greenlet has it, and gunicorn's loop.
        CLOSED: There will be no more requests.
    """

    IDLE = "idle"
    SERVING = "serving"
    HANDED_OVER = "handed over"
    CLOSED = "closed"


class Connection(Wait):
    """One connection of this worker; who asks for deliveries, see Recipient.

    Args:
        sock: Its socket.
        serving: What its requests are served with.
        inside: Whether there is room for it.

    Attributes:
        inside: As given.
        served: Whether it has had a request.
        watch_in_greenlet: Watches the client while gunicorn's loop serves it.
        state: Who has it.
        client: The client of requests in callbacks.
    """

    def __init__(self, sock: Any, serving: PlainServing, *, inside: bool) -> None:
        self._socket = sock
        self._serving = serving
        self.inside = inside
        self.served = False
        self.watch_in_greenlet = ConnectionWatch(sock)
        self.state = State.HANDED_OVER
        self.client = CallbackClient(sock, serving)
        self._clock = serving.clock
        self._reader: RequestReader | None = None
        self._reading: Any = None
        self._woken = Event()
        self._handed_over: bytes | None = None
        self._proceeding = False
        self._reading_body = False
        self._ended = self._gone = False
        self._record: Record | None = None
        self._delivery: Delivery | None = None

    # In the connection's greenlet.

    def serve(self, address: Any, server: Any, data: bytes) -> bytes | None:
        """Sleeps while plain requests are served.

        Args:
            address: The client's.
            server: The address that it has connected to.
            data: What has been read of the connection beyond the last request.

        Returns:
            What has been read and is not for callbacks; None once the connection is to be
            closed.
        """
        reader = self._reader
        if reader is None:
            loop = gevent.get_hub().loop
            reader = self._reader = self._serving.reader(self._socket, address, server)
            self._reading = loop.io(self._socket.fileno(), _READ)
        self._handed_over = None
        self._woken.clear()
        self._become_idle()
        self._reading.start(self._on_readable)
        if data:
            reader.feed(data)
            gevent.get_hub().loop.run_callback(self._proceed)
        try:
            self._woken.wait()
        finally:
            self._leave()
        return self._handed_over

    def close(self) -> None:
        """Lets go of it, before its socket is closed."""
        self._leave_room()
        self.watch_in_greenlet.close()
        self.client.close()
        if self._reading is not None:
            self._reading.stop()
            self._reading.close()

    def times(self) -> tuple[float, float]:
        """Seconds that it may wait for its next request, and that it has once the worker stops."""
        serving = self._serving
        seconds = serving.keepalive
        grace = 0.0 if self.served else min(seconds, _FIRST_REQUEST)
        if not self.inside:
            seconds = grace = min(seconds, _SURPLUS_REQUEST)
        # A stream that outlives SIGTERM leaves an idle connection behind, too.
        return (seconds if serving.worker.alive else grace), grace

    def _leave(self) -> None:
        """Whatever was going on, callbacks have nothing to do with it any more."""
        self._serving.room.remove(self)
        self._clock.forget(self)
        self._reading.stop()
        self.client.stop_writing()
        if self._delivery is not None:
            # The greenlet was killed.
            self._delivery.close()
            self._delivery.failure = None
            self._delivery = None
        self.client.unwatch()
        if self.state is not State.CLOSED:
            self.state = State.HANDED_OVER

    def _leave_room(self) -> None:
        if not self._gone:
            self._gone = True
            self._serving.room.leave(inside=self.inside)

    # Reading, in callbacks.

    def _become_idle(self) -> None:
        self.state = State.IDLE
        self._reading_body = False
        self._serving.room.add(self, *self.times(), inside=self.inside, served=self.served)

    def _on_readable(self) -> None:
        reader = self._reader
        assert reader is not None
        try:
            size = reader.fill()
        except OSError as exc:
            note_loss(exc)
            self._on_gone()
            return
        if size == 0:
            self._on_last_word()
        elif self.state is State.IDLE:
            self._proceed()
        elif reader.waiting > _AHEAD:
            self._reading.stop()

    def _on_last_word(self) -> None:
        """The client will send nothing more; it may still wait for an answer."""
        self._ended = True
        self._reading.stop()
        if self.state is State.SERVING:
            self.client.last_word(self._on_gone)
        elif self._reading_body:
            self._hand_over()
        else:
            self._end()

    def _on_gone(self) -> None:
        if not self.client.gone():
            self._end()

    def _proceed(self) -> None:
        """Serves the requests that have arrived, one after the other."""
        if self._proceeding:
            return
        self._proceeding = True
        try:
            for _ in range(_AT_ONCE):
                if self.state is not State.IDLE or not self._serve_next():
                    return
            if self.state is State.IDLE:
                gevent.get_hub().loop.run_callback(self._proceed)
        except Exception:
            logger.exception("a connection failed")
            self._end()
        finally:
            self._proceeding = False

    def _serve_next(self) -> bool:
        """Serves the next request; returns whether there may be another."""
        reader, serving = self._reader, self._serving
        assert reader is not None
        environ = reader.next()
        if environ is False:
            self._hand_over()
            return False
        if environ is None:
            if self._ended:
                self._end()
            elif reader.has_head and not self._reading_body:
                serving.room.remove(self)
                self._reading_body = True
                self.due = monotonic() + _BODY_TIME
                self._clock.watch(self)
            return False
        if self._reading_body:
            self._clock.forget(self)
        else:
            serving.room.remove(self)
        self.state = State.SERVING
        self.served = True
        environ[ENVIRON_KEY] = self.client
        self.client.closes = reader.closes
        if not self.inside:
            environ[SURPLUS_KEY] = True
            self.client.closes = True
        self._record = serving.begin(environ)
        try:
            body = in_callback(serving.application, environ, self.client.start_response)
        except NeedsGreenlet:
            self._record = None
            serving.give_back()
            self._hand_over()
            return False
        reader.forget()
        if type(body) is PushedStream or type(body) is WholeDelivery:
            self._delivery = body
            body.begin(self)
        else:
            self._answer(b"".join(body))
        return True

    def on_time(self, _now: float) -> None:
        """The clock: the rest of a body takes its time."""
        self._clock.forget(self)
        if self._reading_body and self.state is State.IDLE:
            self._hand_over()

    def dismiss(self) -> None:
        """See Wait: a request that has arrived by now is still served."""
        reader = self._reader
        assert reader is not None
        try:
            arrived = reader.fill() > 0
        except OSError:
            arrived = False
        if arrived:
            self._proceed()
        if self.state is State.IDLE and not self._reading_body:
            self._end()

    def _hand_over(self) -> None:
        assert self._reader is not None
        self._handed_over = self._reader.take()
        self.state = State.HANDED_OVER
        self._leave()
        self._woken.set()

    def _end(self) -> None:
        """There will be no more requests."""
        self.state = State.CLOSED
        self._leave()
        # At once, and not when the greenlet has woken: others may wait for its place.
        self._leave_room()
        self._woken.set()

    # Answering, in callbacks.

    def _answer(self, body: bytes) -> None:
        """Writes a response that is there already."""
        try:
            if self.client.send_whole(body):
                self.over(None)
            else:
                self.client.when_taken(self.over)
        except OSError as exc:
            self.over(exc)

    def opened(self) -> None:
        """See Recipient."""
        assert self._delivery is not None
        self._delivery.start()

    def refused(self, error: Exception) -> None:
        """See Recipient."""
        delivery, self._delivery = self._delivery, None
        assert delivery is not None
        if isinstance(error, ClientGone):
            delivery.failure = None
            self._end()
            return
        client = self.client
        assert delivery.failure is not None
        client.status, client.headers, body = delivery.failure(error)
        # It knows the response, which knows the delivery: a cycle would wait for the collector.
        delivery.failure = None
        self._answer(body)

    def over(self, trouble: Exception | None) -> None:
        """See Recipient."""
        if self._delivery is not None:
            self._delivery.failure = None
            self._delivery = None
        if trouble is not None:
            if isinstance(trouble, OSError):
                note_loss(trouble)
            else:
                logger.error("a response failed", exc_info=trouble)
            self.client.closes = True
        if self._record is not None:
            client = self.client
            self._record.end(client.status, client.headers, client.writer)
            self._record = None
        self.client.next_response()
        if self.client.closes or (self._ended and not self._has_more()):
            self._end()
            return
        self._become_idle()
        if not self._ended:
            self._reading.start(self._on_readable)
        if self._has_more():
            self._proceed()

    def _has_more(self) -> bool:
        return self._reader is not None and self._reader.waiting > 0
