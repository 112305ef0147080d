"""A pause in a long piece of work, for the other requests of the worker."""

from __future__ import annotations

import gevent


def let_others_go_on() -> None:
    """Gives the event loop a turn, in the middle of a long piece of work."""
    # sleep(0) would let other greenlets run, but not look for what has arrived for them.
    gevent.sleep(0.001)
