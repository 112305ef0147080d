"""What the compiled modules do, said in the plainest Python: the executable specification.

Nothing here is incremental or quick. Each function takes a whole sample and returns what
the pieces that the compiled module delivers have to add up to.
"""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from smg_grpc_proto.generated import sglang_scheduler_pb2 as scheduler

from sglrouter._proto import legacy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

T = TypeVar("T")

REPLACEMENT = "\ufffd".encode()

Row = list[tuple[int, float]]
Logprob = tuple[int, float, Row]
PromptLogprob = tuple[int, float | None, Row]


class Piece(NamedTuple):
    """A character, or a run of bytes that can never become one, and what is shown for it."""

    raw: bytes
    shown: bytes


class Text(NamedTuple):
    """A sample's text, and where in it each of its tokens begins, in bytes."""

    data: bytes
    starts: list[int]


class Vocabulary(NamedTuple):
    """The arguments of sglrouter._fast.detok.Vocabulary."""

    pieces: list[bytes | None]
    special: frozenset[int] = frozenset()
    byte_fallback: bool = False

    def piece(self, token: int) -> bytes:
        """The bytes of an id; none for one that does not exist."""
        return (self.pieces[token] if token < len(self.pieces) else None) or b""


def pieces_of(data: bytes, *, byte_fallback: bool) -> Iterator[Piece]:
    """Splits bytes as CPython's decoder with errors="replace" does.

    Byte-level vocabularies show U+FFFD for each invalid part, those with byte fallback
    for each byte of it.
    """
    at = 0
    while at < len(data):
        try:
            data[at:].decode()
        except UnicodeDecodeError as exc:
            valid, invalid = data[at : at + exc.start], data[at + exc.start : at + exc.end]
        else:
            valid, invalid = data[at:], b""
        for char in valid.decode():
            yield Piece(char.encode(), char.encode())
        if invalid:
            yield Piece(invalid, REPLACEMENT * (len(invalid) if byte_fallback else 1))
        at += len(valid) + len(invalid)


def detokenize(
    vocabulary: Vocabulary,
    ids: Sequence[int],
    *,
    skip_special: bool = True,
    stop_ids: Collection[int] = (),
    strip_leading_space: bool = False,
    stopped: bool = True,
    prompt: Sequence[int] = (),
) -> Text:
    """The bytes of every id that is shown, one after another, as text.

    A stop id is left out where it is the last of a sample that it stopped; anywhere else
    it is a token like others. After a prompt, it is what comes behind the prompt's last
    whole character.
    """
    if stopped and ids and ids[-1] in stop_ids:
        ids = ids[:-1]

    def bytes_of(token: int) -> bytes:
        skipped = skip_special and token in vocabulary.special
        return b"" if skipped else vocabulary.piece(token)

    before = b"".join(map(bytes_of, prompt))
    data = _left_open(before)
    begins = []
    for token in ids:
        begins.append(len(data))
        data += bytes_of(token)

    # Where in the text each byte shows.
    text = b""
    places = []
    for raw, shown in pieces_of(data, byte_fallback=vocabulary.byte_fallback):
        # An invalid part is one U+FFFD, or one for each byte.
        width = len(REPLACEMENT) if raw != shown and vocabulary.byte_fallback else 1
        places += [len(text) + width * i for i in range(len(raw))]
        text += shown
    places.append(len(text))
    if strip_leading_space and not before and data.startswith(b" "):
        text = text[1:]
        places = [max(place - 1, 0) for place in places]
    return Text(text, [places[begin] for begin in begins])


def _left_open(data: bytes) -> bytes:
    """The bytes at the end that more could make a character of."""
    for size in (3, 2, 1):
        end = data[-size:]
        if len(end) == size:
            decoder = codecs.getincrementaldecoder("utf-8")()
            try:
                if decoder.decode(end) == "" and end:
                    return end
            except UnicodeDecodeError:
                continue
    return b""


def cut_at_stop(
    text: bytes, stops: Collection[bytes], *, keep: bool = False
) -> tuple[bytes, bytes | None]:
    """Text up to the first stop string, and that stop string.

    The first is the one complete first; of those that end on the same byte, the longest.
    """
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return text[: end if keep else end - len(stop)], stop
    return text, None


def undecided(text: bytes, stops: Collection[bytes]) -> int:
    """How many bytes at the end of stop-free text may be the beginning of a stop string."""
    return max(
        (size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size])),
        default=0,
    )


def chunk_event(
    completion_id: str,
    created: int,
    model: str,
    index: int,
    delta: dict[str, Any],
    *,
    logprobs: object = None,
    finish_reason: str | None = None,
) -> dict[str, Any]:
    """A chat.completion.chunk with one choice."""
    return {
        "id": completion_id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
        "choices": [
            {
                "index": index,
                "delta": delta,
                "logprobs": logprobs,
                "finish_reason": finish_reason,
            }
        ],
    }


