"""The bodies of the endpoints that make ids of text, and text of ids."""

from __future__ import annotations

import msgspec

from sglrouter.schema.json_bounds import JsonBounds, decode_bounded


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A text, several, or a conversation.

    Attributes:
        prompt: The text or texts.
        messages: Whether there is a conversation; the rest of such a body is a ChatRequest.
        add_special_tokens: Whether the special tokens at a text's ends are added; None is
            yes for texts, and no for conversations, whose template writes them.
        return_token_strs: Whether to tell each token's text, too.
    """

    model: str | None = None
    lora_path: str | None = None
    prompt: str | list[str] | None = None
    messages: msgspec.Raw = msgspec.Raw()
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None

    @property
    def is_conversation(self) -> bool:
        """Whether the body holds messages."""
        return bytes(self.messages) not in (b"", b"null")


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of a text, or of several."""

    model: str | None = None
    lora_path: str | None = None
    tokens: list[int | list[int]]
    skip_special_tokens: bool | None = None


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
