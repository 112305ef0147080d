"""An order of documents, by whether a model would say that each fits.

A reranker that generates has a chat template that asks for "yes" or "no". What counts is
how likely the one is against the other in the place of the next token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sglrouter.engines.channel.channel import Metadata
from sglrouter.engines.wire.scheduler import new_request_id
from sglrouter.errors import BadRequest, EngineError
from sglrouter.output.head import Head
from sglrouter.output.scores import RankingBody
from sglrouter.prompt.model_files import read_template_file
from sglrouter.request.inputs import check_count, check_text
from sglrouter.request.limits import Limits, check_length, check_prompt
from sglrouter.schema.scoring import (
    Content,
    RerankRequest,
    decode_cohere_rerank_request,
    decode_rerank_request,
)
from sglrouter.serving.batch import BatchAnswer
from sglrouter.serving.next_tokens import next_tokens
from sglrouter.serving.service import Service
from sglrouter.turns import taking_turns


class RerankServing:
    """Ranks documents with a model whose template asks for yes or no.

    Args:
        service: What they are ranked with.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._asks = _asks_yes_or_no(service)

    def bare(self, body: bytes, metadata: Metadata = ()) -> BatchAnswer:
        """Answers a RerankRequest with a list, as SGLang does.

        Args:
            body: The request as JSON.
            metadata: Request headers for the engine.

        Raises:
            RouterError: The request cannot be served; nothing was sent.
        """
        request = self._service.read(decode_rerank_request, body)
        return self._start(request, metadata, lambda made, _head: made.bare())

    def whole(self, body: bytes, metadata: Metadata = ()) -> BatchAnswer:
        """Answers a RerankRequest with an object, as SGLang's gateways do; see bare()."""
        request = self._service.read(decode_rerank_request, body)
        return self._start(request, metadata, lambda made, head: made.whole(head, request.rid))

    def cohere(self, body: bytes, metadata: Metadata = ()) -> BatchAnswer:
        """Answers a CohereRerankRequest with an object, as Cohere does; see bare()."""
        request = self._service.read(decode_cohere_rerank_request, body).shared_form()
        return self._start(request, metadata, lambda made, head: made.cohere(head))

    def _start(
        self,
        request: RerankRequest,
        metadata: Metadata,
        body: Callable[[RankingBody, Head], bytes],
    ) -> BatchAnswer:
        service = self._service
        top = _top(request)
        query = _text(request.query, "query")
        if not request.documents:
            raise BadRequest("documents must not be empty", param="documents")
        check_count(request.documents, "documents")
        texts = [_text(each, f"documents[{i}]") for i, each in enumerate(request.documents)]
        facts = service.facts()
        lora_id = service.adapter(request, facts)
        if facts.embeds:
            raise EngineError(
                "This model cannot rank here: engines take no pairs of texts over gRPC, which is "
                "what a cross-encoder needs. Serve a reranker that generates, such as "
                "Qwen3-Reranker, without --is-embedding.",
                status=501,
                code="engine_unsupported",
            )
        if not self._asks:
            raise BadRequest(
                "This model is no reranker: its chat template does not ask for yes or no. "
                "The template of a Qwen3-Reranker can be set as chat_template.",
                code="unsupported_model",
                param="model",
            )
        limits = service.limits(facts)
        ids = self._prompts(request, query, texts, limits)
        made = RankingBody(texts if request.return_documents is not False else None, len(ids), top)
        head = Head(
            f"rerank-{new_request_id()}",
            int(time.time()),
            request.model or service.model_name(facts),
        )
        return next_tokens(
            service,
            ids,
            [self._answers()] * len(ids),
            made.add_logprobs,
            lambda: body(made, head),
            lora_id=lora_id,
            metadata=metadata,
            pause=self._service.pause,
        )

    def _prompts(
        self, request: RerankRequest, query: str, texts: Sequence[str], limits: Limits
    ) -> list[Sequence[int]]:
        ids = []
        asked = [{"type": "text", "text": query}]
        encoder = self._service.model.prompts.encoder
        for i, text in enumerate(taking_turns(texts, self._service.pause)):
            where = f"documents[{i}]"
            # Text templates read the messages, those for images the other two.
            kwargs: dict[str, Any] = {
                "query": asked,
                "document": [{"type": "text", "text": text}],
            }
            if request.instruct:
                kwargs["instruct"] = request.instruct
            try:
                prompt = self._service.model.prompts.build(
                    [{"role": "user", "content": query}, {"role": "user", "content": text}],
                    kwargs=kwargs,
                    pause=self._service.pause,
                    check=lambda prompt: check_length(prompt, encoder.longest_token, limits),
                )
            except BadRequest as exc:
                exc.param = where
                raise
            check_prompt(prompt.ids, limits, where)
            ids.append(prompt.ids)
        return ids

    def _answers(self) -> list[int]:
        """The ids of "yes" and "no"."""
        encode = self._service.model.prompts.encoder.encode
        found = [list(encode(word)) for word in ("yes", "no")]
        if any(len(ids) != 1 for ids in found):
            raise EngineError(
                'This model cannot rank: its tokenizer has no single tokens for "yes" and "no"',
                status=501,
                code="engine_unsupported",
            )
        return [ids[0] for ids in found]


def _top(request: RerankRequest) -> int | None:
    field = "top_n" if request.top_n is not None else "top_k"
    top: int | None = getattr(request, field)
    if top is not None and top < 1:
        raise BadRequest(
            f"{field} must be at least 1, not {top}", code="invalid_value", param=field
        )
    return top


def _text(content: Content, where: str) -> str:
    """A text, or the texts of its parts with a space between them."""
    if not isinstance(content, str):
        texts = []
        for i, part in enumerate(content):
            if part.get("type") != "text" or not isinstance(part.get("text"), str):
                raise BadRequest(
                    f"{where}[{i}] must be a part of type text: images and videos are not served",
                    code="unsupported_content",
                    param=f"{where}[{i}]",
                )
            texts.append(part["text"])
        content = " ".join(texts)
    check_text(content, where)
    return content


def _asks_yes_or_no(service: Service) -> bool:
    """Whether the model's template asks whether a document fits, as SGLang tells it."""
    source = service.settings.chat_template
    templates = read_template_file(Path(source)) if source else service.model.files.chat_templates
    name = service.settings.chat_template_name or "default"
    template = templates.get(name, "").lower()
    return "answer can only be" in template and '"yes"' in template and '"no"' in template
