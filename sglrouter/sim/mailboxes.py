"""Where outputs wait for the call that asked for them, by request id.

There is one mailbox an id. A second call with a live id takes the mailbox over: it gets
the outputs of both, and the first call waits for ever. An aborted mailbox drops what
still arrives, so that the call behind it hangs. Both are what the real servicer does.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sglrouter.sim.generation import Output

# The samples of one streaming call share a queue; the number is the sample's index.
Queue = asyncio.Queue[tuple[int, "Output"]]


@dataclass(slots=True)
class _Mailbox:
    index: int
    queue: Queue
    closed: bool = False


class Mailboxes:
    """The mailboxes of all live samples."""

    def __init__(self) -> None:
        self._by_id: dict[str, _Mailbox] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, rid: str, queue: Queue, index: int = 0) -> None:
        """Directs the outputs of an id into a queue."""
        self._by_id[rid] = _Mailbox(index, queue)

    def deliver(self, rid: str, output: Output) -> None:
        """Puts an output into its mailbox, or nowhere."""
        mailbox = self._by_id.get(rid)
        if mailbox is None or mailbox.closed:
            return
        mailbox.closed = output.finish is not None
        mailbox.queue.put_nowait((mailbox.index, output))

    def close(self, rid: str) -> None:
        """Drops what arrives for this id from now on."""
        if (mailbox := self._by_id.get(rid)) is not None:
            mailbox.closed = True

    def discard(self, rid: str) -> None:
        """Forgets an id, whoever owns its mailbox now."""
        self._by_id.pop(rid, None)
