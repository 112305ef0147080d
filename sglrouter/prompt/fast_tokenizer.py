"""A faster library for the same tokenizer, where it is proven to agree.

fastokens reads the same tokenizer.json and encodes twenty and more times faster. It is
known to diverge on a few models, so it is used only after it has given the same ids
as the reference for all of sglrouter.prompt.probes. Where it is not installed, cannot
load the file, or differs in one probe, the reference stays, and the log says why.
"""

from __future__ import annotations

import logging
import os
import sys
from array import array
from itertools import zip_longest
from pathlib import Path
from typing import Any

import tokenizers

from sglrouter.prompt.probes import probes

logger = logging.getLogger(__name__)

# Of a text that the two read differently, as much as tells.
_SHOWN = 60


class FastLibrary:
    """fastokens, as sglrouter.prompt.encoder.Library.

    Args:
        tokenizer: A fastokens.Tokenizer.
    """

    quick = 16_000

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def ids(self, text: str) -> bytes:
        """The ids of a text: uint32, native byte order."""
        ids: bytes = self._tokenizer.encode_batch_flat([text])[0]
        return ids

    def remember(self, size: int) -> None:
        """Keeps the ids of texts between added tokens, in up to `size` bytes.

        A conversation's earlier turns are then not encoded again. 0 keeps none.
        """
        self._tokenizer.enable_segment_cache(size)

    def counts(self) -> dict[str, int]:
        """What the kept ids have saved so far, by name; empty if none are kept."""
        stats: dict[str, int] = self._tokenizer.segment_cache_stats() or {}
        return {f"cache_{name}": count for name, count in stats.items()}


def fast_library(source: Path | str, reference: tokenizers.Tokenizer) -> FastLibrary | None:
    """Returns the fast library for a tokenizer, or None where it must not be used.

    Args:
        source: Its tokenizer.json, or the text of one.
        reference: The same, as the reference library has it.
    """
    try:
        # Its own threads would not outlive a fork, take 35 MB, and save nothing in a
        # process that encodes one text at a time.
        os.environ.setdefault("FASTOKENS_BPE_THREADS", "1")
        import fastokens
    except ImportError:
        logger.info("tokenizer: fastokens is not installed: pip install 'sglrouter[fast]'")
        return None
    if sys.byteorder != "little":
        logger.info("tokenizer: fastokens writes little-endian ids: not used on this machine")
        return None
    added = [token.content for token in reference.get_added_tokens_decoder().values()]
    try:
        if isinstance(source, Path):
            tokenizer = fastokens.Tokenizer.from_file(str(source))
        else:
            tokenizer = fastokens.Tokenizer.from_json_str(source)
        # Some files carry the training set-up; a prompt is never cut or padded.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        library = FastLibrary(tokenizer)
        library.remember(0)  # old versions cannot: better to know it now
        for text in probes(added):
            expected = reference.encode(text, add_special_tokens=False).ids
            found = array("I", library.ids(text)).tolist()
            if found != expected:
                logger.warning(
                    "tokenizer: fastokens is not used, for it differs from the reference on %r: %s",
                    text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...",
                    _first_difference(expected, found),
                )
                return None
    except Exception as exc:  # whatever a foreign library raises on a file it does not know
        logger.warning("tokenizer: fastokens cannot read this tokenizer: %s", exc)
        return None
    return library


def _first_difference(expected: list[int], found: list[int]) -> str:
    at, (wanted, got) = next(
        (i, pair) for i, pair in enumerate(zip_longest(expected, found)) if pair[0] != pair[1]
    )
    return f"token {at} is {got}, should be {wanted}"
