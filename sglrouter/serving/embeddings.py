"""Embeddings and classes: what a model without a language head makes of texts.

One call an input: that is what engines take over gRPC, and they batch on their own.
Engines never answer what is too long, nor say in plain words that they generate, so both
are checked here.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sglrouter.engines.channel.channel import Metadata
from sglrouter.engines.wire.control_messages import EMBED, embed_request, read_embedding
from sglrouter.engines.wire.scheduler import EngineFacts, new_request_id
from sglrouter.errors import BadRequest, RouterError
from sglrouter.output.head import Head
from sglrouter.output.vectors import ClassBody, EmbeddingBody, EncodedBody, VectorBody
from sglrouter.prompt.model_files import read_json_object
from sglrouter.request.inputs import ids_of, inputs_of
from sglrouter.schema.embeddings import (
    REFUSED_IN_CLASSIFY,
    REFUSED_IN_EMBEDDINGS,
    REFUSED_IN_ENCODE,
    EncodeRequest,
    decode_classify_request,
    decode_embedding_request,
    decode_encode_request,
)
from sglrouter.serving.batch import BatchAnswer, refuse_given
from sglrouter.serving.models import Named
from sglrouter.serving.service import Service

# How an engine says that it generates.
_GENERATES = "'embedding'"

_NOT_ON_THE_WIRE = "engines cannot be told of it over gRPC"


class VectorServing:
    """Answers with what an embedding, reward or classification model makes of texts.

    Args:
        service: What they are answered with.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        config = read_json_object(service.model.files.directory / "config.json")
        self._matryoshka = Matryoshka(config)
        self._labels = labels_of(config.get("id2label"))

    def embeddings(self, body: bytes, metadata: Metadata = ()) -> BatchAnswer:
        """Answers an EmbeddingRequest.

        Args:
            body: The request as JSON.
            metadata: Request headers for the engine.

        Raises:
            RouterError: The request cannot be served; nothing was sent.
        """
        request = self._service.read(decode_embedding_request, body)
        refuse_given(
            request,
            REFUSED_IN_EMBEDDINGS,
            _NOT_ON_THE_WIRE,
        )
        self._matryoshka.check(request.dimensions)
        inputs = inputs_of(request.input, "input")
        facts = self._facts(request)
        made = EmbeddingBody(
            request.model or self._service.model_name(facts),
            len(inputs),
            base64=request.encoding_format == "base64",
            dimensions=request.dimensions,
        )
        ids = self._ids(inputs, "input", facts)
        ignored = _given(request, ("priority",))
        return self._answer(ids, made, metadata, ignored)

    def classes(self, body: bytes, metadata: Metadata = ()) -> BatchAnswer:
        """Answers a ClassifyRequest; see embeddings()."""
        request = self._service.read(decode_classify_request, body)
        refuse_given(request, REFUSED_IN_CLASSIFY, _NOT_ON_THE_WIRE)
        inputs = inputs_of(request.input, "input")
        facts = self._facts(request)
        head = Head(
            f"classify-{new_request_id()}",
            int(time.time()),
            request.model or self._service.model_name(facts),
        )
        made = ClassBody(head, len(inputs), self._labels or _told_labels(facts))
        ids = self._ids(inputs, "input", facts)
        return self._answer(ids, made, metadata, _given(request, ("priority",)))

    def encoded(self, body: bytes, metadata: Metadata = ()) -> BatchAnswer:
        """Answers an EncodeRequest; see embeddings()."""
        request = self._service.read(decode_encode_request, body)
        refuse_given(
            request,
            REFUSED_IN_ENCODE,
            _NOT_ON_THE_WIRE,
        )
        self._matryoshka.check(request.dimensions)
        field = "text" if request.text is not None else "input_ids"
        value: str | Sequence[Any] | None = getattr(request, field)
        if value is None or (request.text is not None and request.input_ids is not None):
            raise BadRequest("Give either text or input_ids", param="text")
        inputs = inputs_of(value, field)
        many = not isinstance(value, str) and not isinstance(value[0], int)
        facts = self._facts(request)
        made = EncodedBody(
            _names(request, len(inputs)),
            many=many,
            facts={"weight_version": facts.weight_version or "default"},
            dimensions=request.dimensions,
        )
        ids = self._ids(inputs, field, facts)
        return self._answer(ids, made, metadata, _given(request, ("priority",)))

    def _facts(self, request: Named) -> EngineFacts:
        facts = self._service.facts()
        if self._service.adapter(request, facts):
            raise BadRequest(
                f"LoRA adapters cannot be used here: {_NOT_ON_THE_WIRE}",
                code="unsupported_parameter",
                param="model",
            )
        if facts.generates:
            raise _no_embeddings()
        return facts

    def _ids(self, inputs: Any, field: str, facts: EngineFacts) -> list[Sequence[int]]:
        return ids_of(
            inputs,
            field,
            encoder=self._service.model.prompts.encoder,
            limits=self._service.limits(facts),
            pause=self._service.pause,
        )

    def _answer(
        self,
        ids: Sequence[Sequence[int]],
        made: VectorBody,
        metadata: Metadata,
        ignored: Sequence[str],
    ) -> BatchAnswer:
        return BatchAnswer(
            self._service.ask(EMBED, embed_requests(ids), ids, metadata),
            vector_reader(made.add),
            made.body,
            pause=self._service.pause,
            explain=explain_embedding,
            ignored=ignored,
        )


