"""Servers of the tests in a process of their own, driven over its standard streams.

grpcio's servers cannot live in a process that gevent has patched, where the channels are
tested as workers use them. `python -m tests.engines.remote NAME` makes the object and
obeys: each line is [action, attribute path, arguments] in JSON, and so is each answer.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from sglrouter._proto import scheduler as pb
from sglrouter.sim import SimulatedEngine
from tests.engines.flood import Flood

ROOT = Path(__file__).parents[2]
KINDS: dict[str, Callable[[], Any]] = {"engine": SimulatedEngine, "flood": Flood}


class Remote:
    """An object in another process."""

    def __init__(self, kind: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engines.remote", kind],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _ask(self, action: str, path: str, *arguments: object, **named: object) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([action, path, arguments, named]) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, "the other process has ended"
        failure, result = json.loads(answer)
        assert not failure, failure
        return result

    def end(self) -> None:
        """Ends the process."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(30)


class _Options:
    """Reads and sets a remote engine's options."""

    answer: str
    token_delay: float

    def __init__(self, ask: Callable[..., Any]) -> None:
        object.__setattr__(self, "_ask", ask)

    def __setattr__(self, name: str, value: object) -> None:
        object.__getattribute__(self, "_ask")("set", f"options.{name}", value)


class RemoteEngine(Remote):
    """A SimulatedEngine in another process, as far as tests use one."""

    def __init__(self) -> None:
        super().__init__("engine")
        self.options = _Options(self._ask)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.end()

    @property
    def address(self) -> str:
        """Where it listens."""
        return str(self._ask("get", "address"))

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return bool(self._ask("get", "alive"))

    @property
    def active(self) -> int:
        """How many calls are being served."""
        return int(self._ask("get", "active"))

    @property
    def cancelled(self) -> list[str]:
        """Request ids of the calls that the client ended."""
        return list(self._ask("get", "cancelled"))

    @property
    def aborted(self) -> list[str]:
        """Ids given to the Abort call."""
        return list(self._ask("get", "aborted"))

    @property
    def metadata(self) -> list[dict[str, str]]:
        """The metadata of each request."""
        return list(self._ask("get", "metadata"))

    @property
    def requests(self) -> list[pb.GenerateRequest]:
        """The Generate requests so far."""
        return [
            pb.GenerateRequest.FromString(bytes.fromhex(request))
            for request in self._ask("get", "requests")
        ]

    def start(self) -> str:
        """Starts it."""
        return str(self._ask("call", "start"))

    def stop(self, grace: float = 0.0) -> None:
        """Stops it as on SIGTERM."""
        self._ask("call", "stop", grace)

    def kill(self) -> None:
        """Makes it die."""
        self._ask("call", "kill")

    def script(self, *answers: object, finish_reason: str | None = None) -> None:
        """Decides the coming answers."""
        self._ask("call", "script", *answers, finish_reason=finish_reason)

    def fault(self, *faults: str) -> None:
        """Plans what goes wrong."""
        self._ask("call", "fault", *faults)

    def set_serving(self, serving: bool) -> None:
        """Sets what the health service answers."""
        self._ask("call", "set_serving", serving)

    def drop_connections(self) -> None:
        """Cuts every connection."""
        self._ask("call", "drop_connections")

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stops the process as a machine stops that is cut off: its connections stay."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def wait_until(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """Waits for something to become true."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            time.sleep(0.005)


class RemoteFlood(Remote):
    """A Flood in another process."""

    def __init__(self) -> None:
        super().__init__("flood")

    @property
    def address(self) -> str:
        """Where it listens."""
        return str(self._ask("get", "address"))

    @property
    def sent(self) -> int:
        """How many messages it has got rid of."""
        return int(self._ask("get", "sent"))

    def stop(self) -> None:
        """Stops it, and its process."""
        self._ask("call", "stop")
        self.end()


@contextlib.contextmanager
def one_engine(*, patched: bool) -> Iterator[SimulatedEngine | RemoteEngine]:
    """A running engine: in this process if that can be."""
    with RemoteEngine() if patched else SimulatedEngine() as engine:
        yield engine


def _serve(target: Any) -> None:
    for line in sys.stdin:
        action, path, arguments, named = json.loads(line)
        *parents, name = path.split(".")
        owner = target
        for parent in parents:
            owner = getattr(owner, parent)
        failure, result = "", None
        try:
            if action == "call":
                result = getattr(owner, name)(*arguments, **named)
            elif action == "set":
                setattr(owner, name, *arguments)
            else:
                result = getattr(owner, name)
        except Exception as exc:
            failure = repr(exc)
        answer = json.dumps([failure, result], default=lambda each: each.SerializeToString().hex())
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(KINDS[sys.argv[1]]())
