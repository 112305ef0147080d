"""A router's worker that can be asked what is alive in it.

For tests that look for leaks: gunicorn takes it for `--worker-class`, which
GUNICORN_CMD_ARGS may say, and so production code has no part in it. Whoever connects to
the Unix socket that CENSUS_SOCKET names is told, as JSON, and cut off.
"""

from __future__ import annotations

import gc
import json
import os
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import msgspec
from gevent.server import StreamServer
from greenlet import greenlet  # type: ignore[import-untyped]

from sglrouter.server.callback_client import CallbackClient
from sglrouter.server.direct_client import DirectClient
from sglrouter.server.worker import RouterWorker
from tests.patience import PATIENCE

VARIABLE = "CENSUS_SOCKET"
WORKER_CLASS = f"{__name__}.CensusWorker"
SEND_BUFFER = 16 * 1024


class Census(msgspec.Struct, frozen=True):
    """What there is in a worker at one moment.

    Attributes:
        pid: The worker's process id.
        greenlets: How many greenlets have not ended.
        objects: Objects that the garbage collector knows, by type.
        stalls: How often so far a client did not take what it was sent.
        files: What the open file descriptors lead to, sorted; sockets without their number.
        threads: How many threads there are.
        rss: Resident memory in bytes.
    """

    pid: int
    greenlets: int
    objects: dict[str, int]
    stalls: int
    files: list[str]
    threads: int
    rss: int

    @property
    def all_objects(self) -> int:
        """How many objects there are of all types."""
        return sum(self.objects.values())

    def summary(self) -> str:
        """The counts in a line."""
        return (
            f"{len(self.files)} files, {self.greenlets} greenlets, {self.threads} threads, "
            f"{self.all_objects} objects, {self.stalls} stalls, {self.rss / 2**20:.1f} MiB"
        )

    def growth(self, before: Census) -> dict[str, int]:
        """What there is more of than before, most first."""
        more = Counter(self.objects)
        more.subtract(before.objects)
        return {name: count for name, count in more.most_common(20) if count > 0}


class CensusWorker(RouterWorker):
    """The router's own worker, with a socket to ask it."""

    def run(self) -> None:
        """Serves clients, and the census beside them."""
        for listener in self.sockets:
            # The clients' sockets inherit it: one that does not read is soon found out.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        stalls = Counter[str]()
        for kind in (CallbackClient, DirectClient):
            _count_stalls(kind, stalls)
        asked: Any = gevent.socket.socket(socket.AF_UNIX)
        asked.bind(os.environ[VARIABLE])
        asked.listen()

        def tell(connection: Any, _address: Any) -> None:
            connection.sendall(json.dumps(_count(stalls["all"])).encode())

        server = StreamServer(asked, tell)
        server.start()
        super().run()
        server.stop()


def _count_stalls(kind: type[CallbackClient | DirectClient], stalls: Counter[str]) -> None:
    """Counts how often a client does not take what is written."""
    when_taken = kind.when_taken

    def count(client: Any, then: Callable[[OSError | None], None]) -> None:
        stalls["all"] += 1
        when_taken(client, then)

    kind.when_taken = count  # type: ignore[assignment, method-assign]


def ask(path: Path) -> Census:
    """Asks the worker whose socket is at `path`, and the kernel for the rest."""
    answer = b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(path))
        while piece := connection.recv(65536):
            answer += piece
    told = json.loads(answer)
    process = Path("/proc") / str(told["pid"])
    pages = int((process / "statm").read_text().split()[1])
    return Census(
        **told,
        files=sorted(_files(process)),
        threads=len(list((process / "task").iterdir())),
        rss=pages * os.sysconf("SC_PAGE_SIZE"),
    )


def _count(stalls: int) -> dict[str, object]:
    gc.collect()
    objects = gc.get_objects()
    # By its type: a proxy may fail when it is asked what it is an instance of.
    greenlets = [each for each in objects if issubclass(type(each), greenlet)]
    return {
        "pid": os.getpid(),
        "greenlets": sum(not each.dead for each in greenlets),
        "objects": Counter(f"{type(each).__module__}.{type(each).__name__}" for each in objects),
        "stalls": stalls,
    }


def _files(process: Path) -> list[str]:
    found = []
    for entry in (process / "fd").iterdir():
        try:
            found.append(os.readlink(entry).partition(":[")[0])
        except FileNotFoundError:  # closed meanwhile
            continue
    return found
