"""Picks how a model's ids become text: the compiled table, or the library.

The library's way is for the rare tokenizer whose decoder joins tokens by their
neighbours (WordPiece, Metaspace, none). It decodes a window of recent ids twice, with
and without the new one, and returns the difference. The window is bounded, so the
time stays linear, and so does the text held back for an incomplete character.

A sample is decoded with the last ids of its prompt before it, as SGLang does: whether a
word begins with a space may depend on whether anything is before it, and a prompt of
ids may end within a character, which the sample then completes.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

import tokenizers

from sglrouter._fast.detok import Detokenizer, Vocabulary
from sglrouter._fast.wire import GenerateReader
from sglrouter.output.vocabulary import build_token_table, byte_of

# How many ids of a prompt its sample is decoded with; SGLang's figure.
_TAIL = 5
# Where these begin within a character, so many are looked at to find its beginning.
_LONGEST_TAIL = 24

# Ids that become text in about a millisecond.
_AT_ONCE = 16_384


class TextDecoder(Protocol):
    """One sample's ids to text; see sglrouter._fast.detok.Detokenizer."""

    @property
    def produced(self) -> int:
        """Bytes of text returned so far."""

    def feed(self, reader: GenerateReader) -> bytes:
        """Takes the ids that the reader has gathered; returns the text they complete."""

    def feed_each(self, reader: GenerateReader) -> list[bytes]:
        """Like feed(), but returns what each of the ids completes."""

    def feed_ids(self, ids: Iterable[int]) -> bytes:
        """Like feed(), for ids given as integers."""

    def settle(self) -> bytes:
        """What was held back, but for bytes of a character that is still open."""

    def finish(self, stopped: bool = True) -> bytes:
        """Ends the sample; a stop token that came last is text unless it stopped it."""

    def take_starts(self) -> list[int]:
        """Where each token since the last call begins, in bytes of text."""


