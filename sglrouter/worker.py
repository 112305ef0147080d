"""The gunicorn worker: gevent's, with a prompt stop.

gunicorn waits on SIGTERM until no connection is left, and an idle keep-alive one
counts until its time is over. This worker ends those at once, the way their timeout
would have, and leaves every connection with a request on it alone.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

import gevent
from gunicorn.workers.ggevent import GeventWorker


class RouterWorker(GeventWorker):  # type: ignore[misc]  # gunicorn has no types
    """A gevent worker that does not wait for idle connections when it stops."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._idle: dict[gevent.Greenlet, gevent.Timeout] = {}

    def timeout_ctx(self) -> _Wait:
        """The wait for a connection's next request, bounded by `keepalive`."""
        return _Wait(self.cfg.keepalive, self._idle)

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> Any:
        """Serves one request; from then on its connection may be idle."""
        gevent.getcurrent().has_served = True
        return super().handle_request(listener_name, req, sock, addr)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM: no new connections, no idle ones, the others to their end."""
        super().handle_exit(sig, frame)
        gevent.spawn(self._end_idle)

    def _end_idle(self) -> None:
        for greenlet, timeout in list(self._idle.items()):
            greenlet.kill(timeout, block=False)


class _Wait:
    """A gevent.Timeout that the worker can bring forward.

    A connection that has not sent its first request is not idle yet: its client may
    have just connected.
    """

    def __init__(self, seconds: float, idle: dict[gevent.Greenlet, gevent.Timeout]) -> None:
        self._timeout = gevent.Timeout(seconds, False)
        self._idle = idle

    def __enter__(self) -> None:
        greenlet = gevent.getcurrent()
        if getattr(greenlet, "has_served", False):
            self._idle[greenlet] = self._timeout
        self._timeout.__enter__()

    def __exit__(self, *exc_info: Any) -> bool:
        self._idle.pop(gevent.getcurrent(), None)
        return bool(self._timeout.__exit__(*exc_info))
