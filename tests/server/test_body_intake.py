"""The reading of bodies: what is counted, and who hears of it."""

from __future__ import annotations

from gevent import socket

from sglrouter.server.body_intake import Bodies, BodyBounds, Intake


def test_a_body_that_ends_early_is_counted_out_and_told_of() -> None:
    over: list[int] = []
    bodies = Bodies(BodyBounds(timeout=5.0, rate=1000, together=1 << 20), over.append)
    intake = Intake(bodies)
    ours, clients = socket.socketpair()
    with ours, clients:
        clients.sendall(b"x" * 1000)
        assert intake.receive(ours, 8192) == b"x" * 1000
        assert bodies.held == 1000
        assert over == []
        intake.release()
    assert bodies.held == 0
    assert over == [1000]
