"""`sglrouter sim` as a process of its own."""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from sglrouter.sim import command
from sglrouter.sim.faults import Fault
from tests.patience import PATIENCE, PROMPT
from tests.sim.wire import EngineClient, request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = (
    "import argparse, sys; from sglrouter.sim import command; "
    "parser = argparse.ArgumentParser(); command.add_arguments(parser); "
    "sys.exit(command.run(parser.parse_args()))"
)


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], EngineClient]]:
    with subprocess.Popen(
        [sys.executable, "-c", RUN, "--port", "0", *arguments], stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        line = running.stderr.readline()
        address = re.search(r"listening on (\S+) ", line)
        assert address, line
        client = EngineClient(address[1])
        try:
            yield running, client
        finally:
            client.close()
            running.kill()


def test_serves_and_ends_on_a_signal(model_path: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("[20, 21]")
    for number in (signal.SIGTERM, signal.SIGINT):
        with process("--model", str(model_path), "--script", str(script)) as (running, client):
            assert client.generate_again(request()).deltas == [[20], [21], [2]]
            running.send_signal(number)
            assert running.wait(PATIENCE) == 0


def test_a_signal_drains_for_five_seconds(model_path: Path) -> None:
    with process("--model", str(model_path), "--answer", "echo", "--delay-ms", "1000") as (
        running,
        client,
    ):
        call = client.start("Generate", request(ignore_eos=True))
        call.read(1)
        began = time.monotonic()
        running.terminate()
        reply = call.finish()
        assert 4.5 < time.monotonic() - began < PROMPT
        assert (reply.code, reply.details) == ("UNAVAILABLE", "Cancelling all calls")
        assert running.wait(PATIENCE) == 0


def test_a_deadly_request_ends_the_process(model_path: Path) -> None:
    with process("--model", str(model_path), "--answer", "echo", "--delay-ms", "50") as (
        running,
        client,
    ):
        bystander = client.start("Generate", request(ignore_eos=True))
        bystander.read(1)
        reply = client.generate(request([100_000]))
        assert reply.code == bystander.finish().code == "UNAVAILABLE"
        assert re.search("Socket closed|Connection reset", reply.details)
        assert running.wait(PATIENCE) == 1
        assert running.stderr is not None
        assert "died: a token id past the vocabulary" in running.stderr.read()


def test_the_embedded_model_answers(tmp_path: Path) -> None:
    with process("--fault", "fail,times=1") as (_, client):
        assert client.generate(request(max_new_tokens=3)).code == "UNAVAILABLE"
        assert client.generate(request(max_new_tokens=3)).complete.completion_tokens >= 1


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sglrouter sim")
    command.add_arguments(parser)
    return parser.parse_args(words)


def test_faults_are_read_at_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    parsed = arguments("--fault", "die,after=2", "--fault", "hang")
    assert parsed.fault == [Fault("die", after=2), Fault("hang")]
    with pytest.raises(SystemExit):
        arguments("--fault", "explode")
    assert "unknown fault 'explode'" in capsys.readouterr().err


def test_what_cannot_start_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(arguments("--model", str(tmp_path))) == 1
    assert "cannot start: " in capsys.readouterr().err
    assert command.run(arguments("--answer", "script")) == 1
    assert "needs a script file" in capsys.readouterr().err


def test_help_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments("--help")
    text = capsys.readouterr().out
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    for action in parser._actions:
        assert action.help
        assert action.option_strings[-1] in text
