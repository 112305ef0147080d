"""Text from clients that reads like a control token, kept from being one.

A chat template writes control tokens such as <|im_end|> into the text, and the
tokenizer cannot tell them from the same letters in a message: whoever may write part
of a message, a web page in a tool's result, say, could end the turn and open another.

Strategy: every control token holds at least one of a few characters, for most models
just "<". In all that comes from the client each of them is replaced, before rendering,
by a stand-in that no client can send (a lone surrogate, which UTF-8 and JSON cannot
carry), and put back afterwards. Whatever the template does in between, cutting and
joining included, a control token found in the text with the stand-ins was written by
the template, and one that shows only after they are put back was not. Stand-ins take
one place each, so the two texts are compared by position. Where they agree, the text
is encoded like any other. Where not, it is cut at the template's control tokens, as
the tokenizer itself would cut it, and each piece that holds a client's control text is
encoded whole by a twin of the tokenizer that does not know these tokens.

What a template looks for in a message, such as </think> in an earlier answer, it does
not find there while it is control text.
"""

from __future__ import annotations

import re
import secrets
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import tokenizers

from sglrouter.errors import BadRequest, ConfigError

_T = TypeVar("_T")

# The first of the stand-ins; no valid UTF-8 or JSON string holds one.
_STAND_IN = 0xDC00


