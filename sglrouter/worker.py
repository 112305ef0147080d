"""The gunicorn worker: gevent's, with a prompt stop.

gunicorn waits on SIGTERM until no connection is left, and one without a request counts
until its time is over. This worker brings that time forward: at once for an idle
keep-alive connection, a little later for one that has just been made and whose client
is about to send. Connections with a request on them are left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gevent
from gunicorn.workers.ggevent import GeventWorker

if TYPE_CHECKING:
    from types import FrameType

# Seconds that a new connection has for its first request once the worker stops.
_FIRST_REQUEST = 5.0


class RouterWorker(GeventWorker):  # type: ignore[misc]  # gunicorn has no types
    """A gevent worker that does not wait for idle connections when it stops."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waits: set[RequestWait] = set()

    def timeout_ctx(self) -> RequestWait:
        """The wait for a connection's next request, bounded by `keepalive`."""
        seconds = self.cfg.keepalive
        served = getattr(gevent.getcurrent(), "has_served", False)
        grace = 0.0 if served else min(seconds, _FIRST_REQUEST)
        # A stream that outlives SIGTERM leaves an idle connection behind, too.
        return RequestWait(seconds if self.alive else grace, grace, self._waits)

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
