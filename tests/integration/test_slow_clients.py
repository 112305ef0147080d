"""Bodies that come slowly, in masses or not at all wanted, and clients that take nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.integration.sockets import RawClient, raw_client
from tests.patience import PATIENCE
from tests.processes import RouterProcess, chat_body, joined, sse_data

MOST = 2_000_000
TOGETHER = 3_000_000
BODY_TIMEOUT = 2.0
SEND_TIMEOUT = 2.0


@pytest.fixture(scope="module")
def router(engine: SimulatedEngine, tiny_model: Path) -> Iterator[RouterProcess]:
    """A router that is soon out of patience."""
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "model_name": "tiny",
            "unknown_models": "accept",
            "max_body": MOST,
            "body_memory": TOGETHER,
            "body_timeout": BODY_TIMEOUT,
            "body_rate": 1000,
            "send_timeout": SEND_TIMEOUT,
        }
    )
    router.start()
    yield router
    router.stop()


def error_of(client: RawClient, status: bytes) -> dict[str, object]:
    head, body = client.response()
    assert head.startswith(b"http/1.1 " + status), (head, body)
    assert b"x-request-id: " in head
    error: dict[str, object] = json.loads(body)["error"]
    return error


def trickle(client: RawClient, piece: bytes, pause: float, stop: threading.Event) -> None:
    while not stop.wait(pause):
        try:
            client.socket.sendall(piece)
        except OSError:
            return


@pytest.mark.parametrize("pause", [0.1, None], ids=["a byte now and then", "nothing"])
@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_that_comes_too_slowly_is_given_up(
    router: RouterProcess, chunked: bool, pause: float | None
) -> None:
    stop = threading.Event()
    with raw_client(router.port) as client:
        framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 1000"
        client.socket.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n" % framing
        )
        piece = b"1\r\n{\r\n" if chunked else b"{"
        client.socket.sendall(piece)
        sender = threading.Thread(
            target=trickle, args=(client, piece, pause or PATIENCE, stop), daemon=True
        )
        sender.start()
        started = time.monotonic()
        try:
            error = error_of(client, b"408 ")
            assert time.monotonic() - started > BODY_TIMEOUT / 2
            assert error["code"] == "request_timeout"
            assert error["type"] == "invalid_request_error"
            assert client.ended()
        finally:
            stop.set()
            sender.join()


def test_a_slow_body_that_keeps_its_rate_is_read(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("ok")
    body = json.dumps(chat_body("x" * 8000)).encode()
    with raw_client(router.port) as client:
        client.send(body[:10], size=len(body))
        at = 10
        started = time.monotonic()
        while at < len(body):
            client.socket.sendall(body[at : at + 400])
            at += 400
            time.sleep(0.15)
        assert time.monotonic() - started > BODY_TIMEOUT
        head, _ = client.response()
        # The prompt is longer than the model's context.
        assert head.startswith((b"http/1.1 400 ", b"http/1.1 200 ")), head


def test_bodies_have_a_bound_together(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script("ok")
    half = b'{"messages": "' + b" " * 1_000_000
    with ExitStack() as stack:
        others = [stack.enter_context(raw_client(router.port)) for _ in range(4)]
        for other in others:
            other.send(half, size=1_900_000)
        answers = []
        deadline = time.monotonic() + PATIENCE
        for other in others:
            # Three fit; whichever comes last does not.
            other.socket.settimeout(0.5)
            try:
                answers.append((other, other.response()))
            except TimeoutError:
                continue
            assert time.monotonic() < deadline
        refused = [head for _, (head, _) in answers if head.startswith(b"http/1.1 503 ")]
        assert refused
        assert all(b"retry-after: 1" in head for head in refused)
        assert json.loads(answers[0][1][1])["error"]["code"] == "overloaded"
    # Those that have left hold nothing any more, and small ones were never refused.
    assert router.chat().status_code == 200
    big = json.dumps({"messages": " " * 1_900_000}).encode()
    for _ in range(4):
        answer = router.http.post("/v1/chat/completions", content=big)
        assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    ("path", "status"), [("/v1/chat/completions", b"413"), ("/nothing", b"404")]
)
def test_an_answer_arrives_though_the_body_was_not_read(
    router: RouterProcess, path: str, status: bytes
) -> None:
    body = b"x" * 20_000_000
    with raw_client(router.port) as client:
        # All of it is sent before anything is read, as simple clients do.
        client.send(body, path)
        head, answer = client.response()
        assert head.startswith(b"http/1.1 " + status), head
        assert b"connection: close" in head
        assert "error" in json.loads(answer)
        assert client.ended()


def test_a_small_unread_body_does_not_end_the_connection(router: RouterProcess) -> None:
    with raw_client(router.port) as client:
        client.send(b"x" * 1000, "/nothing")
        head, _ = client.response()
        assert b"connection: keep-alive" in head
        client.get("/liveness")
        head, _ = client.response()
        assert head.startswith(b"http/1.1 200 ")


@pytest.mark.parametrize(
    "request_head",
    [
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 20_000,
    ],
    ids=["framing", "version", "line"],
)
def test_gunicorn_s_own_errors_arrive(router: RouterProcess, request_head: bytes) -> None:
    with raw_client(router.port) as client:
        client.socket.sendall(request_head)
        client.socket.sendall(b"y" * 3_000_000)
        _, answer = client.response()
        assert "error" in json.loads(answer)


@pytest.mark.usefixtures("native")  # grpcio's windows are larger than this stream
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_takes_nothing_is_let_go(
    router: RouterProcess, engine: SimulatedEngine, stream: bool
) -> None:
    # Some eight megabytes, more than the sockets between hold.
    engine.script([[7 + i % 50] for i in range(18_000 if stream else 2000)])
    fields: dict[str, object] = {"max_tokens": 20_000, "stream": stream}
    fields |= {"model": "m" * 1000} if stream else {"logprobs": True, "top_logprobs": 20, "n": 4}
    aborted = len(engine.aborted)
    with raw_client(router.port, receive_buffer=4096) as client:
        client.post(**fields)  # type: ignore[arg-type]
        client.until(b"\r\n\r\n")
        seen = router.log.count("took nothing")
        engine.wait_until(lambda: router.log.count("took nothing") > seen, timeout=PATIENCE)
        if stream:
            engine.wait_until(lambda: len(engine.aborted) > aborted)
        engine.wait_until(lambda: engine.active == 0)
        while not client.ended():
            pass
    assert "Traceback" not in router.log


@pytest.mark.long
@pytest.mark.usefixtures("native")
def test_a_client_that_takes_little_at_a_time_gets_all(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, unknown_models="accept",
        send_timeout=SEND_TIMEOUT,
    )  # fmt: skip
    engine.script([[7 + i % 50] for i in range(5000)])
    with raw_client(router.port, receive_buffer=4096) as client:
        client.post(max_tokens=20_000, stream=True, model="m" * 1000)
        started = time.monotonic()
        while time.monotonic() - started < 3 * SEND_TIMEOUT:
            client.data += client.socket.recv(20_000)
            time.sleep(0.1)
        client.until(b"\r\n\r\n")
        *events, done = sse_data(client.chunked_body().decode())
    assert done == "[DONE]"
    assert joined([json.loads(event) for event in events])
