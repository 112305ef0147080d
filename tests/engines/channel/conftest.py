"""Native channels under test, in processes that gevent has patched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from sglrouter.endpoint import parse_endpoint

if TYPE_CHECKING:
    from sglrouter.engines.channel.http2 import Http2Channel

To = Callable[[str], "Http2Channel"]


@pytest.fixture
def to() -> Iterator[To]:
    """Makes native channels to HOST:PORT that are closed after the test."""
    from sglrouter.engines.channel.http2 import Http2Channel

    channels: list[Http2Channel] = []

    def make(address: str) -> Http2Channel:
        channels.append(Http2Channel(parse_endpoint(address)))
        return channels[-1]

    yield make
    for channel in channels:
        channel.close()
