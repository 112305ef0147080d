"""Requests as gunicorn's worker reads them, with a short way for plain heads.

gunicorn's parser in Python takes a fifth of a small request's time. Heads that every
parser reads the same way are read in compiled code; any other one goes to gunicorn's
parser, which also says what is wrong with it. The rules that depend on configuration
or on the peer, and everything about bodies, stay gunicorn's in both cases.
"""

from __future__ import annotations

from typing import Any

import gunicorn.http.parser
from gunicorn.http.message import Request
from gunicorn.http.parser import RequestParser

from sglrouter._fast.head import parse_head
from sglrouter.server.body_intake import Bodies, BodyUnreader

# Fields that gunicorn has rules for besides how they are written.
_WITH_RULES = frozenset({"EXPECT"})


class QuickRequest(Request):  # type: ignore[misc]  # gunicorn has no types
    """A gunicorn request that reads a plain head in compiled code."""

    def _parse_python(self, unreader: Any, buf: bytearray) -> bytes:
        """Reads the head in `buf`; returns what follows it."""
        data = bytes(buf)
        limit = self.limit_request_line or len(data)
        parsed = parse_head(data, limit, self.limit_request_fields, self.limit_request_field_size)
        if parsed is None:
            rest: bytes = super()._parse_python(unreader, buf)
            return rest
        self.method, self.uri, self.path, self.query, headers, size = parsed
        self.fragment = ""
        self.version = (1, 1)
        names = {name for name, _ in headers}
        if (
            len(names) < len(headers)
            or not names.isdisjoint(_WITH_RULES)
            or not names.isdisjoint(self.cfg.secure_scheme_headers)
        ):
            headers = self._by_the_rules(headers)
        self.headers = headers
        return data[size:]

    def _by_the_rules(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Applies gunicorn's rules about single fields."""
        trusted = self._peer_trusted_for_forwarded()
        scheme_state: list[bool] = [False]
        seen: set[str] = set()
        kept = (
            self._apply_header_policy(name, value, scheme_state, seen, *trusted)
            for name, value in headers
        )
        return [field for field in kept if field is not None]


def use_quick_requests() -> None:
    """Makes gunicorn's workers of this process read requests the short way."""
    RequestParser.mesg_class = QuickRequest


def use_body_bounds(bodies: Bodies) -> None:
    """Makes gunicorn's workers of this process read bodies within bounds."""
    BodyUnreader.bodies = bodies
    gunicorn.http.parser.SocketUnreader = BodyUnreader
