"""Memory goes back to the system after large requests, and not for small ones."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable

import pytest

from sglrouter.server.memory import LARGE, Trimming, trimmer

Later = list[tuple[float, Callable[[], object]]]


@pytest.fixture
def later() -> Later:
    return []


def test_a_large_request_has_memory_given_back_once(later: Later) -> None:
    trimming = Trimming(lambda seconds, function: later.append((seconds, function)))
    trimming.after(LARGE - 1)
    assert later == []
    for _ in range(10):
        trimming.after(LARGE)
    if trimmer() is None:
        assert later == []
        return
    ((seconds, give_back),) = later
    assert seconds > 0, "the request is not over yet"
    give_back()
    trimming.after(LARGE)
    assert later[1][0] > 1, "no oftener than every few seconds"


# In a process of its own, whose heap nobody else has used.
PROGRAM = """
import ctypes
from sglrouter.server.memory import Trimming, LARGE
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
blocks = [b"x" * 50_000 for _ in range(4_000)]
last = b"y" * 50_000
del blocks
before = resident()
Trimming(lambda seconds, function: function()).after(LARGE)
print(before - resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_was_freed_is_given_back() -> None:
    if trimmer() is None:
        pytest.skip("this C library has no malloc_trim")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) > 100_000_000


def test_a_sandbox_without_a_c_library_to_ask_harms_nothing(
    monkeypatch: pytest.MonkeyPatch, later: Later
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError("Operation not permitted")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert trimmer() is None
    Trimming(lambda seconds, function: later.append((seconds, function))).after(LARGE)
    assert later == []
