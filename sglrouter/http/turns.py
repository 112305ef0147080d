"""A pause in a long piece of work, for the other requests of the worker."""

from __future__ import annotations

import gevent

from sglrouter.waiting import about_to_wait


def let_others_go_on() -> None:
    """Gives the event loop a turn, in the middle of a long piece of work.

    Raises:
        NeedsGreenlet: The work is done in a callback; see sglrouter.waiting.
    """
    about_to_wait()
    hub = gevent.get_hub()
    if gevent.getcurrent() is hub:
        # An answer that is written in a callback; its size was looked at before.
        return
    # sleep(0) would let other greenlets run, but not look for what has arrived for them.
    gevent.sleep(0.001)
