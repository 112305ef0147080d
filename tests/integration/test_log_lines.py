"""What others say gets into the log on one line, and never as a line of its own."""

from __future__ import annotations

import pytest

from sglrouter.sim import SimulatedEngine
from tests.integration.sockets import raw_client
from tests.processes import RouterProcess

WORDS = "a\r\n[2026-01-01] [1] [INFO] INJECTED\x00\x1b[2J\u202eb"


@pytest.mark.parametrize(("stream", "after"), [(False, 0), (True, 0), (True, 2)])
def test_an_engines_words_are_one_line(
    router: RouterProcess, engine: SimulatedEngine, stream: bool, after: int
) -> None:
    engine.script([[301]] * 10)
    engine.fault(f"fail,times=1,after={after},status=INTERNAL,message={WORDS}")
    text = router.chat(stream=stream).text
    cleaned = "a [2026-01-01] [1] [INFO] INJECTED [2J b"
    assert f"The engine failed: {cleaned}" in text
    lines = [line for line in router.log.split("\n") if "INJECTED" in line]
    assert lines
    assert all(cleaned in line and " request " in line for line in lines)
    assert not {"\x00", "\x1b", "\u202e", "\r"} & set(router.log)


def test_http_2_without_asking_gets_a_word(router: RouterProcess) -> None:
    with raw_client(router.port) as client:
        client.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        head, body = client.response()
        assert client.ended()
    assert head.startswith(b"http/1.1 505 ")
    assert b"connection: close" in head
    assert b"speaks HTTP/1.1" in body
