"""The bodies of the endpoints that read a text as a model's output."""

from __future__ import annotations

from typing import Any

import msgspec

from sglrouter.schema.json_bounds import JsonBounds, decode_bounded


class ParseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A text to read.

    Attributes:
        text: The text.
        parser: The format's name; SGLang calls the field as in the next two.
        tools: The tools whose calls may be in it.
    """

    text: str
    parser: str | None = None
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    tools: list[dict[str, Any]] = []


_decoder = msgspec.json.Decoder(ParseRequest, strict=False)


def decode_parse_request(body: bytes, bounds: JsonBounds) -> ParseRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_decoder, body, bounds)
