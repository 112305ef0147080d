"""The special tokens that belong at the ends of a raw text.

A tokenizer's post-processor adds them: a first token for many models, a last one for
few. What it adds does not depend on the text, so it is found out with one letter and
kept as bytes. As with Hugging Face, add_bos_token and add_eos_token of
tokenizer_config.json count only where there is no tokenizer.json, which has a
post-processor of its own (sglrouter.prompt.vocabulary_files).
"""

from __future__ import annotations

from array import array

import msgspec
import tokenizers

from sglrouter.errors import ConfigError


class Ends(msgspec.Struct, frozen=True):
    """Ids before and after a text, each as uint32 in native byte order."""

    first: bytes = b""
    last: bytes = b""

    def add(self, ids: bytes) -> bytes:
        """Puts them where they are not already."""
        first = b"" if ids.startswith(self.first) else self.first
        last = b"" if self.last and ids.endswith(self.last) else self.last
        return first + ids + last


def ends_of(tokenizer: tokenizers.Tokenizer) -> Ends:
    """What the tokenizer's post-processor adds to a text.

    Raises:
        ConfigError: It does something else.
    """
    if not tokenizer.num_special_tokens_to_add(is_pair=False):
        return Ends()
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    full = tokenizer.encode("a").ids
    at = next((i for i in range(len(full)) if full[i : i + len(bare)] == bare), None)
    if at is None:
        raise ConfigError("tokenizer: its post-processor changes texts inside")
    return Ends(_packed(full[:at]), _packed(full[at + len(bare) :]))


def _packed(ids: list[int]) -> bytes:
    return array("I", ids).tobytes()