def read_event(event: bytes) -> dict[str, Any]:
    """The document of one server-sent event, which any line reader sees as one line."""
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    text = event.decode()
    assert text.splitlines() == [text[:-2], ""]
    document: dict[str, Any] = json.loads(text.removeprefix("data: "))
    return document


class GenerateReader:
    """sglrouter._fast.wire.GenerateReader by way of the engine's own protobuf messages."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.logprobs: list[Logprob] = []
        self.selected_logprobs: list[Row] = []
        self.input_logprobs: list[PromptLogprob] | None = None
        self.next_top: Row | None = None
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.reasoning_tokens = 0
        self.spec_accepted_tokens = 0
        self.spec_draft_tokens = 0
        self.finish_reason: str | None = None
        self.matched_stop: int | str | None = None
        self.failure: tuple[str, str] | None = None

    def feed_all(self, messages: Iterable[bytes]) -> None:
        for message in messages:
            self.feed(message)

    def feed(self, message: bytes) -> None:
        response = scheduler.GenerateResponse.FromString(message)
        if response.HasField("chunk"):
            self._count(response.chunk)
            self._add(list(response.chunk.token_ids), response.chunk.output_logprobs)
            if not self.ids or response.chunk.token_ids:
                rows = _rows(response.chunk.output_logprobs.token_ids_logprobs)
                fresh = len(response.chunk.token_ids) or 1 - len(self.selected_logprobs)
                self.selected_logprobs += _tail(rows, fresh)
        if response.HasField("complete"):
            self._complete(response.complete)
        failure = legacy.GenerateFailure.FromString(message)
        if failure.HasField("error"):
            self.failure = failure.error.message, failure.error.http_status_code

    def _complete(self, complete: scheduler.GenerateComplete) -> None:
        self._count(complete)
        if complete.completion_tokens:
            missing = complete.completion_tokens - len(self.ids)
        else:
            missing = 0 if self.ids else len(complete.output_ids)
        self._add(_tail(complete.output_ids, missing), complete.output_logprobs)
        rows = _rows(complete.output_logprobs.token_ids_logprobs)
        positions = len(self.ids) or 1
        self.selected_logprobs += _tail(rows, positions - len(self.selected_logprobs))
        self.spec_accepted_tokens = complete.spec_accepted_tokens or self.spec_accepted_tokens
        self.spec_draft_tokens = complete.spec_draft_tokens or self.spec_draft_tokens
        self.finish_reason = complete.finish_reason
        if complete.WhichOneof("matched_stop") == "matched_token_id":
            self.matched_stop = complete.matched_token_id
        elif complete.WhichOneof("matched_stop") == "matched_stop_str":
            self.matched_stop = complete.matched_stop_str

    def _add(self, ids: Sequence[int], scores: scheduler.OutputLogProbs) -> None:
        self.ids += ids
        entries = _logprobs(scores)
        self.logprobs += _tail(entries, len(ids))
        if not self.ids and not entries and scores.top_logprobs:
            self.next_top = _rows(scores.top_logprobs)[0]

    def _count(self, part: scheduler.GenerateStreamChunk | scheduler.GenerateComplete) -> None:
        """Totals stay as they are where a message leaves them out."""
        self.prompt_tokens = part.prompt_tokens or self.prompt_tokens
        self.completion_tokens = part.completion_tokens or self.completion_tokens
        self.cached_tokens = part.cached_tokens or self.cached_tokens
        self.reasoning_tokens = part.reasoning_tokens or self.reasoning_tokens
        if part.HasField("input_logprobs") and not self.input_logprobs:
            self.input_logprobs = _prompt_logprobs(part.input_logprobs)


def _tail(items: Sequence[T], count: int) -> list[T]:
    """The last `count` of them, or as many as there are."""
    return list(items[max(len(items) - count, 0) :]) if count > 0 else []


def _rows(messages: Iterable[scheduler.TopLogProbs]) -> list[Row]:
    return [list(zip(each.token_ids, each.values, strict=False)) for each in messages]


def _logprobs(message: scheduler.OutputLogProbs) -> list[Logprob]:
    top = _rows(message.top_logprobs)
    return [
        (token, logprob, top[i] if i < len(top) else [])
        for i, (token, logprob) in enumerate(
            zip(message.token_ids, message.token_logprobs, strict=False)
        )
    ]


def _prompt_logprobs(message: scheduler.InputLogProbs) -> list[PromptLogprob]:
    top = _rows(message.top_logprobs)
    return [
        (token, each.value if each.HasField("value") else None, top[i] if i < len(top) else [])
        for i, (token, each) in enumerate(
            zip(message.token_ids, message.token_logprobs, strict=False)
        )
    ]
