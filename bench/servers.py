"""The processes under the benchmark: a simulated engine and routers, and what CPU they take.

The router has a core to itself where there are two or more; engine and load generator
share the others. CPU is the kernel's count of a process's user and system time, taken
before and after a run, so that waiting costs nothing and neighbours cost little.
"""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from sglrouter.sim.options import TINY_MODEL

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0


def split_cores() -> tuple[set[int], set[int]]:
    """The router's core and everybody else's; the same one where there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return {cores[-1]}, set(cores[:-1] or cores)


class Server:
    """A process on cores of its own, from `with` to the end of the block."""

    def __init__(
        self, arguments: Sequence[str], cores: set[int], environment: Mapping[str, str]
    ) -> None:
        self._arguments = arguments
        self._cores = cores
        self._environment = environment
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by __exit__)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *self._arguments],
            cwd=ROOT,
            env=self._environment,
            stdout=self._log,
            stderr=self._log,
        )
        # Threads and workers that it starts later inherit this.
        os.sched_setaffinity(self._process.pid, self._cores)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        process = self._running()
        process.terminate()
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._log.close()

    @property
    def log(self) -> str:
        """All that the process has said."""
        self._log.seek(0)
        return self._log.read()

    def cpu(self) -> float:
        """Seconds of user and system time of the process and its descendants so far."""
        return sum(map(_cpu_seconds, _process_tree(self._running().pid)))

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _still_starting(self, since: float) -> None:
        """Waits a little; RuntimeError with the log if the start has failed."""
        if self._running().poll() is not None or time.monotonic() > since + PATIENCE:
            raise RuntimeError(f"{' '.join(self._arguments)} did not start:\n{self.log}")
        time.sleep(0.02)


class Engine(Server):
    """`sglrouter sim` with a script that answers everything."""

    def __init__(self, script: Path, options: Sequence[str], cores: set[int]) -> None:
        arguments = ["sglrouter", "sim", "--port", "0", "--script", str(script), *options]
        super().__init__(arguments, cores, os.environ)

    def address(self) -> str:
        """HOST:PORT, once it listens."""
        since = time.monotonic()
        while not (found := re.search(r"listening on (\S+:\d+)", self.log)):
            self._still_starting(since)
        return found[1]


class Router(Server):
    """gunicorn with one worker and one kind of channel."""

    def __init__(
        self,
        engine: str,
        channel: str,
        cores: set[int],
        *,
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = _free_port()
        values = {
            "port": self.port,
            "workers": 1,
            "engine": f"grpc://{engine}",
            "tokenizer": TINY_MODEL,
            "model_name": "tiny",
            "channel": channel,
            "log_level": "warning",
            **(settings or {}),
        }
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SGL")},
            **{f"SGLROUTER_{name.upper()}": str(value) for name, value in values.items()},
            **(environment or {}),
        }
        super().__init__(["gunicorn", "-c", "deploy/gunicorn.conf.py"], cores, variables)

    def wait_until_ready(self) -> None:
        """Waits until the router says that it and its engine are."""
        since = time.monotonic()
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            try:
                connection.request("GET", "/readiness")
                if connection.getresponse().status == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            self._still_starting(since)


def _free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _process_tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it has ended meanwhile
                continue
            # The name in parentheses may hold anything.
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    tree = [root]
    for process in tree:
        tree += children.get(process, [])
    return tree


def _cpu_seconds(process: int) -> float:
    """What utime + stime of /proc/PID/stat say, in nanoseconds instead of ticks of 10 ms."""
    # The clock that clock_getcpuclockid(3) returns for a process.
    return time.clock_gettime_ns(~process << 3 | 2) / 1e9
