"""What tells a model's family: its chat template, and its vocabulary.

Strategy: a template has to write earlier calls and reasoning the way the model does, so
it holds the markers, in its text or in pieces of it. Each family has signatures that say
which markers mean it; of all signatures the first that fits counts, those of a low rank
before those of a high one. Tokens alone count only where there is no template: a model
need not use all that its vocabulary has.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple


class Signature(NamedTuple):
    """What a template, or a vocabulary, of a family looks like.

    Attributes:
        texts: What the template contains, all of it.
        without: What it does not contain, none of it.
        code: What its code contains, white space aside; any of it will do.
        tokens: What the vocabulary contains, all of it.
        rank: How widely these marks are shared: 0 if they are the family's own, more than
            those of the families that have these marks and others besides.
    """

    texts: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    rank: int = 0

    def fits(self, template: str, code: str, vocabulary: Container[str]) -> bool:
        """Whether a model looks like this.

        Args:
            template: The chat template; "" if the model has none.
            code: The same in lower case, without white space.
            vocabulary: The texts of its tokens.
        """
        if template and not self.texts:
            return False
        return (
            all(text in template for text in self.texts)
            and not any(text in template for text in self.without)
            and (not self.code or any(text in code for text in self.code))
            and all(token in vocabulary for token in self.tokens)
        )


def detect(
    signatures: Iterable[tuple[Signature, str]], template: str, vocabulary: Container[str]
) -> str | None:
    """The name beside the first signature that fits; None if nothing tells.

    Args:
        signatures: In the order in which they are tried, with what each one means.
        template: The chat template; "" if the model has none.
        vocabulary: The texts of its tokens.
    """
    code = "".join(template.split()).lower()
    for signature, name in signatures:
        if signature.fits(template, code, vocabulary):
            return name
    return None