class DetokenizerFactory:
    """Makes a decoder for each sample of one model.

    Args:
        tokenizer: The model's tokenizer.

    Attributes:
        vocabulary: The compiled table, or None where the library decodes.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        table = build_token_table(tokenizer)
        self.vocabulary: Vocabulary | None = table.vocabulary if table else None
        self._strip = table.strip_leading_space if table else False
        self._tokenizer = tokenizer

    def new(
        self,
        *,
        skip_special: bool,
        stop_ids: Collection[int],
        want_starts: bool = False,
        shown: Collection[int] = (),
        prompt: Sequence[int] = (),
    ) -> TextDecoder:
        """Returns a decoder at the start of a sample.

        Args:
            skip_special: Whether special tokens are left out.
            stop_ids: Ids that may end the sample.
            want_starts: Whether take_starts() will be called.
            shown: Special tokens that are text all the same; see special_tokens_in().
            prompt: What the sample goes on with; none for the beginning of a text.
        """
        if self.vocabulary is None:
            # The library shows all special tokens or none.
            skip_special = skip_special and not shown
            library = LibraryDetokenizer(self._tokenizer, skip_special, stop_ids, want_starts)
            library.follow(prompt[-_LONGEST_TAIL:])
            return library
        decoder = Detokenizer(
            self.vocabulary, skip_special, stop_ids, self._strip, want_starts, shown
        )
        decoder.follow(prompt[-_TAIL:])
        return decoder

    def text(
        self,
        ids: Sequence[int],
        *,
        skip_special: bool,
        pause: Callable[[], object] | None = None,
    ) -> str:
        """The text of ids that are all there.

        Args:
            ids: Any that are not negative; those without a token have no text.
            skip_special: Whether special tokens are left out.
            pause: Called now and then while that goes on for long.
        """
        if self.vocabulary is None:
            return self._tokenizer.decode(list(ids), skip_special_tokens=skip_special)
        decoder = Detokenizer(self.vocabulary, skip_special, (), self._strip)
        parts = [decoder.feed_ids(ids[:_AT_ONCE])]
        for start in range(_AT_ONCE, len(ids), _AT_ONCE):
            if pause is not None:
                pause()
            parts.append(decoder.feed_ids(ids[start : start + _AT_ONCE]))
        return (b"".join(parts) + decoder.finish(stopped=False)).decode()

    def special_tokens_in(self, texts: Collection[str]) -> frozenset[int]:
        """The special tokens that any of these texts is written with."""
        return frozenset(
            token
            for token, added in self._tokenizer.get_added_tokens_decoder().items()
            if added.special and any(added.content in text for text in texts)
        )

    def piece(self, token: int) -> bytes:
        """The bytes of one token, special or not."""
        if self.vocabulary is not None:
            return self.vocabulary.piece(token)
        return self._tokenizer.decode([token], skip_special_tokens=False).encode()


class LibraryDetokenizer:
    """Decodes with the tokenizer library, a bounded window at a time.

    Args:
        tokenizer: The model's tokenizer.
        skip_special: Whether special tokens are left out.
        stop_ids: Ids that may end the sample.
        want_starts: Whether take_starts() will be called.
    """

    # Ids kept before the text that is out already, for the decoder to see its left; a
    # few more where these would begin within a character.
    _CONTEXT = 6
    # A character is four bytes at most: more ids than this will never complete it.
    _LONGEST_WAIT = 16

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        skip_special: bool,
        stop_ids: Collection[int],
        want_starts: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._skipped = frozenset(
            token
            for token, added in tokenizer.get_added_tokens_decoder().items()
            if skip_special and added.special
        )
        self._want_starts = want_starts
        self._stop_ids = frozenset(stop_ids)
        self._held: int | None = None
        self._window: list[int] = []
        self._done = 0  # ids of the window whose text is out
        self._parts: deque[int] = deque()  # how many of them came out together
        self._starts: list[int] = []
        self.produced = 0

    def follow(self, ids: Sequence[int]) -> None:
        """Takes the last ids of what comes before the sample; to be called first.

        Their text is no part of the sample's, but for the bytes of a character that
        they leave open.
        """
        known = [token for token in ids if self._has_text(token)]
        short = [token for token in ids[-_TAIL:] if self._has_text(token)]
        begun = len(short) - len(self._open_bytes(short))
        for size in range(len(short), len(known) + 1):
            window = known[len(known) - size :]
            end = size - (len(short) - begun)
            if "\ufffd" not in self._decode(window[:end]):
                self._window, self._done = window, end
                break
        else:
            self._window, self._done = short, begun
        if self._done:
            self._parts.append(self._done)

    def _open_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes at the end, of byte tokens, that begin a character and do not end it."""
        held = b""
        for token in reversed(ids[-3:]):
            byte = byte_of(self._tokenizer.id_to_token(token) or "")
            if byte is None:
                break
            held = byte + held
            if held[0] >= 0xC0:
                return held if _is_open(held) else b""
        return b""

    def feed(self, reader: GenerateReader) -> bytes:
        """Takes the ids that the reader has gathered; returns the text they complete."""
        return self.feed_ids(reader.take_ids())

    def feed_each(self, reader: GenerateReader) -> list[bytes]:
        """Like feed(), but returns what each of the ids completes."""
        return list(map(self._push, reader.take_ids()))

    def feed_ids(self, ids: Iterable[int]) -> bytes:
        """Like feed(), for ids given as integers."""
        return b"".join(map(self._push, ids))

    def settle(self) -> bytes:
        """What was held back, but for bytes of a character that is still open."""
        end = len(self._window) - len(self._open_bytes(self._window[self._done :]))
        left_open = self._window[end:]
        del self._window[end:]
        text = self._release(last=True)
        self._window += left_open
        return text

    def finish(self, stopped: bool = True) -> bytes:
        """Ends the sample and returns what was held back."""
        text = b""
        if self._held is not None and not stopped:
            text = self._append(self._held)
        self._held = None
        return text + self._release(last=True)

    def take_starts(self) -> list[int]:
        """Where each token since the last call begins, in bytes of text."""
        taken, self._starts = self._starts, []
        return taken

    def _push(self, token: int) -> bytes:
        text = b""
        if self._held is not None:
            text = self._append(self._held)
            self._held = None
        if token in self._stop_ids:
            self._held = token
            return text
        return text + self._append(token)

    def _append(self, token: int) -> bytes:
        if self._want_starts:
            self._starts.append(self.produced)
        if not self._has_text(token):
            # The library leaves it out, and so it is no context either.
            return b""
        self._window.append(token)
        return self._release(last=False)

    def _has_text(self, token: int) -> bool:
        return token not in self._skipped and self._tokenizer.id_to_token(token) is not None

    def _release(self, *, last: bool) -> bytes:
        waiting = len(self._window) - self._done
        if not waiting:
            return b""
        before = self._decode(self._window[: self._done])
        after = self._decode(self._window)
        if after.endswith("\ufffd") and not last and waiting < self._LONGEST_WAIT:
            return b""
        self._parts.append(waiting)
        surplus = 0
        while len(self._window) - surplus - self._parts[0] >= self._CONTEXT:
            surplus += self._parts.popleft()
        del self._window[:surplus]
        self._done = len(self._window)
        text = after[len(before) :].encode()
        self.produced += len(text)
        return text

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=self._skip_special)


def _is_open(data: bytes) -> bool:
    """Whether bytes are the beginning of a character that more bytes could complete."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(data) == ""
    except UnicodeDecodeError:
        return False
