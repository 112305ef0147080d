"""What a token costs in each compiled part, and in what is made of them.

Each part is fed the same answer of the tiny model, once with a token and once with eight
tokens a message. An object lives for one answer and is made before the clock starts; the
best of many runs is printed, since noise only ever adds.
"""

from __future__ import annotations

import argparse
import sys
import timeit
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import tokenizers

from sglrouter._fast.detok import Detokenizer
from sglrouter._fast.scan import StopMatcher
from sglrouter._fast.sse import ChunkFramer
from sglrouter._fast.wire import GenerateReader
from sglrouter._proto import scheduler
from sglrouter.output.chat import ChatStream
from sglrouter.output.choice import Choice
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.head import Head
from sglrouter.output.sample import Sample
from sglrouter.sim.options import TINY_MODEL

TOKENS = 512
SIZES = (1, 8)

# Neither is in the text, and both begin like something that is.
STOPS = ("\n\nuser:", "the end of it")


class Answer(NamedTuple):
    """One answer in all the forms that it takes on its way."""

    messages: list[bytes]
    ids: list[list[int]]
    pieces: list[bytes]
    text: bytes


# Makes an object for one answer and returns what feeds it the answer.
Part = Callable[[Answer], Callable[[], object]]


def main() -> int:
    """Runs what the command line asks for; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--repeat", type=int, default=300, help="runs, of which the best counts (default: 300)"
    )
    args = parser.parse_args()
    if args.repeat < 1:
        parser.error("--repeat must be at least 1")
    tokenizer = tokenizers.Tokenizer.from_file(str(TINY_MODEL / "tokenizer.json"))
    factory = DetokenizerFactory(tokenizer)
    text = (TINY_MODEL / "corpus.txt").read_text("utf-8")
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids[:TOKENS]
    answers = [_answer(factory, ids, size) for size in SIZES]
    print(f"| {'ns per token':22} |" + "".join(f" {size} a message |" for size in SIZES))
    print(f"|{'-' * 24}|" + f"{'-' * 13}|" * len(SIZES))
    for name, part in _parts(factory).items():
        costs = [_best(part, answer, args.repeat) for answer in answers]
        print(f"| {name:22} |" + "".join(f" {cost:11.0f} |" for cost in costs))
    return 0


def _best(part: Part, answer: Answer, repeat: int) -> float:
    """Nanoseconds a token of the best run."""
    fastest = float("inf")
    for _ in range(repeat):
        feed = part(answer)
        fastest = min(fastest, timeit.timeit(feed, number=1))
    return fastest * 1e9 / TOKENS


def _answer(factory: DetokenizerFactory, ids: Sequence[int], size: int) -> Answer:
    cut = [list(ids[at : at + size]) for at in range(0, len(ids), size)]
    messages = [
        scheduler.GenerateResponse(
            request_id="chatcmpl-0123456789abcdef",
            chunk=scheduler.GenerateStreamChunk(
                token_ids=part, completion_tokens=at * size + len(part), prompt_tokens=20
            ),
        ).SerializeToString()
        for at, part in enumerate(cut)
    ]
    decoder = _detokenizer(factory)
    pieces = [decoder.feed_ids(part) for part in cut]
    return Answer(messages, cut, pieces, b"".join(pieces))


def _parts(factory: DetokenizerFactory) -> dict[str, Part]:
    return {
        "GenerateReader.feed": _reader,
        "Detokenizer.feed_ids": partial(_decoder, factory),
        "StopMatcher.feed": _matcher,
        "ChunkFramer.content": _framer,
        "Sample.feed": partial(_sample, factory),
        "ChatStream.feed": partial(_stream, factory),
    }


def _reader(answer: Answer) -> Callable[[], object]:
    return partial(_each, GenerateReader().feed, answer.messages)


def _decoder(factory: DetokenizerFactory, answer: Answer) -> Callable[[], object]:
    return partial(_each, _detokenizer(factory).feed_ids, answer.ids)


def _matcher(answer: Answer) -> Callable[[], object]:
    assert not any(stop.encode() in answer.text for stop in STOPS), "it would stop too early"
    matcher = StopMatcher([stop.encode() for stop in STOPS])
    return partial(_each, matcher.feed, answer.pieces)


def _framer(answer: Answer) -> Callable[[], object]:
    framer = ChunkFramer("chatcmpl-0123456789abcdef", 1700000000, "tiny", 0)
    return partial(_each, framer.content, answer.pieces)


def _sample(factory: DetokenizerFactory, answer: Answer) -> Callable[[], object]:
    feed = Sample(factory, skip_special=False).feed
    return partial(_each, feed, [[message] for message in answer.messages])


def _stream(factory: DetokenizerFactory, answer: Answer) -> Callable[[], object]:
    stream = ChatStream(
        Head("chatcmpl-0123456789abcdef", 1700000000, "tiny"),
        [Choice(Sample(factory, skip_special=False))],
        factory.piece,
    )
    return partial(_each, partial(stream.feed, 0), [[message] for message in answer.messages])


def _each(feed: Callable[..., object], items: Sequence[object]) -> None:
    for item in items:
        feed(item)


def _detokenizer(factory: DetokenizerFactory) -> Detokenizer:
    decoder = factory.new(skip_special=False, stop_ids=())
    assert isinstance(decoder, Detokenizer)
    return decoder


if __name__ == "__main__":
    sys.exit(main())
