"""Plain requests in callbacks, and all in greenlets with gunicorn's parser: the same bytes.

gunicorn's way is the reference. Each case goes to two routers of which one serves nothing in
callbacks, and what comes back is compared byte for byte, but for ids, the time, the order of
header fields and how a stream is cut into events.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sglrouter.sim import SimulatedEngine
from tests.patience import PATIENCE, PROMPT
from tests.processes import RouterProcess, chat_body

CHAT = "/v1/chat/completions"
KEEPALIVE = 2
VARYING = (
    (re.compile(rb"(?<=^Date: ).+"), b"NOW"),
    (re.compile(rb"(?<=^x-request-id: )[0-9a-f]{32}"), b"ID"),
    (re.compile(rb"(?i)(?<=^content-length: )\d+"), b"SIZE"),
    # How much has been read of what is too long.
    (re.compile(rb"(?<=too large \()\d+"), b"SIZE"),
    (re.compile(rb"(?<=\")(?:chatcmpl-|cmpl-)?[0-9a-f]{32}(?=\")"), b"ID"),
    (re.compile(rb"(?<=\"created\":)\d+"), b"0"),
    (re.compile(rb"(?<=\"e2e_latency\":)[\d.e-]+"), b"0"),
    (re.compile(rb"(?<=_client_ts\":)[\d.e-]+"), b"0"),
    (re.compile(rb"(?<=\"channel\":)\{[^}]*\}"), b"0"),
    (re.compile(rb"(?<=\"tokenizer\":)\{[^}]*\}"), b"0"),
    (re.compile(rb"(?<=\"cached_tokens\":)\d+"), b"0"),
)


@pytest.fixture(scope="module")
def routers(engine: SimulatedEngine, tiny_model: Path) -> Iterator[list[RouterProcess]]:
    """One that serves in callbacks, and one that does not."""
    with ExitStack() as stack:
        started = []
        for callbacks in (True, False):
            router = RouterProcess(
                {
                    "engine": f"grpc://{engine.address}",
                    "tokenizer": tiny_model,
                    "model_name": "tiny",
                    "unknown_models": "accept",
                    "cors_origins": "http://a.example",
                    "heartbeat": 1.0,
                    "idle_timeout": 2.5,
                    "keepalive": KEEPALIVE,
                    "callbacks": callbacks,
                }
            )
            stack.callback(router.stop)
            router.start()
            started.append(router)
        yield started


def post(path: str, body: object, *fields: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: h", "Content-Type: application/json", *fields]
    head = "\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""])
    return head.encode() + data


def get(path: str, *fields: str, method: str = "GET", version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: h", *fields, "", ""]).encode()


Answer = tuple[bytes, list[bytes], bytes]


def parsed(data: bytes) -> Iterator[Answer]:
    """The responses in what has come: status line, fields in order of their names, body."""
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        status, *fields = head.split(b"\r\n")
        named = {field.partition(b":")[0].lower(): field for field in fields}
        assert len(named) == len(fields), head
        size = b"0"
        body = b""
        if b"transfer-encoding" in named:
            while True:
                size, _, data = data.partition(b"\r\n")
                piece, data = data[: int(size, 16)], data[int(size, 16) + 2 :]
                body += piece
                if not piece:
                    break
        elif status.split()[1] == b"100" or data.startswith(b"HTTP/1."):
            pass  # to HEAD, or one that comes before the response
        else:
            size = named.get(b"content-length", b":%d" % len(data)).partition(b":")[2]
            body, data = data[: int(size)], data[int(size) :]
        yield status, sorted(map(steady, fields)), joined(steady(body))


def answers(router: RouterProcess, pieces: list[bytes]) -> list[Answer]:
    """All that comes back for what is sent, the last of which asks for the end."""
    with socket.create_connection(("127.0.0.1", router.port), PATIENCE) as connection:
        for place, piece in enumerate(pieces):
            if place:
                time.sleep(0.02)
            connection.sendall(piece)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return list(parsed(received))


def joined(body: bytes) -> bytes:
    """The same without the cuts between the events of a stream."""
    if not body.startswith(b"data: "):
        return body
    names: list[str] = []
    texts: dict[str, str] = {}
    for line in body.decode().splitlines():
        if not line.startswith("data: {"):
            names += [line] if line else []
            continue
        event = json.loads(line.removeprefix("data: "))
        for choice in event.pop("choices", []):
            index = choice.pop("index")
            for name, value in {**choice, **choice.pop("delta", {})}.items():
                key = f"{index} {name}"
                if isinstance(value, dict) and isinstance(value.get("content"), list):
                    value = "".join(json.dumps(item) for item in value["content"])
                if isinstance(value, str | int):
                    texts[key] = texts.get(key, "") + str(value)
        # SGLang's events are each all there is.
        names = [name for name in names if "meta_info" not in name and '"usage": {' not in name]
        names += [json.dumps(event)] if event not in names else []
    return json.dumps([list(dict.fromkeys(names)), texts]).encode()


def steady(data: bytes) -> bytes:
    """The same without what differs each time."""
    for pattern, name in VARYING:
        data = pattern.sub(name, data)
    return data


LAST = get("/liveness", "Connection: close")
TEXT = "Hello, how are you today? I hope that all is well with you."
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
    },
}
CASES: dict[str, list[bytes]] = {
    "whole": [post(CHAT, chat_body())],
    "streamed": [post(CHAT, chat_body(stream=True))],
    "usage": [post(CHAT, chat_body(stream=True, stream_options={"include_usage": True}))],
    "usage in each chunk": [
        post(CHAT, chat_body(stream=True, stream_options={"continuous_usage_stats": True}))
    ],
    "three samples": [post(CHAT, chat_body(n=3))],
    "three samples streamed": [post(CHAT, chat_body(n=3, stream=True, max_tokens=1))],
    "log probabilities": [post(CHAT, chat_body(logprobs=True, top_logprobs=2))],
    "log probabilities streamed": [post(CHAT, chat_body(logprobs=True, stream=True))],
    "a stop string": [post(CHAT, chat_body(stop="how"))],
    "a stop string streamed": [post(CHAT, chat_body(stop=["how"], stream=True))],
    "tools": [post(CHAT, chat_body(tools=[TOOL]))],
    "tools streamed": [post(CHAT, chat_body(tools=[TOOL], stream=True))],
    "a schema": [post(CHAT, chat_body(response_format={"type": "json_object"}))],
    "ignored fields": [post(CHAT, chat_body(service_tier="auto", store=True))],
    "an id": [post(CHAT, chat_body(), "X-Request-ID: mine")],
    "an id that is none": [post(CHAT, chat_body(), "X-Request-ID: a b")],
    "completions": [post("/v1/completions", {"prompt": "x", "max_tokens": 9})],
    "completions streamed": [post("/v1/completions", {"prompt": ["x", "y"], "stream": True})],
    "completions echoed": [post("/v1/completions", {"prompt": "x", "echo": True})],
    "generate": [post("/generate", {"text": "x", "rid": "a"})],
    "generate streamed": [post("/generate", {"text": "x", "rid": "a", "stream": True})],
    "put": [post("/generate", {"text": "x", "rid": "a"}).replace(b"POST", b"PUT", 1)],
    "embeddings are refused": [post("/v1/embeddings", {"input": "x"})],
    "tokens": [post("/tokenize", {"prompt": "x"})],
    "models": [get("/v1/models")],
    "one model": [get("/v1/models/tiny")],
    "no such model": [get("/v1/models/other")],
    "health": [get("/health")],
    "version": [get("/version")],
    "no such path": [get("/nothing?a=1")],
    "a path with a slash at its end": [get("/v1/models/")],
    "an escaped path": [get("/v1/models/t%69ny")],
    "another method": [get(CHAT)],
    "a method that nobody knows": [get("/v1/models", method="BREW")],
    "head": [get("/v1/models", method="HEAD")],
    "options": [get(CHAT, method="OPTIONS")],
    "a page of another origin": [post(CHAT, chat_body(), "Origin: http://a.example")],
    "a page that may not": [post(CHAT, chat_body(), "Origin: http://b.example")],
    "a question first": [
        get(
            CHAT,
            "Origin: http://a.example",
            "Access-Control-Request-Method: POST",
            method="OPTIONS",
        ),
    ],
    "no json": [post(CHAT, b"{")],
    "no body": [post(CHAT, b"")],
    "no messages": [post(CHAT, {"messages": []})],
    "a wrong type": [post(CHAT, {"messages": 3})],
    "a wrong value": [post(CHAT, chat_body(temperature=9))],
    "a wrong value streamed": [post(CHAT, chat_body(n=10**6, stream=True))],
    "a prompt that is too long": [post(CHAT, chat_body("word " * 9000))],
    "a body beyond the short way": [post(CHAT, chat_body(TEXT * 3000))],
    "a body that is compressed and is not": [post(CHAT, b"x", "Content-Encoding: gzip")],
    "an encoding that nobody knows": [post(CHAT, b"x", "Content-Encoding: br")],
    "no length": [b"POST %b HTTP/1.1\r\nHost: h\r\n\r\n" % CHAT.encode(), b""],
    "chunks": [
        b"POST /tokenize HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
        b'e\r\n{"prompt":"x"}\r\n0\r\n\r\n',
    ],
    "an older version": [b"GET /version HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"],
    "an older version streamed": [
        post(CHAT, chat_body(stream=True)).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    ],
    "a head in pieces": [b"GET /ver", b"sion HT", b"TP/1.1\r\nHo", b"st: h\r\n", b"\r\n"],
    "a body in pieces": [post(CHAT, chat_body())[:-9], post(CHAT, chat_body())[-9:]],
    "many at once": [b"".join([get("/version"), post(CHAT, chat_body()), get("/nothing")] * 9)],
    "plain and other ones in turn": [
        b"".join([get("/version"), get("/version", "X: a", "X: b"), post(CHAT, b"{")] * 5)
    ],
    "streams at once": [post(CHAT, chat_body(stream=True)) * 3],
    "two lengths": [post("/tokenize", {"prompt": "x"}, "Content-Length: 3")],
    "a bad line": [b"GARBAGE\r\n"],
    "a bad field": [b"GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n"],
    "a field that is too long": [get("/version", "X: " + "v" * 9000)],
    "a target that is too long": [get("/" + "v" * 9000)],
    "too many fields": [get("/version", *(f"X-{i}: v" for i in range(200)))],
    "http/2": [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    "an expectation": [post(CHAT, chat_body(), "Expect: 100-continue")],
}


# Their answer ends the connection: what is sent after them would only reset it.
ENDING = {"an older version streamed"}


@pytest.mark.parametrize("name", CASES)
def test_both_ways_send_the_same_bytes(
    routers: list[RouterProcess], engine: SimulatedEngine, name: str
) -> None:
    engine.script(TEXT)
    pieces = CASES[name] if name in ENDING else [*CASES[name], LAST]
    in_callbacks, in_greenlets = (answers(router, pieces) for router in routers)
    assert in_callbacks == in_greenlets
    assert in_callbacks


@pytest.mark.parametrize(
    "fault",
    [
        "fail,status=INVALID_ARGUMENT",
        "fail,status=RESOURCE_EXHAUSTED",
        "fail,status=INTERNAL",
        "close",
    ],
)
@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("stream", [False, True])
def test_both_ways_tell_the_same_of_a_failure(
    routers: list[RouterProcess], engine: SimulatedEngine, fault: str, after: int, stream: bool
) -> None:
    engine.script(TEXT)
    told = []
    for router in routers:
        engine.fault(f"{fault},after={after},times=1")
        told.append(answers(router, [post(CHAT, chat_body(stream=stream)), LAST]))
    assert told[0] == told[1]
    # A whole answer has one message: there is nothing after two.
    assert (b"error" in told[0][0][2]) == (stream or not after)


@pytest.mark.parametrize("after", [0, 2])
def test_both_ways_fill_silence_and_end_it(
    routers: list[RouterProcess], engine: SimulatedEngine, after: int
) -> None:
    engine.script(TEXT)
    told = []
    for router in routers:
        engine.fault(f"hang,after={after},times=1")
        with socket.create_connection(("127.0.0.1", router.port), PATIENCE) as connection:
            connection.sendall(post(CHAT, chat_body(stream=True)))
            data = b""
            while data.count(b": ping\n\n") < 2 or (after and b"went silent" not in data):
                data += connection.recv(65536)
        told.append(data)
    assert told[0].count(b": ping") == told[1].count(b": ping")
    engine.wait_until(lambda: engine.active == 0)


@pytest.mark.parametrize("request_", [post(CHAT, chat_body()), get("/version"), b"GET /ver"])
def test_an_idle_connection_is_closed_in_time(
    routers: list[RouterProcess], engine: SimulatedEngine, request_: bytes
) -> None:
    engine.script(TEXT)
    for router in routers:
        with socket.create_connection(("127.0.0.1", router.port), PATIENCE) as connection:
            connection.sendall(request_)
            begun = time.monotonic()
            while connection.recv(65536):
                begun = time.monotonic()
            assert KEEPALIVE / 2 < time.monotonic() - begun < KEEPALIVE + PROMPT
