"""Prompts that no template makes: texts as they are, or the ids of one.

Strategy: a text becomes ids with the special tokens that the model wants at its ends; ids
stay what they are. Either way they are four bytes each from here on. Where a prompt is
shown again, or its tokens are placed in it, its text is that of the request, and only
ids are decoded.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sglrouter.errors import BadRequest
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.prompt_text import PromptText, character_offsets, count_characters
from sglrouter.prompt.encoder import Encoder
from sglrouter.request.ids import ANY_ID, check_ids
from sglrouter.request.limits import Limits, check_length, check_prompt
from sglrouter.turns import taking_turns

# Ids that are decoded before the clock is looked at.
_AT_ONCE = 256


class RawPrompt(msgspec.Struct, frozen=True):
    """One prompt.

    Attributes:
        ids: Its tokens, a buffer of uint32.
        text: As the request has it; None where that has the ids.
    """

    ids: Any
    text: str | None = None


class RawPrompts:
    """Reads prompts for one model.

    Args:
        encoder: The model's tokenizer.
        detokenizers: The model's detokenizers.
        most: How many prompts a request may have.
        pause: Called now and then where it takes long, to let others go on.
    """

    def __init__(
        self,
        encoder: Encoder,
        detokenizers: DetokenizerFactory,
        most: int,
        pause: Callable[[], object],
    ) -> None:
        self._encoder = encoder
        self._detokenizers = detokenizers
        self._most = most
        self._pause = pause

    def read(self, prompt: str | list[Any], limits: Limits, field: str) -> list[RawPrompt]:
        """Reads all of a request's prompts.

        Args:
            prompt: A text, texts, ids, or lists of ids.
            limits: Bounds of the model.
            field: Where the request has it.

        Raises:
            BadRequest: It has none of these forms, or an engine could not take it.
        """
        if isinstance(prompt, str):
            return [self._read(prompt, limits, field)]
        kinds = set(map(type, prompt))
        if kinds == {int}:
            return [self._read(prompt, limits, field)]
        if kinds not in ({str}, {list}):
            raise BadRequest(
                f"{field} must be a string, a list of strings, a list of token ids, or a list of "
                "lists of token ids, and not be empty",
                code="invalid_type",
                param=field,
            )
        if len(prompt) > self._most:
            raise BadRequest(
                f"{field} may hold at most {self._most} prompts, not {len(prompt)}: send them in "
                "several requests",
                code="invalid_value",
                param=field,
            )
        return [
            self._read(each, limits, f"{field}[{i}]")
            for i, each in enumerate(taking_turns(prompt, self._pause))
        ]

    def shown(self, prompt: RawPrompt, *, skip_special: bool, placed: bool) -> PromptText:
        """What a prompt looks like to a client.

        Args:
            prompt: The prompt.
            skip_special: Whether special tokens are left out of the text of ids.
            placed: Whether to find out where in the text each token begins.
        """
        if prompt.text is None:
            text, starts = self._decoded(prompt.ids, skip_special=skip_special)
            return PromptText(text, character_offsets(text, starts) if placed else ())
        text = prompt.text.encode()
        if not placed:
            return PromptText(text)
        decoded, starts = self._decoded(prompt.ids, skip_special=False)
        before = decoded.find(text)
        if before >= 0:
            # What is around it the tokenizer has added.
            places = (min(max(start - before, 0), len(text)) for start in starts)
            return PromptText(text, character_offsets(text, places))
        # Some tokenizers change texts: then the places are those in what they make of it.
        decoded, starts = self._decoded(prompt.ids, skip_special=True)
        most = count_characters(text)
        offsets = character_offsets(decoded, starts)
        return PromptText(text, [min(offset, most) for offset in offsets])

    def _read(self, prompt: str | list[int], limits: Limits, field: str) -> RawPrompt:
        if isinstance(prompt, str):
            check_length(prompt, self._encoder.longest_token, limits, field)
            found = RawPrompt(self._encoder.encode_raw(prompt), prompt)
        else:
            found = RawPrompt(_packed(prompt, field))
        check_prompt(found.ids, limits, field)
        return found

    def _decoded(self, ids: Sequence[int], *, skip_special: bool) -> tuple[bytes, list[int]]:
        """The text of ids, and where each begins, in bytes.

        Of a character that they leave open it has nothing: the answer completes it.
        """
        decoder = self._detokenizers.new(skip_special=skip_special, stop_ids=(), want_starts=True)
        slices = [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)]
        text = b"".join(map(decoder.feed_ids, taking_turns(slices, self._pause)))
        text += decoder.settle()
        starts = decoder.take_starts()
        return text, starts + [len(text)] * (len(ids) - len(starts))


def _packed(ids: list[int], field: str) -> array[int]:
    try:
        return array("I", ids)
    except OverflowError:
        check_ids(ids, ANY_ID, field)
        raise
