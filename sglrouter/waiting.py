"""Who may wait: a request in a greenlet or thread of its own may, one in a callback may not.

Strategy: plain requests are begun in a callback of the event loop, where to wait is to stop
everybody. Whatever is about to wait, or to take long, says so first; in a callback that ends
the attempt, and the same request is served again where it can wait. So nothing that anybody
else can see may be done before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class NeedsGreenlet(BaseException):
    """This request has to be served where it can wait.

    Not an Exception: it is nobody's failure, and nobody's but the server's to handle.
    """


_in_callback = False


def in_callback(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls a function that is not to wait.

    Raises:
        NeedsGreenlet: It was about to wait.
    """
    global _in_callback
    _in_callback = True
    try:
        return function(*args, **kwargs)
    finally:
        _in_callback = False


def about_to_wait() -> None:
    """To be called before anything that waits, or takes long.

    Raises:
        NeedsGreenlet: This is a callback.
    """
    if _in_callback:
        raise NeedsGreenlet