class ControlText:
    """Tells a model's control tokens from the same text in messages.

    Args:
        tokenizer: The reference tokenizer.
        template: The sources of the chat templates. Of the added tokens that are not
            special, those that occur in it are control tokens, too.

    Attributes:
        letters: The letters that have stand-ins.

    Raises:
        ConfigError: The tokenizer has control tokens that cannot be kept apart.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, template: str) -> None:
        added = tokenizer.get_added_tokens_decoder()
        control = {
            token_id: token
            for token_id, token in added.items()
            if token.special or (token.content in template and not token.content.isspace())
        }
        for token in control.values():
            if token.single_word or not token.content:
                raise ConfigError(
                    f"control_tokens: {token.content!r} counts only between words, and so "
                    "cannot be kept apart from text; set control_tokens to allow"
                )
        stand_ins = {
            ord(char): _STAND_IN + i
            for i, char in enumerate(_hitting_set(token.content for token in control.values()))
        }
        self.letters = "".join(map(chr, stand_ins))
        self._mark = stand_ins
        self._restore = {stand_in: char for char, stand_in in stand_ins.items()}
        self._pattern = re.compile(_alternatives(token.content for token in control.values()))
        self._greedy = {t.content: t for t in control.values() if t.lstrip or t.rstrip}
        # "unknown" may come of any text.
        unknown = getattr(tokenizer.model, "unk_token", None)
        self._control_ids = {
            token_id for token_id, token in control.items() if token.content != unknown
        }
        # Where text is changed before tokens are looked for, they may come into being.
        self._may_appear = tokenizer.normalizer is not None and any(
            token.normalized for token in control.values()
        )
        self._twin = _Twin(tokenizer, [t for i, t in added.items() if i not in control])

    def mark(self, value: _T) -> _T:
        """Returns a copy of what a client sent, with stand-ins in every string."""
        marked: _T = _translated(value, self._mark)
        return marked

    def restore(self, text: str) -> str:
        """Puts back what the stand-ins stand for."""
        return text.translate(self._restore)

    def restored(self, refusal: BadRequest) -> BadRequest:
        """The same refusal in the client's own letters."""
        return BadRequest(self.restore(refusal.message), code=refusal.code, param=refusal.param)

    def pieces(self, marked: str) -> list[tuple[str, bool]]:
        """Cuts a rendered text into what the tokenizer may and may not find control tokens in.

        Args:
            marked: The rendered text, stand-ins and all.

        Returns:
            (text, whether control tokens in it are the template's) in order. A text
            without a client's control text is one piece.
        """
        text = self.restore(marked)
        if text == marked:
            return [(text, True)]
        ours = self._spans(marked)
        if ours == self._spans(text):
            return [(text, True)]
        pieces: list[tuple[str, bool]] = []
        start = at = 0
        for begin, end in [*ours, (len(text), len(text))]:
            if self._pattern.search(text, at, begin):
                pieces += [(text[start:at], True), (text[at:begin], False)]
                start = begin
            at = end
        pieces.append((text[start:], True))
        return [piece for piece in pieces if piece[0]]

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Where control tokens are, with the white space that some of them swallow."""
        spans = [match.span() for match in self._pattern.finditer(text)]
        if not self._greedy:
            return spans
        for i, (begin, end) in enumerate(spans):
            token = self._greedy.get(text[begin:end])
            if token is not None and token.lstrip:
                least = spans[i - 1][1] if i else 0
                while begin > least and text[begin - 1].isspace():
                    begin -= 1
            if token is not None and token.rstrip:
                while end < len(text) and text[end].isspace():
                    end += 1
            spans[i] = begin, end
        return spans

    def ids_of_text(self, text: str, *, first: bool) -> bytes:
        """Encodes a piece in which control tokens are text.

        Args:
            text: The piece.
            first: Whether the prompt begins with it.
        """
        return self._twin.ids(text, first=first)

    def check(self, marked: str, ids: bytes, *, cut: bool) -> None:
        """Makes sure that there are no control tokens but the template's.

        Args:
            marked: The rendered text, stand-ins and all.
            ids: What came of it.
            cut: Whether it was encoded in more than one piece.

        Raises:
            BadRequest: The tokenizer makes some of plain text.
        """
        if not (cut or self._may_appear):
            return
        written = sum(1 for _ in self._pattern.finditer(marked))
        counts = Counter(array("I", ids))
        if sum(counts[token] for token in self._control_ids) > written:
            raise BadRequest(
                "The messages hold text that this model's tokenizer can only read as control "
                "tokens. Please remove it.",
                code="control_text",
                param="messages",
            )


class _Twin:
    """The tokenizer without its control tokens; it shares the vocabulary."""

    def __init__(
        self, tokenizer: tokenizers.Tokenizer, kept: Iterable[tokenizers.AddedToken]
    ) -> None:
        twin = tokenizers.Tokenizer(tokenizer.model)
        if tokenizer.normalizer is not None:
            twin.normalizer = tokenizer.normalizer
        if tokenizer.pre_tokenizer is not None:
            twin.pre_tokenizer = tokenizer.pre_tokenizer
        # Texts behind a control token are not at the start of the prompt, which some
        # tokenizers treat differently: this stands for the token. Nobody can guess it.
        self._lead = f"\ue000{secrets.token_hex(16)}\ue000"
        twin.add_special_tokens([self._lead])
        kept = list(kept)
        twin.add_tokens(kept)
        added = tokenizer.get_added_tokens_decoder()
        ids = {token.content: token_id for token_id, token in added.items()}
        self._real_ids = {
            token_id: ids[token.content]
            for token_id, token in twin.get_added_tokens_decoder().items()
            if token.content in ids
        }
        self._tokenizer = twin

    def ids(self, text: str, *, first: bool) -> bytes:
        if not first:
            text = self._lead + text
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        ids = array("I", encoding.ids if first else encoding.ids[1:])
        if self._real_ids:
            ids = array("I", (self._real_ids.get(token, token) for token in ids))
        return ids.tobytes()


def _translated(value: Any, table: Mapping[int, int]) -> Any:
    if isinstance(value, str):
        return value.translate(table)
    if isinstance(value, Mapping):
        return {_translated(key, table): _translated(item, table) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_translated(item, table) for item in value)
    return value


def _hitting_set(tokens: Iterable[str]) -> Iterator[str]:
    """Yields characters of which every token holds at least one: few, and rarely words'."""
    rest = set(tokens)
    while rest:
        counts = Counter(char for token in rest for char in set(token))
        best = max(counts, key=lambda char: (_is_sign(char), counts[char], -ord(char)))
        yield best
        rest = {token for token in rest if best not in token}


def _is_sign(char: str) -> bool:
    """Whether it is neither in words and names, nor means anything within JSON."""
    return not (char.isalnum() or char.isspace() or char in "_-.,:/\"'\\{}")


def _alternatives(tokens: Iterable[str]) -> str:
    """A pattern for the longest token at each place.

    As a tree of letters: a list of alternatives would be tried one after another at
    each place, and there may be a thousand.
    """
    tree: dict[str, Any] = {}
    for token in tokens:
        node = tree
        for char in token:
            node = node.setdefault(re.escape(char), {})
        node[""] = {}
    return _branches(tree) if tree else r"(?!)"


def _branches(tree: Mapping[str, Any]) -> str:
    longer = [letter + _branches(below) for letter, below in tree.items() if letter]
    if not longer:
        return ""
    optional = "?" if "" in tree else ""
    if len(longer) == 1 and not optional:
        return longer[0]
    return f"(?:{'|'.join(longer)}){optional}"
