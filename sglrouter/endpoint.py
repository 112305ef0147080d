"""Where an engine is, as settings write it."""

from __future__ import annotations

import re
from typing import NamedTuple


class Endpoint(NamedTuple):
    """Where an engine is, and whether TLS is spoken to it."""

    host: str
    port: int
    tls: bool

    @property
    def target(self) -> str:
        """HOST:PORT, with brackets round an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{'grpcs' if self.tls else 'grpc'}://{self.target}"


_ENDPOINT = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<name>[^\s:/@?#,\[\]]+)):(?P<port>[0-9]{1,5})/?"
)


def parse_endpoint(text: str) -> Endpoint:
    """Reads grpc://HOST:PORT, grpcs://HOST:PORT or HOST:PORT.

    An IPv6 address stands in brackets.

    Raises:
        ValueError: The text is none of them.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "grpc", text
    if scheme not in ("grpc", "grpcs"):
        raise ValueError(f"{text!r} should begin with grpc:// or grpcs://")
    found = _ENDPOINT.fullmatch(rest)
    if found is None:
        raise ValueError(f"{text!r} should be grpc://HOST:PORT")
    port = int(found["port"])
    if not 1 <= port <= 65535:
        raise ValueError(f"{text!r} has a port outside 1 to 65535")
    return Endpoint(found["ipv6"] or found["name"], port, scheme == "grpcs")
