"""Text to ids, as one flat buffer of 32-bit integers.

Strategy: two libraries stand behind one interface. Whichever encodes, the ids come as
bytes and stay bytes up to the engine's message; with fastokens no id ever becomes a
Python integer. Special tokens at the ends of raw text are worked out once, from what
the tokenizer's own post-processor does, so that both libraries treat them alike.

A long text takes milliseconds, in which nothing else would run. Both libraries let go
of the interpreter meanwhile, so a long text goes through `run`: whoever has an event
loop puts threads behind it, everybody else encodes in place.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import partial
from typing import Protocol

import tokenizers

from sglrouter.prompt.control_text import ControlText
from sglrouter.prompt.longest_token import longest_token
from sglrouter.prompt.special_tokens import Ends, ends_of

Run = Callable[[Callable[[str], bytes], str], bytes]


class Library(Protocol):
    """What encodes.

    Attributes:
        quick: Characters that it encodes within about a millisecond.
    """

    quick: int

    def ids(self, text: str) -> bytes:
        """The ids of a text without any added at its ends: uint32, native byte order."""

    def counts(self) -> dict[str, int]:
        """What it has done so far, by name."""


class ReferenceLibrary:
    """The `tokenizers` library."""

    quick = 2_000

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer

    def ids(self, text: str) -> bytes:
        """See Library."""
        # Unlike encode(), this lets go of the interpreter; short texts do not mind it.
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return array("I", encoding.ids).tobytes()

    def counts(self) -> dict[str, int]:
        """See Library."""
        return {}


def in_place(function: Callable[[str], bytes], text: str) -> bytes:
    """Runs it here and now."""
    return function(text)


class Encoder:
    """One model's tokenizer.

    Args:
        library: What encodes.
        ends: What raw text gets at its ends.
        longest_token: The most characters that one token can stand for; None if unknown.
        run: Calls a function with a long text and returns its result.

    Attributes:
        longest_token: As given.
    """

    def __init__(
        self,
        library: Library,
        ends: Ends | None = None,
        longest_token: int | None = None,
        run: Run = in_place,
    ) -> None:
        self._library = library
        self._ends = ends or Ends()
        self._offloaded = 0
        self.longest_token = longest_token
        self._run = run

    def encode(self, text: str) -> memoryview:
        """Encodes a text that holds every special token it needs, as a rendered chat does.

        Returns:
            The ids: a buffer of uint32, a sequence of integers to whoever looks.
        """
        return memoryview(self._ids(text)).cast("I")

    def encode_marked(self, marked: str, control: ControlText) -> memoryview:
        """Encodes a rendered chat in which clients' control text is to stay text.

        Args:
            marked: The text with the stand-ins of `control` in it.
            control: What marked the client's part of it.

        Raises:
            BadRequest: This tokenizer cannot keep the two apart.
        """
        pieces = control.pieces(marked)
        parts = []
        for i, (text, ours) in enumerate(pieces):
            if ours:
                parts.append(self._ids(text))
            else:
                as_text = partial(control.ids_of_text, first=i == 0)
                parts.append(self._call(as_text, text, ReferenceLibrary.quick))
        ids = b"".join(parts)
        control.check(marked, ids, cut=len(pieces) > 1 or not pieces[0][1])
        return memoryview(ids).cast("I")

    def encode_raw(self, text: str) -> memoryview:
        """Encodes a text with the special tokens that the model wants at its ends.

        A text that begins with the first of them gets no second one, nor one that ends
        with the last.
        """
        return memoryview(self._ends.add(self._ids(text))).cast("I")

    def with_ends(self, ids: memoryview) -> memoryview:
        """Ids, as encode() returns them, with the special tokens of encode_raw()."""
        return memoryview(self._ends.add(bytes(ids))).cast("I")

    def counts(self) -> dict[str, int]:
        """What has been done so far, by name."""
        return {"offloaded": self._offloaded, **self._library.counts()}

    def _ids(self, text: str) -> bytes:
        return self._call(self._library.ids, text, self._library.quick)

    def _call(self, function: Callable[[str], bytes], text: str, quick: int) -> bytes:
        if len(text) <= quick or self._run is in_place:
            return function(text)
        ids = self._run(function, text)
        self._offloaded += 1
        return ids


def reference_encoder(tokenizer: tokenizers.Tokenizer) -> Encoder:
    """The encoder that the `tokenizers` library alone makes."""
    return Encoder(ReferenceLibrary(tokenizer), ends_of(tokenizer), longest_token(tokenizer))
