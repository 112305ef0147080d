"""What connections serve plain requests with: gunicorn's configuration holds for them, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger

from sglrouter._fast.chunked import BodyWriter
from sglrouter.server.plain_serving import PlainServing, Record, allows_callbacks

ENVIRON = {
    "REQUEST_METHOD": "POST",
    "RAW_URI": "/a?b",
    "PATH_INFO": "/a",
    "QUERY_STRING": "b",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "REMOTE_ADDR": "10.0.0.1",
    "HTTP_USER_AGENT": "x/1",
    "HTTP_X_MINE": "mine",
    "CONTENT_LENGTH": "3",
}


def serving(cfg: Config, *, served: int = 0, most: int = 1000) -> tuple[PlainServing, Any]:
    worker = SimpleNamespace(cfg=cfg, nr=served, max_requests=most, alive=True, log=Logger(cfg))
    parts: Any = None
    return PlainServing(worker, lambda *_: [], parts, parts, parts), worker


def test_by_itself_callbacks_are_allowed() -> None:
    assert allows_callbacks(Config())


def hook(*_: object) -> None:
    """Does something of the operator's."""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pre_request", lambda worker, req: hook(worker, req)),
        ("post_request", lambda worker, req, environ, resp: hook(worker, req, environ, resp)),
        ("keepalive", 0),
        ("proxy_protocol", True),
        ("certfile", "cert.pem"),
    ],
)
def test_what_callbacks_cannot_do_turns_them_off(name: str, value: object) -> None:
    cfg = Config()
    cfg.set(name, value)
    assert not allows_callbacks(cfg)


def test_a_script_name_turns_them_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIPT_NAME", "/a")
    assert not allows_callbacks(Config())


def test_a_worker_that_has_served_its_share_stops() -> None:
    plain, worker = serving(Config(), served=1, most=3)
    assert plain.begin(ENVIRON) is None
    assert (worker.nr, worker.alive) == (2, True)
    plain.begin(ENVIRON)
    assert (worker.nr, worker.alive) == (3, False)
    # One that is served in another way counts there.
    plain.give_back()
    assert worker.nr == 2


def test_what_responses_begin_with_says_whether_the_connection_closes() -> None:
    plain, _ = serving(Config())
    kept, closed = plain.common_fields(False), plain.common_fields(True)
    assert kept.startswith("Server: gunicorn\r\nDate: ")
    assert kept.endswith(" GMT\r\nConnection: keep-alive\r\n")
    assert closed.endswith(" GMT\r\nConnection: close\r\n")


def test_the_access_log_has_a_line_as_gunicorn_writes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cfg = Config()
    cfg.set("accesslog", "-")
    cfg.set("access_log_format", "%(h)s '%(r)s' %(s)s %(B)s %({x-mine}i)s %({x-id}o)s %(a)s")
    plain, _ = serving(cfg)
    record = plain.begin(ENVIRON)
    assert isinstance(record, Record)
    writer = BodyWriter(-1, False)
    record.end("200 OK", [("X-Id", "7")], writer)
    line = "10.0.0.1 'POST /a?b HTTP/1.1' 200 0 mine 7 x/1\n"
    assert capsys.readouterr().out == line


def test_only_a_peer_that_gunicorn_trusts_says_that_it_is_https() -> None:
    sock: Any = SimpleNamespace(fileno=lambda: -1)
    head = b"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Proto: https\r\n\r\n"
    cfg = Config()
    cfg.set("forwarded_allow_ips", "10.0.0.1")
    plain, _ = serving(cfg)
    for address, scheme in (("10.0.0.1", "https"), ("10.0.0.2", "http")):
        reader = plain.reader(sock, (address, 1), ("127.0.0.1", 80))
        reader.feed(head)
        environ = reader.next()
        assert environ
        assert environ["wsgi.url_scheme"] == scheme
        assert (environ["REMOTE_ADDR"], environ["SERVER_PORT"]) == (address, "80")
