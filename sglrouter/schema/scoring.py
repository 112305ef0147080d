"""The bodies of the endpoints that score and rank texts, and their answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sglrouter.schema.embeddings import PromptUsage
from sglrouter.schema.json_bounds import JsonBounds, decode_bounded
from sglrouter.schema.sampling import REFUSED_MARK, Ignored, Refused, marked

# A text, or a message's parts, of which those of type "text" can be served.
Content = str | list[dict[str, Any]]


class ScoreRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for the probabilities of tokens after a query and each item."""

    query: Annotated[
        str | list[int] | None, Meta(description="A text, or token ids if the items are.")
    ] = None
    items: Annotated[
        str | list[str | list[int]] | None, Meta(description="Texts, or lists of token ids.")
    ] = None
    label_token_ids: Annotated[
        list[int | list[int]] | None,
        Meta(
            description="The tokens to score: the same for all items, or a list for each. "
            "A classification model scores its classes without."
        ),
    ] = None
    apply_softmax: Annotated[
        bool | None, Meta(description="Whether the scores of an item shall add up to one.")
    ] = None
    temperature: Annotated[
        float | None,
        Meta(
            description="Divides log probabilities before the softmax.",
            extra_json_schema={"exclusiveMinimum": 0},
        ),
    ] = None
    return_token_logprobs: Annotated[
        bool | None, Meta(description="Whether to tell the log probabilities, too.")
    ] = None
    item_first: Annotated[
        bool | None, Meta(description="Whether each item comes before the query.")
    ] = None
    model: Annotated[
        str | None, Meta(description="The model's name; left out, the model that is served.")
    ] = None
    lora_path: Annotated[str | None, Meta(description="The name of a LoRA adapter.")] = None
    user: Ignored = None
    score_extraction_token: Refused = None
    return_pooled_hidden_states: Refused = None
    embed_override_token_id: Refused = None
    query_embed_overrides: Refused = None
    item_embed_overrides: Refused = None


REFUSED_IN_SCORE = marked(ScoreRequest, REFUSED_MARK)


class RerankRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for the order of documents by how well they fit a query."""

    query: Annotated[Content, Meta(description="A text, or parts of type `text`.")]
    documents: Annotated[list[Content], Meta(description="Each a text, or parts of type `text`.")]
    instruct: Annotated[
        str | None, Meta(description="What fitting means; the template has a default.")
    ] = None
    top_n: Annotated[
        int | None,
        Meta(description="How many of the best to return.", extra_json_schema={"minimum": 1}),
    ] = None
    top_k: Annotated[
        int | None,
        Meta(description="Another name of `top_n`.", extra_json_schema={"minimum": 1}),
    ] = None
    return_documents: Annotated[
        bool | None, Meta(description="False leaves the documents out of the answer.")
    ] = None
    model: Annotated[
        str | None, Meta(description="The model's name; left out, the model that is served.")
    ] = None
    lora_path: Annotated[str | None, Meta(description="The name of a LoRA adapter.")] = None
    rid: Annotated[
        str | list[str] | None, Meta(description="Comes back as the id of an answer of /rerank.")
    ] = None
    user: Ignored = None


class CohereDocument(msgspec.Struct, frozen=True):
    """A document in an object."""

    text: str


class CohereRerankRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for an order of documents in Cohere's form."""

    query: Annotated[str, Meta(description="A text.")]
    documents: Annotated[
        list[str | CohereDocument], Meta(description="Each a text, or an object with one.")
    ]
    top_n: Annotated[
        int | None,
        Meta(description="How many of the best to return.", extra_json_schema={"minimum": 1}),
    ] = None
    return_documents: Annotated[
        bool | None, Meta(description="True shows the documents in the answer.")
    ] = None
    model: Annotated[
        str | None, Meta(description="The model's name; left out, the model that is served.")
    ] = None
    instruct: Annotated[
        str | None, Meta(description="What fitting means; the template has a default.")
    ] = None
    max_tokens_per_doc: Ignored = None
    priority: Ignored = None

    def shared_form(self) -> RerankRequest:
        """The same request as the other paths take it."""
        return RerankRequest(
            query=self.query,
            documents=[each if isinstance(each, str) else each.text for each in self.documents],
            instruct=self.instruct,
            top_n=self.top_n,
            return_documents=bool(self.return_documents),
            model=self.model,
        )


class Scores(msgspec.Struct, forbid_unknown_fields=True):
    """A row of scores for each item."""

    object: Literal["scoring"]
    model: str
    scores: Annotated[list[list[float]], Meta(description="In the order of the labels.")]
    token_logprobs: Annotated[
        list[list[float]] | None, Meta(description="-9999 for a probability of zero.")
    ]
    pooled_hidden_states: None
    usage: PromptUsage


class RankedDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A document and how well it fits."""

    score: Annotated[float, Meta(description="Between 0 and 1.")]
    index: Annotated[int, Meta(description="The document's place in the request.")]
    relevance_score: Annotated[
        float | UnsetType, Meta(description="The score as most clients call it.")
    ] = UNSET
    document: str | UnsetType = UNSET
    meta_info: dict[str, Any] | UnsetType | None = UNSET


class Ranking(msgspec.Struct, forbid_unknown_fields=True):
    """The documents, best first, as SGLang's gateways tell it."""

    object: Literal["rerank"]
    id: str | list[str] | None
    created: Annotated[int, Meta(description="Unix time in seconds.")]
    model: str
    results: list[RankedDocument]
    usage: PromptUsage


class CohereRankedDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A document and how well it fits, as Cohere tells it."""

    index: Annotated[int, Meta(description="The document's place in the request.")]
    relevance_score: Annotated[float, Meta(description="Between 0 and 1.")]
    document: CohereDocument | UnsetType = UNSET


class CohereRanking(msgspec.Struct, forbid_unknown_fields=True):
    """The documents, best first, as Cohere tells it."""

    id: str
    results: list[CohereRankedDocument]
    meta: Annotated[dict[str, Any], Meta(description="`tokens` has the counts.")]


_cohere_rerank_decoder = msgspec.json.Decoder(CohereRerankRequest, strict=False)
_score_decoder = msgspec.json.Decoder(ScoreRequest, strict=False)
_rerank_decoder = msgspec.json.Decoder(RerankRequest, strict=False)


def decode_score_request(body: bytes, bounds: JsonBounds) -> ScoreRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_score_decoder, body, bounds)


def decode_rerank_request(body: bytes, bounds: JsonBounds) -> RerankRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_rerank_decoder, body, bounds)


def decode_cohere_rerank_request(body: bytes, bounds: JsonBounds) -> CohereRerankRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_cohere_rerank_decoder, body, bounds)
