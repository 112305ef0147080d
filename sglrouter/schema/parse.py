"""The bodies of the endpoints that read a text as a model's output."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sglrouter.schema import shapes
from sglrouter.schema.json_bounds import JsonBounds, decode_bounded

# With or without the wrapper round the function.
_TOOL = {"anyOf": [shapes.TOOL, shapes.FUNCTION]}


class ParseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A text to read; SGLang calls the parser as the last two fields do."""

    text: Annotated[str, Meta(description="The text, as the model wrote it.")]
    parser: Annotated[
        str | None, Meta(description="The format's name; left out, the format of the model.")
    ] = None
    tools: Annotated[
        list[dict[str, Any]],
        Meta(description="The tools whose calls may be in it.", extra_json_schema={"items": _TOOL}),
    ] = []
    tool_call_parser: Annotated[str | None, Meta(description="The same as `parser`.")] = None
    reasoning_parser: Annotated[str | None, Meta(description="The same as `parser`.")] = None


_decoder = msgspec.json.Decoder(ParseRequest, strict=False)


def decode_parse_request(body: bytes, bounds: JsonBounds) -> ParseRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_decoder, body, bounds)
