"""The requests of a connection, as gunicorn's loop draws them.

Strategy: gunicorn's loop asks for the next request, serves it and asks again. While it
waits here, plain requests are served in callbacks (see connection); it gets the others,
which are read by gunicorn's own parser from the first byte on. Where configuration or
connection allow no callbacks, it gets all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import gunicorn.http
from gunicorn.http.parser import RequestParser

from sglrouter.server.body_intake import Bodies, BodyUnreader

# Reads on where callbacks have left off: takes what was read beyond the last request, and
# returns what there is for gunicorn's parser; None at the end of the connection.
Plainly = Callable[[bytes], bytes | None]


class Requests(RequestParser):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's parser, behind the callbacks of the connection.

    Attributes:
        plainly: Serves plain requests first; None where there are none.
        wait: Bounds the time for the head of a request.
    """

    mesg: Any
    plainly: Plainly | None = None
    wait: Callable[[], AbstractContextManager[object]]

    def __next__(self) -> Any:
        if self.plainly is not None:
            if self.mesg and (self.mesg.should_close() or not self.finish_body()):
                raise StopIteration
            self.mesg = None
            data = self.plainly(self.unreader.take_buffered())
            if data is None:
                raise StopIteration
            self.unreader.unread(data)
        with self.wait():
            return super().__next__()
        # Time is over.
        raise StopIteration


def use_requests(bodies: Bodies, prepare: Callable[[Requests], None]) -> None:
    """Makes gunicorn's workers of this process draw requests from here.

    Args:
        bodies: Bounds the reading of bodies.
        prepare: Called with what is made for a new connection, in its greenlet.
    """
    BodyUnreader.bodies = bodies
    get_parser = gunicorn.http.get_parser

    def get_requests(cfg: Any, source: Any, address: Any, **options: Any) -> Any:
        if options or cfg.protocol == "uwsgi":
            return get_parser(cfg, source, address, **options)
        requests = Requests(cfg, source, address)
        requests.unreader = BodyUnreader(source)
        prepare(requests)
        return requests

    gunicorn.http.get_parser = get_requests
