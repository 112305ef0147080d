"""Workers telling each other which requests to stop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest
from gevent import socket

from sglrouter.server import siblings
from sglrouter.server.siblings import Siblings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{tmp_path}:/elsewhere")
    return Siblings.make_folder()


@pytest.fixture
def told(folder: Path) -> Iterator[list[str | None]]:
    """What a worker that listens is told."""
    found: list[str | None] = []
    listening = Siblings(folder)
    listening.listen(found.append)
    yield found
    listening.close()


def test_the_folder_is_this_users_alone(folder: Path, tmp_path: Path) -> None:
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    Siblings(folder).remove_folder()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rid", ["a", "é\u2028", "x" * 1024, None])
def test_it_is_told_before_the_call_returns(
    folder: Path, told: list[str | None], rid: str | None
) -> None:
    Siblings(folder).tell(rid)
    assert told == [rid]


def test_nobody_tells_itself(folder: Path) -> None:
    found: list[str | None] = []
    alone = Siblings(folder)
    alone.listen(found.append)
    alone.tell("a")
    alone.close()
    assert found == []
    assert list(folder.iterdir()) == []


def test_a_dead_workers_socket_is_removed(folder: Path, told: list[str | None]) -> None:
    dead = folder / "1"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(dead))
    Siblings(folder).tell("a")
    assert told == ["a"]
    assert [path.name for path in folder.iterdir()] == [str(os.getpid())]


def test_a_worker_that_is_about_to_listen_is_left_alone(
    folder: Path, told: list[str | None]
) -> None:
    early = folder / f"1{siblings._UNFINISHED}"
    with socket.socket(socket.AF_UNIX) as starting:
        starting.bind(str(early))
        Siblings(folder).tell("a")
        assert early.exists()
    assert told == ["a"]


def test_one_that_does_not_answer_holds_up_nobody_for_long(
    folder: Path,
    told: list[str | None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(siblings, "_PATIENCE", 0.1)
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(str(folder / "1"))
        stuck.listen()
        with gevent.Timeout(5):
            Siblings(folder).tell("a")
    assert told == ["a"]
    assert "worker 1 was not told" in caplog.text


@pytest.mark.parametrize("message", [b"", b"{", b'{"rid": 7}', b'{"rid": "%b"}' % (b"x" * 40_000)])
def test_what_is_no_message_stops_nothing(
    folder: Path, told: list[str | None], message: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as sender, gevent.Timeout(5):
        sender.connect(str(folder / str(os.getpid())))
        try:
            sender.sendall(message)
            sender.shutdown(socket.SHUT_WR)
            answer = sender.recv(100)
        except OSError:
            answer = b""
    assert answer == b""
    assert told == []
    Siblings(folder).tell("a")
    assert told == ["a"]


def test_a_folder_that_is_gone_is_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    worker = Siblings(folder)
    worker.remove_folder()
    worker.listen(lambda _rid: None)
    assert "this worker's own requests only" in caplog.text
    worker.tell("a")
    worker.close()
