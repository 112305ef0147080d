"""A client, and processes that are forked before and after its first use."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sglrouter.sim import SimulatedEngine
from tests.patience import PROGRAM_PATIENCE

ROOT = Path(__file__).parents[2]

PROGRAM = """
import os, sys
from sglrouter import Client

client = Client("grpc://" + sys.argv[1], sys.argv[2])
request = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
if sys.argv[3] == "used":
    print(client.create_chat_completion(request)["object"], flush=True)
child = os.fork()
if child == 0:
    try:
        print(client.create_chat_completion(request)["object"], flush=True)
    except RuntimeError as exc:
        print(exc, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(client.create_chat_completion(request)["object"], flush=True)
client.close()
"""


def run(engine: SimulatedEngine, model: Path, *words: str, patched: bool) -> list[str]:
    patch = "from gevent import monkey; monkey.patch_all()\n" if patched else ""
    done = subprocess.run(
        [sys.executable, "-c", patch + textwrap.dedent(PROGRAM), engine.address, model, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=PROGRAM_PATIENCE,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("patched", [False, True], ids=["threads", "gevent"])
def test_forks_before_the_first_use_connect_themselves(
    engine: SimulatedEngine, tiny_model: Path, patched: bool
) -> None:
    assert run(engine, tiny_model, "unused", patched=patched) == ["chat.completion"] * 2


@pytest.mark.parametrize("patched", [False, True], ids=["threads", "gevent"])
def test_forks_after_it_are_told(engine: SimulatedEngine, tiny_model: Path, patched: bool) -> None:
    first, told, last = run(engine, tiny_model, "used", patched=patched)
    assert first == last == "chat.completion"
    assert "make a new one in each process" in told


def test_a_late_patch_is_told(tiny_model: Path) -> None:
    program = """
        import sys
        from sglrouter import Client
        from gevent import monkey; monkey.patch_all()
        Client("grpc://a:1", sys.argv[1])
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), tiny_model],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PROGRAM_PATIENCE,
    )
    assert "ConfigError: gevent.monkey.patch_all() has to be called before" in done.stderr