class Matryoshka:
    """What lengths of its embeddings a model was trained for.

    Args:
        config: Its config.json.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        lengths = config.get("matryoshka_dimensions")
        self._lengths: list[int] = []
        if isinstance(lengths, list):
            self._lengths = [each for each in lengths if isinstance(each, int)]
        self._any = bool(self._lengths) or config.get("is_matryoshka") is True

    def check(self, dimensions: int | None) -> None:
        """Refuses a length that would lead to poor results, as SGLang does.

        Raises:
            BadRequest: The model was not trained for it.
        """
        if dimensions is None:
            return
        if dimensions < 1:
            wanted = f"dimensions must be at least 1, not {dimensions}"
        elif not self._any:
            wanted = (
                "dimensions cannot be chosen: this model's config.json does not say that it makes "
                "Matryoshka embeddings (is_matryoshka, matryoshka_dimensions)"
            )
        elif self._lengths and dimensions not in self._lengths:
            known = ", ".join(map(str, self._lengths))
            wanted = f"dimensions must be one of {known} for this model, not {dimensions}"
        else:
            return
        raise BadRequest(wanted, code="invalid_value", param="dimensions")


def embed_requests(ids: Sequence[Sequence[int]]) -> list[bytes]:
    """An EmbedRequest for each input."""
    return [embed_request(new_request_id(), each) for each in ids]


def vector_reader(
    add: Callable[[int, array[float], int], None],
) -> Callable[[int, bytes], None]:
    """What reads the answers to embed_requests(), for a BatchAnswer."""

    def read(number: int, message: bytes) -> None:
        add(number, *read_embedding(message))

    return read


def explain_embedding(error: RouterError) -> RouterError:
    """Says in plain words what an engine means that generates."""
    if error.code == "engine_error" and error.message.endswith(_GENERATES):
        return _no_embeddings()
    return error


def labels_of(id2label: object) -> list[str]:
    """The labels of id2label in the order of their numbers; none unless all are there."""
    if not isinstance(id2label, dict):
        return []
    try:
        numbered = {int(number): str(label) for number, label in id2label.items()}
    except ValueError:
        return []
    if sorted(numbered) != list(range(len(numbered))):
        return []
    return [numbered[i] for i in range(len(numbered))]


def _told_labels(facts: EngineFacts) -> list[str]:
    try:
        return labels_of(msgspec.json.decode(facts.id2label_json or "{}"))
    except msgspec.DecodeError:
        return []


def _no_embeddings() -> BadRequest:
    return BadRequest(
        "This model generates text and makes no embeddings: its engine would have to be started "
        "with --is-embedding",
        code="unsupported_model",
        param="model",
    )


def _given(request: object, fields: Sequence[str]) -> list[str]:
    """Which of the fields that nothing is done about are there."""
    return [field for field in fields if getattr(request, field) is not None]


def _names(request: EncodeRequest, count: int) -> list[str]:
    """The client's names for its inputs, or new ones."""
    given = request.rid
    if isinstance(given, str) and count == 1:
        return [given]
    if isinstance(given, list) and len(given) == count:
        return given
    if given is not None:
        raise BadRequest(
            f"rid must name each of the {count} inputs", code="invalid_value", param="rid"
        )
    return [new_request_id() for _ in range(count)]
