"""Which kind of channel leads to an engine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from gevent.monkey import is_module_patched

from sglrouter.endpoint import Endpoint
from sglrouter.engines.channel.channel import Channel, ChannelOptions
from sglrouter.engines.channel.grpcio import GrpcioChannel
from sglrouter.errors import ConfigError

logger = logging.getLogger(__name__)

_DEFAULTS = ChannelOptions()

HOW_TO_GET_HTTP2 = (
    "the native channel is not built, and grpcio takes many times its CPU: install libnghttp2 "
    "with its headers (Debian: apt-get install libnghttp2-dev pkg-config) and reinstall sglrouter"
)


def http2_is_built() -> bool:
    """Whether the extension that the native channel needs is there."""
    try:
        import sglrouter._fast.h2  # noqa: F401
    except ImportError:
        return False
    return True


def connector(kind: str, options: ChannelOptions = _DEFAULTS) -> Callable[[Endpoint], Channel]:
    """Returns what makes channels of a kind.

    Args:
        kind: "native", "grpcio", or "auto" for the first that fits.
        options: What is set on each.

    Raises:
        ConfigError: "native" is asked for and is not built.
    """
    built = http2_is_built()
    if kind == "native" and not built:
        raise ConfigError(f"channel: {HOW_TO_GET_HTTP2}")
    if kind == "auto" and not built:
        logger.warning("%s", HOW_TO_GET_HTTP2)
    if kind == "grpcio" or not built:
        return partial(GrpcioChannel, options=options)

    def connect(endpoint: Endpoint) -> Channel:
        from sglrouter.engines.channel.http2 import Http2Channel

        if not endpoint.tls and is_module_patched("threading"):
            return Http2Channel(endpoint, options)
        if kind == "native":
            why = (
                f"does not speak TLS, which {endpoint} needs"
                if endpoint.tls
                else "needs gevent, for which this process is not patched"
            )
            raise ConfigError(f"channel: native {why}")
        return GrpcioChannel(endpoint, options)

    return connect
