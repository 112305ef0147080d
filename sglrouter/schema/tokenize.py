"""The bodies of the endpoints that make ids of text, and text of ids."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sglrouter.schema.json_bounds import JsonBounds, decode_bounded

_Model = Annotated[str | None, Meta(description="The name of the model, which has the tokenizer.")]
_Adapter = Annotated[str | None, Meta(description="The name of an adapter; changes nothing.")]


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A text, several, or a conversation."""

    model: _Model = None
    lora_path: _Adapter = None
    prompt: Annotated[
        str | list[str] | None, Meta(description="The text or texts; instead of `messages`.")
    ] = None
    # Of a body that has them the rest is a ChatRequest.
    messages: Annotated[
        msgspec.Raw | UnsetType,
        Meta(
            description="A conversation; any field of a chat completion may stand beside it.",
            extra_json_schema={"type": ["array", "null"], "items": {"type": "object"}},
        ),
    ] = UNSET
    add_special_tokens: Annotated[
        bool | None,
        Meta(
            description="Whether the special tokens at a text's ends are added; by default for "
            "texts, and not for conversations, whose template has written them."
        ),
    ] = None
    return_token_strs: Annotated[
        bool | None, Meta(description="Whether to tell the text of each token, too.")
    ] = None

    @property
    def is_conversation(self) -> bool:
        """Whether the body holds messages."""
        return self.messages is not UNSET and bytes(self.messages) != b"null"


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of a text, or of several."""

    model: _Model = None
    lora_path: _Adapter = None
    tokens: Annotated[
        list[int | list[int]], Meta(description="Ids, or a list of ids for each text.")
    ]
    skip_special_tokens: Annotated[
        bool | None, Meta(description="Whether special tokens are left out; true by default.")
    ] = None


_tokenize_decoder = msgspec.json.Decoder(TokenizeRequest, strict=False)
_detokenize_decoder = msgspec.json.Decoder(DetokenizeRequest, strict=False)


def decode_tokenize_request(body: bytes, bounds: JsonBounds) -> TokenizeRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_tokenize_decoder, body, bounds)


def decode_detokenize_request(body: bytes, bounds: JsonBounds) -> DetokenizeRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_detokenize_decoder, body, bounds)
