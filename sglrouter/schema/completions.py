"""The body of POST /v1/completions.

OpenAI's fields and SGLang's extensions. A prompt is text or ids, one or several; which of
its four forms it has is told apart later, where texts become ids. Unknown fields are
accepted.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sglrouter.errors import BadRequest
from sglrouter.schema.json_bounds import JsonBounds, check_text_shape, decode_bounded
from sglrouter.schema.sampling import SamplingRequest

_BOUNDS = JsonBounds()

# OpenAI's and SGLang's.
DEFAULT_MAX_TOKENS = 16

_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
_PROMPT = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        _IDS,
        {"type": "array", "items": _IDS, "minItems": 1},
    ]
}


class CompletionRequest(SamplingRequest, frozen=True, kw_only=True):
    """A request for the continuation of texts."""

    prompt: Annotated[
        str | list[str | int | list[int]],
        Meta(
            description="A text, several, the token ids of one, or those of several.",
            extra_json_schema={"allOf": [_PROMPT]},
        ),
    ]
    suffix: Annotated[
        str | None,
        Meta(
            description="Refused, unless it is empty: models are shown the prompt alone.",
            extra_json_schema={"maxLength": 0},
        ),
    ] = None

    max_tokens: Annotated[
        int | None,
        Meta(
            description="Most tokens of an answer, 16 if left out; clamped to what is left of "
            "the context. 0 only reads the prompt.",
            extra_json_schema={"minimum": 0},
        ),
    ] = None
    max_completion_tokens: Annotated[
        int | None,
        Meta(
            description="The same; it goes before `max_tokens`.", extra_json_schema={"minimum": 0}
        ),
    ] = None
    best_of: Annotated[
        int | None,
        Meta(
            description="How many answers to make of which the `n` best are returned; `n` if "
            "left out, and always in a stream.",
            extra_json_schema={"minimum": 1},
        ),
    ] = None
    echo: Annotated[
        bool | None, Meta(description="Whether the prompt comes before the answer.")
    ] = None
    logprobs: Annotated[
        int | None,
        Meta(
            description="To return the log probability of each token and that many of the "
            "likeliest in its place; 0 to 20.",
            extra_json_schema={"minimum": 0, "maximum": 20},
        ),
    ] = None
    json_schema: Annotated[
        str | dict[str, Any] | None,
        Meta(description="A JSON Schema that the answer follows, as a string or an object."),
    ] = None

    def own_name(self, field: str) -> str:
        """What the client calls a field, given its neutral name or a path to what is in it."""
        if self.json_schema is not None:
            for neutral in ("response_format.json_schema.schema", "response_format"):
                if field.startswith(neutral):
                    return f"json_schema{field[len(neutral) :]}"
        return field


_decoder = msgspec.json.Decoder(CompletionRequest, strict=False)


def decode_completion_request(body: bytes, bounds: JsonBounds = _BOUNDS) -> CompletionRequest:
    """Reads a request body.

    json_schema is SGLang's name for what response_format also says; where it is given,
    response_format has it.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    request = decode_bounded(_decoder, body, bounds)
    if request.json_schema is None:
        return request
    if request.response_format is not None and request.response_format.get("type") != "text":
        raise BadRequest(
            "An answer can have one grammar, but response_format and json_schema are given: "
            "leave one of them out",
            param="json_schema",
        )
    schema = request.json_schema
    if isinstance(schema, str):
        schema = _object_in(schema, bounds)
    return msgspec.structs.replace(
        request, response_format={"type": "json_schema", "json_schema": {"schema": schema}}
    )


def _object_in(text: str, bounds: JsonBounds) -> dict[str, Any]:
    check_text_shape(text, "json_schema", bounds)
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as exc:
        raise BadRequest(
            f"json_schema is not a JSON object: {exc}", code="invalid_json", param="json_schema"
        ) from exc
