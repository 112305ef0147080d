"""Channels under test. One suite, run against every kind of channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sglrouter.backend.channel import Channel
from sglrouter.backend.grpcio import GrpcioChannel
from sglrouter.config import parse_endpoint

KINDS = {"grpcio": GrpcioChannel}

Connect = Callable[[str], Channel]


@pytest.fixture(params=sorted(KINDS))
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Opens channels to HOST:PORT that are closed after the test."""
    channels: list[Channel] = []

    def open_channel(address: str) -> Channel:
        channels.append(KINDS[request.param](parse_endpoint(address)))
        return channels[-1]

    yield open_channel
    for channel in channels:
        channel.close()
