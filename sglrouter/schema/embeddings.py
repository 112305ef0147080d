"""The bodies of the endpoints that turn texts into vectors or classes, and their answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sglrouter.schema.json_bounds import JsonBounds, decode_bounded
from sglrouter.schema.sampling import REFUSED_MARK, Ignored, Refused, marked

# A text, texts, ids, or lists of ids; SGLang's objects with media are told apart later.
Input = str | list[str | int | list[int] | dict[str, Any]]

_INPUT = Meta(description="A text, a list of texts, a list of token ids, or a list of such lists.")
_MODEL = Meta(description="The model's name; left out, the model that is served.")


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for embeddings."""

    input: Annotated[Input, _INPUT]
    model: Annotated[str | None, _MODEL] = None
    encoding_format: Annotated[
        Literal["float", "base64"] | None,
        Meta(description="`base64` is of little-endian 32-bit floats."),
    ] = None
    dimensions: Annotated[
        int | None,
        Meta(
            description="Length of the vectors, for a Matryoshka model.",
            extra_json_schema={"minimum": 1},
        ),
    ] = None
    user: Ignored = None
    rid: Ignored = None
    priority: Ignored = None
    lora_path: Annotated[str | None, REFUSED_MARK] = None
    embed_overrides: Refused = None
    embed_override_token_id: Refused = None


class ClassifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for the classes of texts."""

    input: Annotated[Input, _INPUT]
    model: Annotated[str | None, _MODEL] = None
    user: Ignored = None
    rid: Ignored = None
    priority: Ignored = None
    lora_path: Annotated[str | None, REFUSED_MARK] = None


class EncodeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """SGLang's own request for what a model makes of texts: vectors, logits or rewards."""

    text: Annotated[str | list[str] | None, Meta(description="A text or texts.")] = None
    input_ids: Annotated[
        list[int | list[int]] | None, Meta(description="Token ids, or lists of them.")
    ] = None
    rid: Annotated[
        str | list[str] | None, Meta(description="Comes back as the id of each answer.")
    ] = None
    dimensions: Annotated[
        int | None,
        Meta(
            description="Length of the vectors, for a Matryoshka model.",
            extra_json_schema={"minimum": 1},
        ),
    ] = None
    model: Annotated[str | None, _MODEL] = None
    lora_path: Annotated[str | None, REFUSED_MARK] = None
    priority: Ignored = None
    image_data: Refused = None
    video_data: Refused = None
    audio_data: Refused = None
    input_embeds: Refused = None
    is_cross_encoder_request: Refused = None
    return_pooled_hidden_states: Refused = None


REFUSED_IN_EMBEDDINGS = marked(EmbeddingRequest, REFUSED_MARK)
REFUSED_IN_CLASSIFY = marked(ClassifyRequest, REFUSED_MARK)
REFUSED_IN_ENCODE = marked(EncodeRequest, REFUSED_MARK)


class PromptUsage(msgspec.Struct, forbid_unknown_fields=True):
    """Token counts where nothing is generated."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingItem(msgspec.Struct, forbid_unknown_fields=True):
    """The vector of one input."""

    object: Literal["embedding"]
    index: Annotated[int, Meta(description="The input's place in the request.")]
    embedding: list[float] | str


class EmbeddingList(msgspec.Struct, forbid_unknown_fields=True):
    """The vectors of all inputs, in their order."""

    object: Literal["list"]
    data: list[EmbeddingItem]
    model: str
    usage: PromptUsage


class ClassifiedItem(msgspec.Struct, forbid_unknown_fields=True):
    """The class of one input."""

    index: int
    label: Annotated[str, Meta(description="The likeliest class.")]
    probs: Annotated[list[float], Meta(description="The probability of each class.")]
    num_classes: int


class ClassifyUsage(PromptUsage, forbid_unknown_fields=True):
    """Token counts with SGLang's further fields."""

    completion_tokens: int
    prompt_tokens_details: None


class ClassifiedList(msgspec.Struct, forbid_unknown_fields=True):
    """The classes of all inputs, in their order."""

    id: str
    object: Literal["list"]
    created: Annotated[int, Meta(description="Unix time in seconds.")]
    model: str
    data: list[ClassifiedItem]
    usage: ClassifyUsage


class Encoded(msgspec.Struct, forbid_unknown_fields=True):
    """What the model made of one text."""

    embedding: list[float]
    meta_info: dict[str, Any]


_embedding_decoder = msgspec.json.Decoder(EmbeddingRequest, strict=False)
_classify_decoder = msgspec.json.Decoder(ClassifyRequest, strict=False)
_encode_decoder = msgspec.json.Decoder(EncodeRequest, strict=False)


def decode_embedding_request(body: bytes, bounds: JsonBounds) -> EmbeddingRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_embedding_decoder, body, bounds)


def decode_classify_request(body: bytes, bounds: JsonBounds) -> ClassifyRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_classify_decoder, body, bounds)


def decode_encode_request(body: bytes, bounds: JsonBounds) -> EncodeRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_encode_decoder, body, bounds)
