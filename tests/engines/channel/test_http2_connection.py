"""One connection of the native channel: it waits for its peer, is pinged, used up and lost."""

from __future__ import annotations

from contextlib import closing

import gevent
import pytest
from gevent.monkey import is_module_patched
from hyperframe.frame import GoAwayFrame, PingFrame

from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel import http2, http2_connection
from sglrouter.engines.channel.channel import ChannelOptions, Status
from sglrouter.engines.channel.http2 import Http2Channel
from tests.engines import frames
from tests.engines.calls import Followed
from tests.engines.channel.conftest import To
from tests.engines.frames import data, framed, headers, trailers
from tests.engines.peer import Peer, in_background, is_served, serve, wait_until
from tests.patience import DEADLINE, PATIENCE

if not is_module_patched("threading"):
    pytest.skip("run by tests.engines.channel.under_gevent", allow_module_level=True)


def test_a_peer_that_never_speaks_is_as_good_as_none(
    to: To, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2_connection, "CONNECT_TIMEOUT", 0.1)
    with Peer(b"") as peer:
        channel = to(peer.address)
        for _ in range(5):
            followed = Followed(channel)
            assert followed.drain() == []
            assert followed.status.code == "UNAVAILABLE"
            assert "has not spoken HTTP/2" in followed.status.message
        assert channel.connected is False
        assert len(peer.connections) == 1
        peer.connection().wait_for_end()


@pytest.mark.parametrize(
    "greeting",
    [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", bytes(100), b"SSH-2.0-x\r\n" * 5],
)
def test_a_peer_that_does_not_speak_http2(to: To, greeting: bytes) -> None:
    with Peer(greeting) as peer:
        channel = to(peer.address)
        for _ in range(5):
            followed = Followed(channel)
            assert followed.drain() == []
            assert followed.status.code == "UNAVAILABLE"
            assert "the peer broke HTTP/2" in followed.status.message
        assert len(peer.connections) == 1
        assert channel.connected is False


def test_nothing_is_sent_before_the_peer_has_spoken(to: To) -> None:
    with Peer(b"") as peer:
        channel = to(peer.address)
        first = in_background(channel)
        connection = peer.connection()
        second = in_background(channel)
        gevent.sleep(0.02)
        assert connection.opened() == []
        # Its limits are known now.
        connection.send(frames.settings(MAX_CONCURRENT_STREAMS=2))
        for stream in connection.streams(2):
            serve(connection, stream)
        assert is_served(first.get(timeout=PATIENCE))
        assert is_served(second.get(timeout=PATIENCE))


def test_calls_below_the_last_stream_finish_and_those_above_go_elsewhere(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        calls = [Followed(channel) for _ in range(4)]
        old = peer.connection()
        assert old.streams(4) == [1, 3, 5, 7]
        old.send(headers(3), frames.goaway(3))
        new = peer.connection(1)
        assert new.streams(2) == [1, 3]
        for stream in (1, 3):
            serve(new, stream)
        assert all(is_served(each) for each in calls[2:])
        # New calls avoid it, the old ones go on.
        late = Followed(channel)
        assert new.streams(3) == [1, 3, 5]
        serve(new, 5)
        assert is_served(late)
        assert not old.ended
        serve(old, 1)
        old.send(data(3, framed(b"fine")), trailers(3))
        assert all(is_served(each) for each in calls[:2])
        old.wait_for_end()
        assert len(peer.connections) == 2
        assert channel.connected is True
        assert channel.counts()["lost"] == 0
        assert channel.counts()["refused"] == 2


def test_calls_that_wait_for_room_leave_a_peer_that_goes(
    to: To, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2, "MAX_CONNECTIONS", 1)
    with Peer(frames.settings(MAX_CONCURRENT_STREAMS=1)) as peer:
        channel = to(peer.address)
        running, waiting = Followed(channel), Followed(channel)
        peer.connection().streams()
        # Without a word about the one that runs.
        peer.connection().send(frames.goaway(2**31 - 1))
        assert peer.connection(1).streams() == [1]
        serve(peer.connection(1), 1)
        assert is_served(waiting)
        serve(peer.connection(), 1)
        assert is_served(running)
        assert peer.connection().opened() == [1]


def test_ids_that_run_out_lead_to_a_new_connection(to: To, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_connection, "LAST_STREAM_ID", 3)
    with Peer() as peer:
        channel = to(peer.address)
        calls = [Followed(channel) for _ in range(3)]
        assert peer.connection().streams(2) == [1, 3]
        assert peer.connection(1).streams() == [1]
        for connection, stream in ((0, 1), (0, 3), (1, 1)):
            serve(peer.connection(connection), stream)
        assert all(is_served(each) for each in calls)
        peer.connection().wait_for_end()


def test_close_ends_every_call_and_says_goodbye(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        sent, unsent = Followed(channel), Followed(channel)
        peer.connection().streams(1)
        unsent = Followed(channel)
        channel.close()
        channel.close()
        for each in (sent, unsent):
            assert each.drain() == []
            assert each.status.code == "UNAVAILABLE"
            assert "the channel was closed" in each.status.message
        assert Followed(channel).status == Status("UNAVAILABLE", "the channel was closed")
        peer.connection().wait_for_end()
        assert len(peer.connection().of(GoAwayFrame)) == 1


def test_a_peer_that_does_not_read_holds_up_writes_only(
    to: To, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(frames.settings(INITIAL_WINDOW_SIZE=2**30) + frames.window(0, 2**30)) as peer:
        channel = to(peer.address)
        first = Followed(channel)
        connection = peer.connection()
        connection.streams()
        connection.reading = False
        large = Followed(channel, bytes(20_000_000))
        wait_until(lambda: channel.counts()["stalls"] > 0, "the stall")
        serve(connection, 1)
        assert is_served(first)
        connection.reading = True
        assert connection.streams(2) == [1, 3]
        serve(connection, 3)
        assert is_served(large)


def test_a_peer_with_calls_to_answer_is_pinged_and_given_up_if_silent() -> None:
    options = ChannelOptions(keepalive=0.05, keepalive_timeout=DEADLINE)
    with Peer() as peer, closing(Http2Channel(parse_endpoint(peer.address), options)) as channel:
        first = Followed(channel)
        connection = peer.connection()
        connection.streams()
        serve(connection, 1)
        assert is_served(first)
        gevent.sleep(0.12)
        # An idle connection is left in peace.
        assert not connection.of(PingFrame)
        followed = Followed(channel)

        def pings() -> list[bytes]:
            return [ping.opaque_data for ping in connection.of(PingFrame)]

        for answered in range(2):
            wait_until(lambda count=answered: len(pings()) > count, "a ping")  # type: ignore[misc]
            connection.send(PingFrame(0, pings()[answered], flags=["ACK"]).serialize())
        assert followed.call.status is None
        assert followed.drain() == []
        assert followed.status.code == "UNAVAILABLE"
        assert "does not answer pings" in followed.status.message


def test_pings_are_as_rare_as_servers_want_them() -> None:
    # gRPC's C core, with defaults, takes a ping each 300 seconds, and two more.
    assert ChannelOptions().keepalive > 300
