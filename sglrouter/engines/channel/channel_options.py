"""What can be set on a channel, with the values that serving uses."""

from __future__ import annotations

import msgspec


class ChannelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a channel looks after its connection, and how far its calls read ahead.

    Servers of gRPC's C core, with defaults, take a ping each 300 seconds, and two more
    that come sooner; then they end the connection.

    Attributes:
        keepalive: Seconds between the pings of a connection with calls under way.
        keepalive_timeout: Seconds until a connection without an answer is given up.
        read_ahead: Most messages of a call that wait to be taken, of grpcio's channel.
        window: The same in bytes, of the native channel. A token's message has some 50
            bytes: this is far ahead of any reader, and little to hold for one that stalls.
    """

    keepalive: float = 310.0
    keepalive_timeout: float = 20.0
    read_ahead: int = 256
    window: int = 256 * 1024
