"""Text to ids and back, for clients that count or cut prompts themselves.

Strategy: the ids are those that an engine would get. They stay four bytes each until
they are written, a piece at a time, so that the answer to a large body is not many
times as large in memory, and so that nothing here keeps others waiting for long.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, cast

import msgspec

from sglrouter._fast.prompt_ids import largest_id
from sglrouter.errors import BadRequest
from sglrouter.request.ids import check_ids
from sglrouter.request.past_calls import check_past_calls
from sglrouter.request.tool_choice import choose_tools
from sglrouter.schema.chat import decode_chat_request
from sglrouter.schema.tokenize import (
    DetokenizeRequest,
    TokenizeRequest,
    decode_detokenize_request,
    decode_tokenize_request,
)
from sglrouter.serving.chat import chat_prompt
from sglrouter.serving.service import Service
from sglrouter.turns import Pause, taking_turns

_encode = msgspec.json.Encoder().encode

# Ids that are written in about a millisecond, and bytes of an answer's pieces.
_AT_ONCE = 16_384
_PIECE = 128 * 1024


class Tokenizing:
    """Answers what is asked of the tokenizer.

    Args:
        service: Whose tokenizer it is.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def tokenize(self, body: bytes) -> Iterator[bytes]:
        """Answers a TokenizeRequest.

        Args:
            body: The request as JSON.

        Returns:
            The answer as JSON, in pieces.

        Raises:
            RouterError: The request cannot be served.
        """
        request = self._service.read(decode_tokenize_request, body)
        if (request.prompt is None) is not request.is_conversation:
            raise BadRequest("Give either prompt or messages", param="prompt")
        facts = self._service.facts()
        self._service.adapter(request, facts)
        if request.prompt is None:
            texts, ids = self._conversation(request, body)
        else:
            texts = [request.prompt] if isinstance(request.prompt, str) else request.prompt
            ids = self._prompts(texts, special=request.add_special_tokens is not False)
        many = isinstance(request.prompt, list)
        counts, lengths = [len(each) for each in ids], [len(text) for text in texts]
        others = {
            "count": counts if many else counts[0],
            "max_model_len": self._service.limits(facts).context or -1,
            "char_count": lengths if many else lengths[0],
        }
        return self._answer(ids, others, many=many, strings=bool(request.return_token_strs))

    def detokenize(self, body: bytes) -> bytes:
        """Answers a DetokenizeRequest.

        Args:
            body: The request as JSON.

        Raises:
            RouterError: The request cannot be served.
        """
        request = self._service.read(decode_detokenize_request, body)
        self._service.adapter(request, self._service.facts())
        first = request.tokens[0] if request.tokens else 0
        if isinstance(first, list):
            return _encode({"text": self._texts(request)})
        self._check(request.tokens, "tokens")
        if len(request.tokens) > _AT_ONCE:
            self._service.pause()
        text = self._text(request, request.tokens)
        # vLLM calls it prompt.
        return _encode({"text": text, "prompt": text})

    def _conversation(
        self, request: TokenizeRequest, body: bytes
    ) -> tuple[list[str], list[memoryview]]:
        service = self._service
        chat = service.read(decode_chat_request, body)
        check_past_calls(chat.messages, service.bounds, service.pause)
        prompt = chat_prompt(
            chat, choose_tools(chat, self._service.pause).shown, service.model, self._service.pause
        )
        # What any encoder returns.
        ids = cast(memoryview, prompt.ids)
        if request.add_special_tokens:
            ids = service.model.prompts.encoder.with_ends(ids)
        return [prompt.text], [ids]

    def _prompts(self, texts: Sequence[str], *, special: bool) -> list[memoryview]:
        encoder = self._service.model.prompts.encoder
        encode = encoder.encode_raw if special else encoder.encode
        return [encode(text) for text in taking_turns(texts, self._service.pause)]

    def _texts(self, request: DetokenizeRequest) -> list[str]:
        for i, ids in enumerate(taking_turns(request.tokens, self._service.pause)):
            self._check(ids, f"tokens[{i}]")
        return [
            self._text(request, ids) for ids in taking_turns(request.tokens, self._service.pause)
        ]

    def _text(self, request: DetokenizeRequest, ids: Any) -> str:
        return self._service.model.detokenizers.text(
            ids, skip_special=request.skip_special_tokens is not False, pause=self._service.pause
        )

    def _check(self, ids: Any, where: str) -> None:
        """Refuses what are not ids of the model."""
        vocabulary = self._service.model.detokenizers.vocabulary
        size = max(self._service.model.vocab_size, vocabulary.size if vocabulary else 0)
        try:
            # Quickly, since there may be a million.
            if isinstance(ids, list) and largest_id(array("I", ids)) < size:
                return
        except (OverflowError, TypeError):
            pass
        if not isinstance(ids, list) or list in set(map(type, ids)):
            raise BadRequest(
                "tokens must be a list of ids, or a list of such lists",
                code="invalid_type",
                param=where,
            )
        check_ids(ids, size, where)

    def _answer(
        self, ids: Sequence[memoryview], others: dict[str, Any], *, many: bool, strings: bool
    ) -> Iterator[bytes]:
        parts = chain([b'{"tokens":'], _lists(ids, _written, many=many))
        if strings:
            texts = _lists(ids, self._written_texts, many=many)
            parts = chain(parts, [b',"token_strs":'], texts)
        return _pieces(chain(parts, [b",", _encode(others)[1:]]), self._service.pause)

    def _written_texts(self, ids: memoryview) -> bytes:
        piece = self._service.model.detokenizers.piece
        return _encode([piece(token).decode("utf-8", "replace") for token in ids])


def _written(ids: memoryview) -> bytes:
    return _encode(ids.tolist())


def _pieces(parts: Iterable[bytes], pause: Pause) -> Iterator[bytes]:
    """The parts in pieces that are worth sending."""
    gathered = bytearray()
    for part in taking_turns(parts, pause):
        gathered += part
        if len(gathered) >= _PIECE:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


def _lists(
    ids: Sequence[memoryview], write: Callable[[memoryview], bytes], *, many: bool
) -> Iterator[bytes]:
    """A JSON array for each text, or the one of the only text, in pieces."""
    for i, each in enumerate(ids):
        yield (b"[[" if many and not i else b",[" if i else b"[")
        for start in range(0, len(each), _AT_ONCE):
            comma = b"," if start else b""
            yield comma + write(each[start : start + _AT_ONCE])[1:-1]
        yield b"]"
    if many:
        yield b"]" if ids else b"[]"
