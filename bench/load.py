"""The load: clients that post the same request over and over, and keep what they get.

Strategy: one thread, non-blocking sockets, one epoll. While the clock runs, a client
only looks for the end of its response; texts are checked afterwards. A client starts no
new request once the time is over, and those under way run to their end: every token that
the router was paid for is counted.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

_PATIENCE = 60.0
_HEADER_END = b"\r\n\r\n"
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class WrongAnswer(Exception):
    """A response is not what the script says."""


class Response(NamedTuple):
    """One response as it came, and the seconds to its first token."""

    head: bytes
    body: bytes
    first_token: float


class Load(NamedTuple):
    """All responses of a run, and how long it took."""

    responses: list[Response]
    seconds: float


class _Client:
    """One connection with one request on it at a time."""

    def __init__(self, port: int, request: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._request = request
        self._received = bytearray()
        self._sent_at = 0.0
        self._first_at = 0.0

    def send(self) -> None:
        """Posts the request, which is short enough for any socket buffer."""
        self._received.clear()
        self._first_at = 0.0
        self._sent_at = time.perf_counter()
        self.socket.send(self._request)

    def receive(self) -> Response | None:
        """Takes what has arrived; returns the response once it is complete."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise WrongAnswer(f"the router closed a connection after {bytes(self._received)!r}")
        received = self._received
        received += data
        if not self._first_at:
            head, end, body = received.partition(_HEADER_END)
            # The first event of a stream has the role, the second the first text.
            if not end or (b"chunked" in head and body.count(b"data: ") < 2):
                return None
            self._first_at = time.perf_counter()
        if not _is_complete(received):
            return None
        head, _, body = received.partition(_HEADER_END)
        return Response(bytes(head), bytes(body), self._first_at - self._sent_at)


def run_load(port: int, body: bytes, *, clients: int, seconds: float) -> Load:
    """Has clients post `body` for some seconds.

    Args:
        port: The router's, on 127.0.0.1.
        body: A chat completion request.
        clients: How many requests are under way at a time.
        seconds: How long new requests are started; each client makes one at least.

    Raises:
        WrongAnswer: A connection broke, or nothing more came.
    """
    request = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    by_descriptor: dict[int, _Client] = {}
    responses: list[Response] = []
    poll = select.epoll()
    try:
        for _ in range(clients):
            client = _Client(port, request)
            by_descriptor[client.socket.fileno()] = client
            poll.register(client.socket, select.EPOLLIN)
        start = time.perf_counter()
        for client in by_descriptor.values():
            client.send()
        running = clients
        while running:
            ready = poll.poll(_PATIENCE)
            if not ready:
                raise WrongAnswer(f"nothing came for {_PATIENCE:.0f} s on {running} connections")
            for descriptor, _ in ready:
                client = by_descriptor[descriptor]
                response = client.receive()
                if response is None:
                    continue
                responses.append(response)
                if time.perf_counter() < start + seconds:
                    client.send()
                else:
                    poll.unregister(descriptor)
                    running -= 1
        return Load(responses, time.perf_counter() - start)
    finally:
        for client in by_descriptor.values():
            client.socket.close()
        poll.close()


def check_responses(responses: Sequence[Response], text: str, tokens: int, *, stream: bool) -> None:
    """Checks every response against the script.

    Args:
        responses: What the clients got.
        text: What each of them should say.
        tokens: What each of them should count, if it counts.
        stream: Whether they should be streams.

    Raises:
        WrongAnswer: One of them differs.
    """
    for response in responses:
        if b" 200 " not in response.head.partition(b"\r\n")[0]:
            raise WrongAnswer(f"{response.head.decode()}\n{response.body.decode()}")
        try:
            content, reason = (
                _read_stream(response.body) if stream else _read_whole(response.body, tokens)
            )
        except (ValueError, KeyError, IndexError) as exc:  # msgspec's errors are ValueErrors
            raise WrongAnswer(f"{exc!r} in {response.body!r}") from exc
        if content != text or reason != "length":
            raise WrongAnswer(f"expected {text!r}, got {content!r} ({reason})")


def _is_complete(received: bytearray) -> bool:
    head = received[:1024].partition(_HEADER_END)[0]
    if b"chunked" in head:
        return received.endswith(_LAST_CHUNK)
    name = b"content-length:"
    lengths = [
        int(line[len(name) :]) for line in head.lower().split(b"\r\n") if line.startswith(name)
    ]
    return bool(lengths) and len(received) >= len(head) + len(_HEADER_END) + lengths[0]


def _read_stream(body: bytes) -> tuple[str, str]:
    """Joined content and finish reason of a chunked event stream."""
    *events, done, nothing = _join_chunks(body).split(b"\n\n")
    if done != b"data: [DONE]" or nothing:
        raise ValueError("the stream does not end with [DONE]")
    content, reason = "", ""
    for event in events:
        choice: dict[str, Any] = msgspec.json.decode(event.removeprefix(b"data: "))["choices"][0]
        content += choice["delta"].get("content") or ""
        reason = choice["finish_reason"] or reason
    return content, reason


def _read_whole(body: bytes, tokens: int) -> tuple[str, str]:
    """Content and finish reason of a chat completion."""
    answer: dict[str, Any] = msgspec.json.decode(body)
    counted = answer["usage"]["completion_tokens"]
    if counted != tokens:
        raise ValueError(f"{counted} tokens instead of {tokens}")
    choice = answer["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


def _join_chunks(body: bytes) -> bytes:
    """The body of a response with Transfer-Encoding: chunked."""
    joined = bytearray()
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end], 16)
        if not size:
            return bytes(joined)
        joined += body[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
