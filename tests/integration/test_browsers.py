"""What web pages may do: read where they are allowed, and never act unasked."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.processes import RouterProcess, chat_body

pytestmark = pytest.mark.long

PAGE = "https://chat.example.com"
OTHER = "https://evil.example.com"
COMPLETIONS = "/v1/chat/completions"
CONTROL = ["/flush_cache", "/start_profile", "/stop_profile", "/abort_request"]
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


@pytest.fixture(scope="module", params=["*", f"{PAGE},https://b.example.com"])
def open_router(
    request: pytest.FixtureRequest, engine: SimulatedEngine, tiny_model: Path
) -> Iterator[RouterProcess]:
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "model_name": "tiny",
            "cors_origins": request.param,
        }
    )
    router.start()
    yield router
    router.stop()


def allowed(response: httpx.Response) -> str | None:
    origin: str | None = response.headers.get("access-control-allow-origin")
    return origin


def test_nobody_may_read_unless_it_is_set(router: RouterProcess) -> None:
    for method in ("OPTIONS", "POST"):
        answer = router.http.request(
            method, COMPLETIONS, json=chat_body(), headers={"Origin": PAGE, **PREFLIGHT}
        )
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_preflight_says_what_may_be_sent(open_router: RouterProcess) -> None:
    for path in (COMPLETIONS, "/v1/completions", "/v1/embeddings", "/generate", "/v2/rerank"):
        answer = open_router.http.options(path, headers={"Origin": PAGE, **PREFLIGHT})
        assert answer.status_code == 200
        assert allowed(answer) in (PAGE, "*")
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert answer.headers["access-control-allow-headers"] == "authorization,content-type"
        assert int(answer.headers["access-control-max-age"]) > 0


def test_every_answer_can_be_read(open_router: RouterProcess) -> None:
    headers = {"Origin": PAGE}
    post = open_router.http.post
    answers = [
        open_router.http.get("/v1/models", headers=headers),
        open_router.http.get("/nothing", headers=headers),
        open_router.http.get(COMPLETIONS, headers=headers),
        post(COMPLETIONS, json=chat_body(), headers=headers),
        post(COMPLETIONS, json=chat_body(stream=True), headers=headers),
        post(COMPLETIONS, json=chat_body(n=0), headers=headers),
        post(COMPLETIONS, content=b"{", headers=headers),
    ]
    assert [each.status_code for each in answers] == [200, 404, 405, 200, 200, 400, 400]
    for answer in answers:
        named = allowed(answer) == PAGE
        assert named or allowed(answer) == "*"
        assert named == (answer.headers.get("vary") == "Origin")
        assert named == (answer.headers.get("access-control-allow-credentials") == "true")
        assert "X-Request-ID" in answer.headers["access-control-expose-headers"]


def test_another_origin_may_not(open_router: RouterProcess) -> None:
    answer = open_router.http.get("/v1/models", headers={"Origin": OTHER})
    assert allowed(answer) in (None, "*")
    for path in CONTROL:
        for method in ("POST", "OPTIONS"):
            refused = open_router.http.request(method, path, headers={"Origin": OTHER, **PREFLIGHT})
            assert allowed(refused) is None
        assert refused.status_code == 200


@pytest.mark.parametrize("path", CONTROL)
@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"Origin": OTHER}, b"", 403),
        ({"Origin": "null"}, b"", 403),
        ({"Origin": OTHER, "Content-Type": "application/json"}, b"{}", 403),
        ({"Sec-Fetch-Site": "cross-site"}, b"", 403),
        ({"Sec-Fetch-Site": "same-site"}, b"", 403),
        ({"Content-Type": "text/plain"}, b'{"abort_all": true}', 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"a=b", 415),
        ({}, b'{"abort_all": true}', 415),
    ],
)
def test_pages_do_not_act(
    router: RouterProcess, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    refused = router.http.post(path, content=body, headers=headers)
    assert refused.status_code == status, refused.text
    assert refused.json()["error"]["type"] == "invalid_request_error"


def test_the_same_and_allowed_origins_act(
    open_router: RouterProcess, router: RouterProcess
) -> None:
    json_type = {"Content-Type": "application/json; charset=utf-8"}
    for headers in ({}, {"Origin": router.url}, {"Sec-Fetch-Site": "same-origin"}, json_type):
        assert router.http.post("/flush_cache", headers=headers).status_code == 200
    status = open_router.http.post("/flush_cache", headers={"Origin": PAGE}).status_code
    named = allowed(open_router.http.get("/liveness", headers={"Origin": PAGE})) == PAGE
    assert status == (200 if named else 403)


def test_only_for_an_allowed_host(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, allowed_hosts="localhost,127.0.0.1"
    )
    assert router.http.post("/flush_cache").status_code == 200
    refused = router.http.post("/flush_cache", headers={"Host": "evil.example.com:8080"})
    assert refused.status_code == 403
    assert router.http.get("/liveness", headers={"Host": "other"}).status_code == 200


def test_headers_do_not_change_the_path(router: RouterProcess) -> None:
    headers = {"SCRIPT_NAME": "/v1", "PATH_INFO": "/flush_cache"}
    assert router.http.post("/v1/flush_cache", headers=headers).status_code == 404


def test_a_compressed_request(router: RouterProcess) -> None:
    body = gzip.compress(json.dumps(chat_body()).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert router.http.post(COMPLETIONS, content=body, headers=headers).status_code == 200
    chunked = router.http.post(COMPLETIONS, content=iter([body[:9], body[9:]]), headers=headers)
    assert chunked.status_code == 200
    refused = router.http.post(COMPLETIONS, content=body, headers={"Content-Encoding": "br"})
    assert refused.status_code == 415
    assert "br" in refused.json()["error"]["message"]
    assert refused.headers["accept-encoding"] == "gzip, deflate, zstd"


@pytest.mark.parametrize(
    "command",
    [
        ["-P", "-m", "sglrouter", "serve"],
        [str(Path(sys.executable).parent / "gunicorn"), "-c", "CONF"],
    ],
)
def test_the_working_folder_is_not_imported_from(
    command: list[str], engine: SimulatedEngine, tiny_model: Path, tmp_path: Path
) -> None:
    for name in ("sglrouter", "falcon", "gevent", "msgspec"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('PLANTED')")
    router = RouterProcess({"engine": f"grpc://{engine.address}", "tokenizer": tiny_model})
    conf = Path(__file__).parents[2] / "deploy" / "gunicorn.conf.py"
    with (tmp_path / "log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, *(str(conf) if each == "CONF" else each for each in command)],
            cwd=tmp_path,
            env={**router._environment, "PYTHONPATH": "", "PATH": os.environ["PATH"]},
            stdout=log,
            stderr=log,
        )
        try:
            deadline = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < deadline:
                try:
                    if router.http.get("/liveness").status_code == 200:
                        break
                except httpx.TransportError:
                    time.sleep(0.05)
            log.seek(0)
            assert process.poll() is None, log.read()
        finally:
            process.terminate()
            process.wait(30)
            router.stop()
