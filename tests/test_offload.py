"""Long prompts are tokenized in threads, and the event loop goes on meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import gevent
import pytest

from sglrouter.offload import Offload
from sglrouter.prompt.encoder import Encoder, Library, ReferenceLibrary, in_place
from sglrouter.prompt.fast_tokenizer import fast_library
from sglrouter.prompt.tokenizer import read_tokenizer
from tests.patience import PATIENCE


def both_libraries(model: Path) -> list[Library]:
    tokenizer, source = read_tokenizer(model)
    fast = fast_library(source, tokenizer)
    assert fast is not None
    return [ReferenceLibrary(tokenizer), fast]


def test_the_loop_goes_on_while_a_long_prompt_is_encoded(tiny_model: Path) -> None:
    text = "".join(f"{i * 7919 % 1_000_003:x} words to cut " for i in range(40_000))
    for library in both_libraries(tiny_model):
        expected = Encoder(library).encode(text).tolist()
        for run, goes_on in ((Offload(1), True), (in_place, False)):
            encoder = Encoder(library, run=run)
            ticks = 0
            running = True

            def tick() -> None:
                nonlocal ticks
                while running:  # noqa: B023 (it ends with the loop's turn)
                    gevent.sleep(0.0005)
                    ticks += 1

            ticker = gevent.spawn(tick)
            gevent.sleep(0.002)
            ticks = 0
            ids = encoder.encode(text + " ")
            seen = ticks
            running = False
            ticker.join()
            assert ids.tolist()[: len(expected) - 2] == expected[:-2]
            assert (seen >= 3) is goes_on, (type(library).__name__, seen)


def test_more_calls_than_threads_wait_for_their_turn() -> None:
    offload = Offload(2)
    running: list[str] = []
    most = 0
    pair = threading.Barrier(2)

    def work(text: str) -> bytes:
        nonlocal most
        running.append(text)
        most = max(most, len(running))
        pair.wait(10)  # passed by two at a time only
        running.remove(text)
        pair.wait(10)
        return text.encode()

    texts = [f"text {i}" for i in range(8)]
    calls = [gevent.spawn(offload, work, text) for text in texts]
    gevent.joinall(calls, timeout=PATIENCE)
    assert [call.value for call in calls] == [text.encode() for text in texts]
    assert most == 2


def test_a_thread_ends_after_a_long_text_and_no_call_is_lost() -> None:
    """What a tokenizer keeps for each thread would stay as long as the thread does."""
    offload = Offload(1)

    def work(text: str) -> bytes:
        kept.append(weakref.ref(of_thread.__dict__.setdefault("scratch", Scratch())))
        return text[:1].encode()

    class Scratch:
        pass

    of_thread = threading.local()
    kept: list[weakref.ref[Scratch]] = []
    assert [offload(work, "a"), offload(work, "b")] == [b"a", b"b"]
    assert kept[0]() is kept[1]() is not None, "short ones share a thread"
    texts = ["c" * 1_000_000, "d", "e" * 1_000_000, "f"]
    calls = [gevent.spawn(offload, work, text) for text in texts]
    gevent.joinall(calls, timeout=PATIENCE)
    assert [call.value for call in calls] == [b"c", b"d", b"e", b"f"]
    with gevent.Timeout(PATIENCE):
        while kept[0]() is not None:
            gevent.sleep(0.01)
    assert offload(work, "g") == b"g"


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no niceness of their own")
def test_the_threads_give_way_to_the_loop() -> None:
    def niceness(text: str) -> bytes:
        return str(os.getpriority(os.PRIO_PROCESS, threading.get_native_id())).encode()

    before = int(niceness(""))
    assert int(Offload(1)(niceness, "")) == min(before + 5, 19)
    assert int(niceness("")) == before, "the loop's own thread is as it was"


# In a process of its own, which cannot get its niceness back.
PROGRAM = """
import os, sys, threading
nice, user, forbidden = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "forbidden"
from sglrouter.offload import Offload
if user:
    os.setuid(user)
os.nice(nice)
if forbidden:
    def refuse(*args):
        raise PermissionError(1, "Operation not permitted")
    os.setpriority = refuse
def niceness(text):
    return str(os.getpriority(os.PRIO_PROCESS, threading.get_native_id())).encode()
offload = Offload(1)
print(os.getpriority(os.PRIO_PROCESS, 0), *(int(offload(niceness, "")) for _ in range(2)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no niceness of their own")
@pytest.mark.parametrize("nice", [0, 4, 10, 16, 19])
@pytest.mark.parametrize("how", ["allowed", "forbidden"])
def test_long_prompts_work_at_any_niceness_and_where_it_may_not_be_changed(
    nice: int, how: str
) -> None:
    """As a unit's Nice= has it, or a SystemCallFilter= without @resources."""
    user = 65534 if os.getuid() == 0 else 0
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(nice), str(user), how],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    own, *threads = map(int, done.stdout.split())
    assert threads == [min(own + 5, 19) if how == "allowed" else own] * 2
    assert done.stderr.count("do not give way") == (how == "forbidden"), "one line, and no more"


def test_what_the_function_raises_is_raised_here() -> None:
    def fail(text: str) -> bytes:
        raise ValueError(text)

    with pytest.raises(ValueError, match="this text"):
        Offload(1)(fail, "this text")


def test_the_threads_are_made_on_first_use() -> None:
    """A pool that is made before the fork has no threads after it."""
    offload = Offload(1)
    child = os.fork()
    if child == 0:
        os._exit(0 if offload(str.encode, "x") == b"x" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert offload(str.encode, "y") == b"y"
