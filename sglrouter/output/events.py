"""The server-sent events that end a stream, whatever it is a stream of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sglrouter._fast.sse import escape_line_ends
from sglrouter.errors import RouterError

DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


def event(document: object) -> bytes:
    """An event whose data is a document in JSON."""
    return b"data: " + escape_line_ends(_encode(document)) + b"\n\n"


def usage_event(head: Mapping[str, Any], usage: Mapping[str, Any]) -> bytes:
    """The event of token counts: a chunk without choices.

    Args:
        head: The chunk's first fields.
        usage: OpenAI's usage object.
    """
    return event({**head, "choices": [], "usage": usage})


def with_usage(events: bytes, usage: Mapping[str, Any]) -> bytes:
    """Events of chunks, each with token counts in it."""
    # Nothing but the end of an event has a line end: in JSON they are escaped.
    return events.replace(b"}\n\n", b',"usage":' + _encode(usage) + b"}\n\n")


def error_events(error: RouterError) -> bytes:
    """The last events of a stream that broke: clients look for `error`."""
    return b"data: " + escape_line_ends(error.body()) + b"\n\n" + DONE
