"""The worker's client, on a socket whose other end takes its time."""

from __future__ import annotations

from types import SimpleNamespace

import gevent
import gevent.socket

from sglrouter._fast.chunked import BodyWriter
from sglrouter.http.clock import Clock
from sglrouter.server.body_intake import BodyUnreader
from sglrouter.server.direct_client import DirectClient, WaitingClients
from sglrouter.server.presence import ConnectionWatch
from tests.patience import PATIENCE


def test_what_a_client_is_waited_for_with_is_kept_until_it_has_it() -> None:
    """A sink writes whenever nothing is kept, and would write into the middle of it."""
    ours, theirs = gevent.socket.socketpair()
    client = DirectClient(
        SimpleNamespace(sock=ours),
        ConnectionWatch(ours),
        BodyUnreader(ours),
        WaitingClients(),
        Clock(),
    )
    writer = client.writer = BodyWriter(ours.fileno(), chunked=False)
    body = bytes(range(256)) * 20_000
    assert not writer.write(body)
    waiting = gevent.spawn(client.wait_until_taken)
    received = b""
    with ours, theirs:
        while len(received) < len(body):
            # Until the last of it is in the socket, where nobody can come in between.
            if not waiting.ready():
                assert writer.kept
            received += theirs.recv(1 << 16)
            gevent.sleep(0)
        waiting.get(timeout=PATIENCE)
        assert received == body
        assert writer.kept == b""
        assert writer.write(b"next")
        assert theirs.recv(100) == b"next"
