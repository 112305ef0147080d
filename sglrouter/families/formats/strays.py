"""What models leave behind calls: brackets too many, and code fences.

Strategy: where tags end a call, a bracket behind it is stray whatever follows, and a fence
is if it closes one or nothing but calls follow. Where brackets end it, as in JSON and in
Python, only what markup follows is stray: anything else may be the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from sglrouter._fast.guard import ENDS, Guard
from sglrouter._fast.operations import Match
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.program import PEEK, Program, literal

_FENCE = b"```"
_BRACKETS = (b"}", b"]", b")")
_STRAY = literal(*_BRACKETS, b'"', b"```json", _FENCE)

# What says that strays are such: markup, or the end.
_MARKUP = frozenset({b"", b"<", b"["})


def drop_strays(parser: OutputParser) -> Program:
    """Drops what is stray behind a call that brackets end.

    What has other text behind it is read again.
    """
    parser.mark()
    strays = 0
    while (yield _STRAY) >= 0:
        strays += 1
    if strays and (yield PEEK) in _MARKUP:
        parser.accept()
    else:
        parser.rewind()


class TagStrays:
    """What is stray behind a call that tags end.

    Args:
        openers: What a call may begin with.
    """

    def __init__(self, openers: Sequence[bytes]) -> None:
        follows = {"call": (dict.fromkeys(openers), False, True, False)} if openers else {}
        fence = "call" if openers else None
        brackets = ((ENDS, None, None),) * len(_BRACKETS)
        # Without one before the call, a fence may begin what the model shows next.
        guard = Guard((*brackets, (ENDS, fence, None)), follows)
        self._after = Match((*_BRACKETS, _FENCE), skip_space=True, guard=guard)
        self._after_in_fence = Match((*_BRACKETS, _FENCE), skip_space=True)

    def drop(self, parser: OutputParser, *, fenced: bool = False) -> Program:
        """Drops what is stray.

        Args:
            parser: Right after the end of a call or a block of them.
            fenced: Whether a fence has begun before the calls.
        """
        parser.mark()
        while (yield self._after_in_fence if fenced else self._after) >= 0:
            parser.accept()
            parser.mark()
        parser.reject()
