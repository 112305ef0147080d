"""Scores of items, by what a model would say after each.

A generation model is asked how likely labels are in the place of the next token. A
classification model's logits are scores as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sglrouter.engines.channel.channel import Metadata
from sglrouter.engines.wire.control_messages import EMBED
from sglrouter.errors import BadRequest
from sglrouter.output.scores import ScoreBody
from sglrouter.request.ids import ANY_ID, check_ids
from sglrouter.request.inputs import ids_of, inputs_of
from sglrouter.request.limits import Limits
from sglrouter.schema.scoring import REFUSED_IN_SCORE, ScoreRequest, decode_score_request
from sglrouter.serving.batch import BatchAnswer, refuse_given
from sglrouter.serving.embeddings import embed_requests, explain_embedding, vector_reader
from sglrouter.serving.next_tokens import next_tokens
from sglrouter.serving.service import Service

# Labels of all items together.
MAX_SCORES = 1_000_000


class ScoreServing:
    """Scores items.

    Args:
        service: What they are scored with.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def start(self, body: bytes, metadata: Metadata = ()) -> BatchAnswer:
        """Answers a ScoreRequest.

        Args:
            body: The request as JSON.
            metadata: Request headers for the engine.

        Raises:
            RouterError: The request cannot be served; nothing was sent.
        """
        service = self._service
        request = service.read(decode_score_request, body)
        refuse_given(
            request,
            REFUSED_IN_SCORE,
            "engines cannot be told of it over gRPC",
        )
        temperature = _temperature(request)
        if request.items is None:
            raise BadRequest("items must be given", param="items")
        facts = service.facts()
        lora_id = service.adapter(request, facts)
        limits = service.limits(facts)
        ids = self._prompts(request, limits)
        made = ScoreBody(
            request.model or service.model_name(facts),
            len(ids),
            temperature=temperature,
            tell_logprobs=bool(request.return_token_logprobs),
        )
        if facts.embeds:
            if request.return_token_logprobs:
                raise BadRequest(
                    "return_token_logprobs needs a model that generates text",
                    code="unsupported_parameter",
                    param="return_token_logprobs",
                )
            return BatchAnswer(
                service.ask(EMBED, embed_requests(ids), ids, metadata),
                vector_reader(made.add_logits),
                made.body,
                pause=self._service.pause,
                explain=explain_embedding,
            )
        labels = labels_for(request.label_token_ids, len(ids), limits)
        return next_tokens(
            service,
            ids,
            labels,
            made.add_logprobs,
            made.body,
            lora_id=lora_id,
            metadata=metadata,
            pause=self._service.pause,
        )

    def _prompts(self, request: ScoreRequest, limits: Limits) -> list[Sequence[int]]:
        """The ids of each item with the query, joined as texts or as ids."""
        items = request.items
        if items == []:
            return []
        inputs = inputs_of(items or "", "items")
        as_text = isinstance(inputs[0], str)
        query: Any = request.query
        if query is None:
            query = "" if as_text else []
        elif isinstance(query, str) is not as_text:
            raise BadRequest(
                "query and items must both be text, or both be lists of token ids",
                code="invalid_type",
                param="query",
            )
        if not as_text:
            check_ids(query, ANY_ID, "query")
            query = list(query)
        first = bool(request.item_first)
        return ids_of(
            inputs,
            "items",
            encoder=self._service.model.prompts.encoder,
            limits=limits,
            pause=self._service.pause,
            whole=lambda each: each + query if first else query + each,
        )


def labels_for(
    given: Sequence[int | Sequence[int]] | None, items: int, limits: Limits
) -> list[Sequence[int]]:
    """The labels of each item.

    Args:
        given: One list for all items, or one for each.
        items: How many items there are.
        limits: Bounds of the model: ids past its vocabulary kill an engine.

    Raises:
        BadRequest: They are not that.
    """
    field = "label_token_ids"
    if not given:
        raise BadRequest(f"{field} must be a list of token ids", code="invalid_value", param=field)
    lists = [each for each in given if not isinstance(each, int)]
    if not lists:
        shared: Any = given
        _check_labels(shared, field, limits)
        found: list[Sequence[int]] = [shared] * items
    elif len(lists) != len(given) or len(lists) != items:
        raise BadRequest(
            f"{field} must be one list of token ids, or one for each of the {items} items",
            code="invalid_value",
            param=field,
        )
    else:
        found = lists
        for i, labels in enumerate(found):
            _check_labels(labels, f"{field}[{i}]", limits)
    count = sum(map(len, found))
    if count > MAX_SCORES:
        raise BadRequest(
            f"{count} scores are more than {MAX_SCORES} in one answer. Please send fewer items or "
            "labels.",
            code="invalid_value",
            param=field,
        )
    return found


def _check_labels(labels: Sequence[int], where: str, limits: Limits) -> None:
    if not labels:
        raise BadRequest(f"{where} must not be empty", code="invalid_value", param=where)
    for label in labels:
        if not 0 <= label < limits.vocab_size:
            raise BadRequest(
                f"{where} holds {label}, but ids of this model are from 0 to "
                f"{limits.vocab_size - 1}",
                code="token_out_of_vocabulary",
                param=where,
            )
    if len(set(labels)) != len(labels):
        raise BadRequest(f"{where} must not hold a token twice", code="invalid_value", param=where)


def _temperature(request: ScoreRequest) -> float | None:
    """That of the softmax; None for no softmax."""
    value = 1.0 if request.temperature is None else request.temperature
    if not 0.0 < value < math.inf:
        raise BadRequest(
            f"temperature must be above 0, not {value}", code="invalid_value", param="temperature"
        )
    if not request.apply_softmax:
        if value != 1.0:
            raise BadRequest("temperature needs apply_softmax to be true", param="temperature")
        return None
    return value
