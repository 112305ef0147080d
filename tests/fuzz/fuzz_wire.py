"""Fuzzes the reader of GenerateResponse messages.

Strategy: an input is a list of messages, each either bytes as they stand or fields built
from a script: numbers and wire types that mean something, nested as the protocol nests
them, with a length now and then that is not true. Hostile bytes may raise ValueError and
nothing else.

What the reader says must also be possible: no more ids than bytes to hold them, the same
ids whatever else is wanted. That they are the right ones is for
tests/fast/test_wire.py to show, against protobuf.
"""

from __future__ import annotations

import struct
from collections import Counter

from sglrouter._fast.wire import GenerateReader
from tests.fast.messages import varint
from tests.fuzz.run import Script, fuzz

# The numbers that mean something, by depth: a response, a chunk or an end, log probabilities.
# The second table is for what few requests ask for.
NUMBERS = (
    (
        (2, 3, 2, 3, 4, 1),
        (1, 5, 6, 1, 2, 3, 4, 8, 9, 12),
        (1, 2, 3, 1, 2),
        (1, 2),
    ),
    (
        (2, 3),
        (1, 5, 6, 7, 10),
        (1, 2, 3, 4),
        (1, 2),
    ),
)
DEEPEST = len(NUMBERS[0]) - 1
MOST_FIELDS = 5


def message(script: Script, table: int, depth: int = 0) -> bytes:
    """A message of a few fields."""
    return b"".join(field(script, table, depth) for _ in range(1 + script.number() % MOST_FIELDS))


def field(script: Script, table: int, depth: int) -> bytes:
    """One field; most of them are of a kind that the reader knows."""
    kind = script.number()
    number = (
        script.choice(NUMBERS[table][depth]) if kind % 32 else script.choice((0, 15, 16, 2**28))
    )
    if kind < 64:
        return varint(number << 3) + varint(script.number(script.choice((1, 2, 4, 8))))
    if kind < 80:
        return varint(number << 3 | 5) + struct.pack("<I", script.number(4))
    if kind < 84:
        return varint(number << 3 | 1) + struct.pack("<Q", script.number(8))
    if kind == 84:
        return varint(number << 3 | script.number() % 8) + script.blob()
    if kind % 8 and (depth == 0 or (kind >= 160 and depth < DEEPEST)):
        content = message(script, table, depth + 1)
    elif kind % 8:
        content = b"".join(varint(script.number(1 + kind % 5)) for _ in range(kind % 9))
    else:
        content = script.blob()
    # A length now and then is not true: by one, which is the hardest to notice, or by a lot.
    size = len(content)
    if kind % 64 == 63:
        size = script.choice((size + 1, max(size - 1, 0), script.number(8)))
    return varint(number << 3 | 2) + varint(size) + content


def number_at(content: bytes, at: int) -> tuple[int, int]:
    """The varint at a place, and the place behind it; IndexError if it is cut off."""
    value = shift = 0
    while True:
        value |= (content[at] & 0x7F) << shift
        shift += 7
        at += 1
        if content[at - 1] < 0x80:
            return value, at


def is_whole(content: bytes, depth: int = 0) -> bool:
    """Whether each field of a response, and of a chunk or an end in it, ends within it."""
    at = 0
    try:
        while at < len(content):
            tag, at = number_at(content, at)
            kind = tag % 8
            size, at = number_at(content, at) if kind in (0, 2) else ({1: 8, 5: 4}[kind], at)
            if kind == 0:
                continue
            at += size
            if at > len(content):
                return False
            inner = depth == 0 and tag in (2 << 3 | 2, 3 << 3 | 2)
            if inner and not is_whole(content[at - size : at], depth + 1):
                return False
    except (IndexError, KeyError):
        return False
    return True


def prompt(reader: GenerateReader) -> list[tuple[int, float | None, list[tuple[int, float]]]]:
    """The scores of the prompt so far."""
    return reader.input_logprobs or []


def one_input(data: bytes) -> Counter[str]:
    """Follows one sample through a list of messages."""
    script = Script(data)
    full = GenerateReader(True, keep_ids=True, want_input_logprobs=True, want_selected=True)
    readers = full, GenerateReader()
    total = 0
    reached: Counter[str] = Counter()
    while script:
        form = script.number() % 8
        content = script.blob() if form == 0 else message(script, form // 6)
        reached["messages"] += 1
        failures: list[str] = []
        for reader in readers:
            try:
                reader.feed(content)
            except ValueError as exc:
                failures.append(str(exc))
        assert all(failure.startswith("malformed engine message: ") for failure in failures)
        ids, without = (reader.take_ids() for reader in readers)
        logprobs = readers[0].take_logprobs()
        assert readers[1].take_logprobs() == []
        assert len(ids) <= len(content)
        assert len(logprobs) <= len(content)
        assert all(0 <= token < 2**32 for token in ids)
        assert readers[0].take_ids() == []
        assert readers[0].take_logprobs() == []
        assert is_whole(content) or len(failures) == 2, "a message that is cut was accepted"
        if failures:
            reached["malformed"] += 1
            break  # as the owner does: the sample has failed
        total += len(ids)
        assert len(full.output_ids) == total
        # With no id there may be one row, for the token that would have come.
        assert len(full.selected_logprobs) <= max(total, 1)
        assert all(value is None or isinstance(value, float) for _, value, _ in prompt(full))
        assert ids == without
        for name in ("finish_reason", "matched_stop", "failure", "completion_tokens"):
            assert getattr(readers[0], name) == getattr(readers[1], name)
        reached["ids"] += len(ids)
        reached["logprobs"] += len(logprobs)
        reached["rows"] += len(full.selected_logprobs)
        reached["prompts"] += bool(prompt(full))
        reached["ends"] += readers[0].finish_reason is not None
    return reached


if __name__ == "__main__":
    fuzz(one_input)
