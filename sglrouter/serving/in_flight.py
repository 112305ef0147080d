"""The requests in flight, by the names that their clients know them by.

A client may stop a request by its rid or by the id of its answer, from another
connection. Names are ours and the client's alone: engines abort by the beginnings of
their own ids, which no client ever sees. Two requests may have one name; both stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from sglrouter.engines.exchange import Exchange
from sglrouter.errors import BadRequest

# It comes back in every event of a stream.
MAX_RID = 1024

# A name, and the sample that it is the name of; None for all of the request.
Name = tuple[str, int | None]


def check_rid(rid: str, param: str = "rid") -> None:
    """Refuses a name that is none.

    Raises:
        BadRequest: It is empty or too long.
    """
    if not 0 < len(rid) <= MAX_RID:
        raise BadRequest(
            f"{param} must have 1 to {MAX_RID} characters", code="invalid_value", param=param
        )


def names_of(rid: str | list[str] | None, answer_id: str) -> list[Name]:
    """The names of a request of OpenAI's API: its rid, if it has one, and its answer's id.

    Raises:
        BadRequest: The rid is too long.
    """
    rids = [each for each in ([rid] if isinstance(rid, str) else rid or []) if each]
    for each in rids:
        check_rid(each)
    return [(name, None) for name in (answer_id, *rids)]


def _nobody(_rid: str | None) -> None:
    pass


class InFlight:
    """The requests in flight in this process, of every kind."""

    def __init__(self) -> None:
        self._all: set[Exchange] = set()
        self._named: dict[str, set[tuple[Exchange, int | None]]] = {}
        self._tell_others: Callable[[str | None], None] = _nobody

    def __len__(self) -> int:
        return len(self._all)

    def add(self, exchange: Exchange, names: Iterable[Name] = ()) -> None:
        """Remembers a request until it is over."""
        kept = tuple(names)
        self._all.add(exchange)
        for name, index in kept:
            self._named.setdefault(name, set()).add((exchange, index))
        exchange.on_over(partial(self._forget, kept))

    def _forget(self, names: Iterable[Name], exchange: Exchange) -> None:
        self._all.discard(exchange)
        for name, index in names:
            entries = self._named.get(name, set())
            entries.discard((exchange, index))
            if not entries:
                self._named.pop(name, None)

    def abort(self, rid: str | None) -> None:
        """Stops what has this name here; None stops everything.

        Who waits for it gets what there is, with the finish reason "abort".
        """
        if rid is None:
            stopped: list[tuple[Exchange, int | None]] = [
                (exchange, None) for exchange in self._all
            ]
        else:
            stopped = list(self._named.get(rid, ()))
        for exchange, index in stopped:
            exchange.abort(index)

    def abort_everywhere(self, rid: str | None) -> None:
        """Stops it here and in the other processes; see abort()."""
        self.abort(rid)
        self._tell_others(rid)

    def share(self, tell_others: Callable[[str | None], None]) -> None:
        """Has other processes that serve the same clients told what to abort, too.

        Args:
            tell_others: Called with what abort_everywhere() is called with.
        """
        self._tell_others = tell_others
