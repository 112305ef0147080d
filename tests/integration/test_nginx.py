"""nginx with our site in front of the router: nothing held back, nothing changed."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from sglrouter.config import Settings
from tests.integration.sockets import raw_client
from tests.patience import PATIENCE
from tests.processes import RouterProcess, chat_body, free_port, joined, sse_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sglrouter.sim import SimulatedEngine

ROOT = Path(__file__).parents[2]
SITE = ROOT / "deploy" / "nginx" / "sglrouter.conf"
COMPLETIONS = "/v1/chat/completions"
ANSWER = "naïve 👩‍👩‍👧‍👦 family 🚀, 日本語 and so on"

# What a distribution or a colleague may have set, and the site must not inherit: gzip for
# all types, buffering even where the router asks for none.
MAIN = """\
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ worker_connections 256; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    gzip on;
    gzip_types *;
    gzip_proxied any;
    gzip_min_length 0;
    proxy_buffering on;
    proxy_ignore_headers X-Accel-Buffering;
    include {folder}/site.conf;
}}
"""


class Nginx:
    """The real site file on free ports, everything else in a folder of its own."""

    def __init__(self, binary: str, folder: Path, router_port: int) -> None:
        self.folder = folder
        self.port = free_port()
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE)
        self._command = [binary, "-e", "stderr", "-p", str(folder), "-c", str(folder / "main.conf")]
        self._process: subprocess.Popen[bytes] | None = None
        site = SITE.read_text()
        for old, new in (
            ("server 127.0.0.1:8080 ", f"server 127.0.0.1:{router_port} "),
            ("    listen 80;", f"    listen 127.0.0.1:{self.port};"),
            ("    listen [::]:80;", ""),
            ("/var/log/nginx/", f"{folder}/"),
        ):
            assert site.count(old) == 1, old
            site = site.replace(old, new)
        (folder / "site.conf").write_text(site)
        # Its workers would be somebody else's, who cannot enter the folder.
        user = "user root root;" if os.geteuid() == 0 else ""
        (folder / "main.conf").write_text(MAIN.format(user=user, folder=folder))

    @property
    def log(self) -> str:
        """The access log so far."""
        return (self.folder / "sglrouter.log").read_text()

    def check(self) -> subprocess.CompletedProcess[str]:
        """Runs nginx -t."""
        return subprocess.run(
            [*self._command, "-t"], capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    def start(self) -> None:
        self._process = subprocess.Popen(self._command)
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self._process.poll() is None, (self.folder / "error.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE).close()
            except OSError:
                assert time.monotonic() < deadline, "nginx does not listen"
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        self.http.close()
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE)


@pytest.fixture(scope="module")
def binary() -> str:
    # Debian keeps it where only root's PATH looks.
    path = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if path is None:
        pytest.skip("nginx is not installed")
    return path


@pytest.fixture(scope="module")
def router(engine: SimulatedEngine, tiny_model: Path) -> Iterator[RouterProcess]:
    """A router whose silent streams say so often, since it sees a lost client as it writes."""
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "model_name": "tiny",
            "heartbeat": 0.2,
        }
    )
    router.start()
    yield router
    router.stop()


@pytest.fixture(scope="module")
def nginx(
    binary: str, router: RouterProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nginx]:
    nginx = Nginx(binary, tmp_path_factory.mktemp("nginx"), router.port)
    nginx.start()
    yield nginx
    nginx.stop()


def test_nginx_accepts_the_site(binary: str, tmp_path: Path) -> None:
    done = Nginx(binary, tmp_path, free_port()).check()
    assert done.returncode == 0, done.stderr
    assert "[warn]" not in done.stderr
    assert "[emerg]" not in done.stderr


def test_the_site_is_in_step_with_the_settings() -> None:
    site, settings = SITE.read_text(), Settings()
    (size,) = re.findall(r"client_max_body_size (\d+)m;", site)
    assert int(size) * 1024 * 1024 == settings.max_body
    (silence,) = re.findall(r"proxy_read_timeout (\d+)s;", site)
    assert int(silence) > max(settings.heartbeat, settings.request_timeout)
    assert f"server {settings.host}:{settings.port} " in site


def test_every_event_comes_as_it_is_made(nginx: Nginx, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    engine.fault("hang,after=1")
    with nginx.http.stream("POST", COMPLETIONS, json=chat_body(stream=True)) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "content-encoding" not in response.headers
        pieces = response.iter_text()
        text = next(pieces)
        while '"content":"na' not in text:
            text += next(pieces)
        # The engine has said one token and nothing since; nor does anything more come
        # that could have pushed it out of a buffer, but a few heartbeats.
        assert engine.active == 1
        assert len(text) < 1000
        while ": ping" not in text:
            text += next(pieces)


def test_a_whole_stream(nginx: Nginx, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    engine.options.token_delay = 0.03
    try:
        response = nginx.http.post(COMPLETIONS, json=chat_body(stream=True))
    finally:
        engine.options.token_delay = 0.0
    events = list(sse_data(response.text))
    assert events[-1] == "[DONE]"
    assert joined([json.loads(event) for event in events[:-1]]) == ANSWER


def test_a_whole_answer(nginx: Nginx, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    response = nginx.http.post(COMPLETIONS, json=chat_body())
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["choices"][0]["message"]["content"] == ANSWER


def test_a_lost_client_ends_the_engines_work(nginx: Nginx, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    engine.fault("hang,after=1")
    before = len(engine.cancelled)
    with nginx.http.stream("POST", COMPLETIONS, json=chat_body(stream=True)) as response:
        pieces = response.iter_text()
        next(pieces)
        assert engine.active == 1
    engine.wait_until(lambda: len(engine.cancelled) == before + 1, PATIENCE)
    engine.wait_until(lambda: engine.active == 0, PATIENCE)


def test_a_stream_that_breaks_off_does_not_look_whole(
    nginx: Nginx, router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script(ANSWER)
    engine.fault("hang,after=1")
    children = Path(f"/proc/{router.pid}/task/{router.pid}/children").read_text()
    with nginx.http.stream("POST", COMPLETIONS, json=chat_body(stream=True)) as response:
        pieces = response.iter_text()
        next(pieces)
        os.kill(int(children), signal.SIGKILL)
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
    router.wait_until_ready()


def test_a_prompt_of_a_megabyte_is_refused_by_the_router(
    nginx: Nginx, router: RouterProcess
) -> None:
    body = chat_body("word " * 200_000, max_tokens=1)
    through = nginx.http.post(COMPLETIONS, json=body)
    assert through.status_code == 400
    assert through.json()["error"]["code"] == "context_length_exceeded"
    assert through.content == router.http.post(COMPLETIONS, json=body).content


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_refused(nginx: Nginx, chunked: bool) -> None:
    piece = b" " * 1024 * 1024
    response = nginx.http.post(
        COMPLETIONS,
        content=(piece for _ in range(33)) if chunked else piece * 33,
        headers={"Content-Type": "application/json"},
    )
    assert response.status_code == 413
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"]["code"] == "request_too_large"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/nothing", b""),
        ("GET", COMPLETIONS, b""),
        ("POST", COMPLETIONS, b"{"),
        ("POST", COMPLETIONS, b'{"model":"tiny","messages":[]}'),
        ("GET", "/v1/models", b""),
    ],
)
def test_answers_pass_unchanged(
    nginx: Nginx, router: RouterProcess, method: str, path: str, body: bytes
) -> None:
    through = nginx.http.request(method, path, content=body)
    direct = router.http.request(method, path, content=body)
    assert (through.status_code, through.content) == (direct.status_code, direct.content)
    assert through.headers["content-type"] == direct.headers["content-type"]


@pytest.mark.parametrize(
    ("status", "expected"), [("RESOURCE_EXHAUSTED", 429), ("UNAVAILABLE", 503), ("INTERNAL", 502)]
)
def test_an_engines_failure_passes_unchanged(
    nginx: Nginx, engine: SimulatedEngine, status: str, expected: int
) -> None:
    engine.fault(f"fail,status={status},message=no room")
    before = len(engine.requests)
    response = nginx.http.post(COMPLETIONS, json=chat_body())
    assert response.status_code == expected
    assert "no room" in response.json()["error"]["message"]
    # Not asked again, neither by nginx nor by the router.
    assert len(engine.requests) == before + 1


def test_a_router_that_is_down_is_told_in_json(binary: str, tmp_path: Path) -> None:
    nginx = Nginx(binary, tmp_path, free_port())
    nginx.start()
    try:
        response = nginx.http.post(COMPLETIONS, json=chat_body())
        assert response.status_code == 502
        assert response.headers["retry-after"] == "1"
        assert re.fullmatch("[0-9a-f]{32}", response.headers["x-request-id"])
        assert response.json()["error"]["code"] == "router_unavailable"
    finally:
        nginx.stop()


@pytest.mark.parametrize(
    ("request_head", "status", "code"),
    [
        (b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 9000), 414, "request-uri_too_large"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: %b\r\n\r\n" % (b"a" * 40_000), 431,
         "request_header_fields_too_large"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),
        (b"GET  HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_request"),
        (b"nonsense\r\n\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n\r\n", 501, "not_implemented"),
        (b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", 405, "bad_request"),
    ],
)  # fmt: skip
def test_what_nginx_itself_refuses_is_told_in_json(
    nginx: Nginx, request_head: bytes, status: int, code: str
) -> None:
    with raw_client(nginx.port) as client:
        client.socket.sendall(request_head)
        head, body = client.response()
    assert head.startswith(b"http/1.1 %d " % status), head
    assert b"\r\ncontent-type: application/json\r\n" in head
    assert re.search(rb"\r\nx-request-id: [0-9a-f]{32}\r\n", head)
    assert json.loads(body)["error"]["code"] == code


def test_request_ids(nginx: Nginx) -> None:
    given = nginx.http.get("/liveness", headers={"X-Request-Id": "client-1.2"})
    assert given.headers.get_list("x-request-id") == ["client-1.2"]
    own = nginx.http.get("/liveness", headers={"X-Request-Id": 'two "words"'})
    assert re.fullmatch("[0-9a-f]{32}", own.headers["x-request-id"])
    assert " id=client-1.2\n" in nginx.log


@pytest.fixture(scope="module")
def open_nginx(
    binary: str, router: RouterProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nginx]:
    """One that lets other machines in, which here have other loopback addresses."""
    nginx = Nginx(binary, tmp_path_factory.mktemp("open"), router.port)
    site = nginx.folder / "site.conf"
    text = site.read_text()
    assert text.count("    # allow 10.0.0.0/8;") == 1
    site.write_text(text.replace("    # allow 10.0.0.0/8;", "    allow 127.0.0.0/8;"))
    nginx.start()
    yield nginx
    nginx.stop()


def ask(nginx: Nginx, method: str, path: str, source: str) -> tuple[int, bytes]:
    """Sends the path as it is, from an address of our own."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", nginx.port, timeout=PATIENCE, source_address=(source, 0)
    )
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path",
    [
        "/flush_cache",
        "/flush_cache?timeout=1",
        "/flush_cache/",
        "//flush_cache",
        "/%66lush_cache",
        "/./flush_cache",
        "/v1/../flush_cache",
        "/start_profile",
        "/stop_profile",
        "/abort_request",
    ],
)
def test_only_this_machine_controls_the_engines(open_nginx: Nginx, method: str, path: str) -> None:
    status, body = ask(open_nginx, method, path, "127.0.0.2")
    assert status == 403
    assert json.loads(body)["error"]["code"] == "forbidden"


def test_what_does_not_control_the_engines_is_for_all(open_nginx: Nginx) -> None:
    for path in ("/v1/models", "/health", "/server_info", "/v1/loads"):
        assert ask(open_nginx, "GET", path, "127.0.0.2")[0] == 200
    assert ask(open_nginx, "POST", "/flush_cache", "127.0.0.1")[0] == 200


def test_who_may_not_come_in_is_told_in_json(nginx: Nginx) -> None:
    status, body = ask(nginx, "GET", "/v1/models", "127.0.0.2")
    assert status == 403
    assert json.loads(body)["error"]["code"] == "forbidden"
