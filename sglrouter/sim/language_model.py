"""A small generative model: n-gram counts over the tiny corpus, steered by the last question.

What comes next is a mixture. The counts of the whole corpus know how text goes on; the few answers
whose questions share the most words with the last user turn know what to say. In
both, a longer match of the context outweighs a shorter one, down to the plain frequency of tokens,
so every context gets a ranking. A question that resembles none in the corpus is answered like the
conversations whose question is empty.

The model keeps to the form that the chat template sets: it never opens a turn or a thought, closes
only what is open, and calls a tool only where the prompt shows how. Everything it looks at lies in
a bounded tail of the context, and what depends on the question alone is remembered.
"""

from __future__ import annotations

import heapq
import json
import math
import re
from collections import Counter, defaultdict
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_CONTEXT_TAIL = 2048  # tokens in which the last question is looked for
_QUESTION_TAIL = 128  # tokens of the question that are considered
_CORPUS_ORDER = 5  # tokens of context
_TOPIC_ORDER = 12
# What each further token of a matching context leaves to the shorter ones.
_CORPUS_DOUBT = 0.5
_TOPIC_DOUBT = 0.25
_CONTINUATIONS = 24  # kept for each context
_FREQUENT_TOKENS = 64  # the end of every ranking
_TOPICS = 4
_LEAST_RELEVANCE = 0.35  # cosine; below it a question counts as unknown
_RELEVANCE_SHARPNESS = 8  # two questions that differ in one name get very different answers
_REMEMBERED_QUESTIONS = 256

_PLAIN_THOUGHT = "I know something about this. I will answer it directly."
_ASSISTANT_HEADER = "<|im_start|>assistant\n"
_TURN = re.compile(r"<\|im_start\|>(user|assistant)\n(.*?)<\|im_end\|>", re.DOTALL)
_TERM = re.compile(r"[^\W_]+|[+*]")
_SIGNS = {"+": "plus", "*": "times"}
_UNSPACED = re.compile("[\u0e00-\u0eff\u2e80-\u9fff\uf900-\ufaff]")


class _Exchange(NamedTuple):
    """A question of the corpus and its answer."""

    terms: frozenset[str]
    thought: str
    answer: str
    calls_tool: bool


class LanguageModel:
    """Predicts the next token of a text in the tiny model's vocabulary.

    Equal contexts give equal answers; a model may be shared between threads.
    """

    def __init__(self, tokenizer: Tokenizer, corpus: str, eos_id: int) -> None:
        self.eos_id = eos_id
        self._tokenizer = tokenizer
        self._vocabulary_size = tokenizer.get_vocab_size()
        self._end_of_text = self._id("<|endoftext|>")
        self._turn_start = self._id("<|im_start|>")
        self._think = self._id("<think>")
        self._end_think = self._id("</think>")
        self._call = self._id("<tool_call>")
        self._end_call = self._id("</tool_call>")
        self._never = frozenset(
            {
                self._end_of_text,
                self._turn_start,
                self._think,
                self._id("<tool_response>"),
                self._id("</tool_response>"),
            }
        )
        self._user_header = self._encode("user\n")
        self._opening = self._encode(_ASSISTANT_HEADER)

        ids = self._encode(corpus)
        self._corpus = _Counts(ids, _CORPUS_ORDER)
        # Words only: blanks and markers at the end of every ranking would lead into loops.
        self._frequent = [
            (token, count)
            for token, count in Counter(ids).most_common(2 * _FREQUENT_TOKENS)
            if tokenizer.decode([token]).strip().isalnum()
        ][:_FREQUENT_TOKENS]
        self._exchanges = _read_exchanges(corpus)
        self._fallback = [entry for entry in self._exchanges if not entry.terms]
        self._asking: defaultdict[str, list[int]] = defaultdict(list)
        for position, exchange in enumerate(self._exchanges):
            for term in exchange.terms:
                self._asking[term].append(position)
        # What a term says about a question: the rarer, the more.
        self._weights = {
            term: math.log(1 + len(self._exchanges) / len(positions))
            for term, positions in self._asking.items()
        }
        self._unknown_weight = max(self._weights.values(), default=1.0)
        self._lengths = [self._length(exchange.terms) for exchange in self._exchanges]
        self._topic = lru_cache(_REMEMBERED_QUESTIONS)(self._find_topic)

    @classmethod
    def load(cls, directory: Path) -> LanguageModel:
        """Read the model from a directory that `build_tiny` wrote.

        Raises:
            OSError: A file is missing, such as corpus.txt, which no ordinary model has.
            ValueError: A file does not hold what it should.
        """
        corpus = (directory / "corpus.txt").read_text(encoding="utf-8")
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        tokenizer = Tokenizer.from_str((directory / "tokenizer.json").read_text(encoding="utf-8"))
        return cls(tokenizer, corpus, config["eos_token_id"])

    def distribution(self, context: Sequence[int]) -> list[tuple[int, float]]:
        """Return what may come next: token ids and natural log probabilities, best first.

        The probabilities of the returned ids add up to one. There are always some dozens of them.
        Ids that the model does not know are allowed anywhere in the context.
        """
        # Without any context, begin an answer.
        tail = list(context[-_CONTEXT_TAIL:]) or self._opening
        scores: dict[int, float] = {}
        rest = 1.0
        question = self._last_question(tail)
        if question is not None:
            topic = self._topic(question, self._call in tail)
            rest = topic.add_to(scores, tail, rest)
        rest = self._corpus.add_to(scores, tail, rest)
        _share(scores, self._frequent, rest)
        for token in self._forbidden(tail):
            scores.pop(token, None)
        total = sum(scores.values())
        ranked = sorted(scores.items(), key=_by_weight)
        return [(token, math.log(score / total)) for token, score in ranked]

    def _id(self, token: str) -> int:
        number = self._tokenizer.token_to_id(token)
        if number is None:
            raise ValueError(f"the tokenizer has no token {token}")
        return int(number)

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _forbidden(self, tail: list[int]) -> set[int]:
        """Markers that make no sense where the present turn stands."""
        forbidden = set(self._never)
        backwards = tail[::-1]
        turn = backwards
        if self._turn_start in backwards:
            turn = backwards[: backwards.index(self._turn_start)]
        if self._think not in turn or self._end_think in turn:
            forbidden.add(self._end_think)
        if turn.count(self._call) <= turn.count(self._end_call):
            forbidden.add(self._end_call)
        if self._call not in tail:
            # The template's explanation of tool calls contains the marker.
            forbidden.add(self._call)
        return forbidden

    def _last_question(self, tail: list[int]) -> tuple[int, ...] | None:
        """The last user turn, or None when the context has none."""
        backwards = tail[::-1]
        header = self._user_header
        found = -1
        for _ in range(backwards.count(self._turn_start)):
            found = backwards.index(self._turn_start, found + 1)
            first = len(tail) - found
            if tail[first : first + len(header)] == header:
                turn = tail[first + len(header) :]
                if self.eos_id in turn:
                    turn = turn[: turn.index(self.eos_id)]
                return tuple(turn[-_QUESTION_TAIL:])
        return None

    def _find_topic(self, question: tuple[int, ...], may_call: bool) -> _Topic:
        """Collect the answers to the questions that are most like this one."""
        known = [token for token in question if 0 <= token < self._vocabulary_size]
        terms = _terms(self._tokenizer.decode(known, skip_special_tokens=True))
        # An answer can follow the header or a thought, whether it was written with one or not.
        texts: list[tuple[str, float]] = []
        for exchange, weight in self._relevant(terms, may_call):
            thought = exchange.thought or _PLAIN_THOUGHT
            texts += [
                (exchange.answer, weight),
                (f"<think>\n{thought}\n</think>\n\n{exchange.answer}", weight),
            ]
        return _Topic(
            [
                (self._encode(f"{_ASSISTANT_HEADER}{text}<|im_end|>"), weight)
                for text, weight in texts
            ]
        )

    def _relevant(self, terms: frozenset[str], may_call: bool) -> list[tuple[_Exchange, float]]:
        """The exchanges to answer from, with weights of at most one."""
        shared: defaultdict[int, float] = defaultdict(float)
        # Sorted, because the order of a set, and with it the rounding of a sum, is random.
        for term in sorted(terms):
            for position in self._asking.get(term, ()):
                shared[position] += self._weights[term] ** 2
        length = self._length(terms)
        ranked = []
        for position, product in shared.items():
            exchange = self._exchanges[position]
            if may_call or not exchange.calls_tool:
                ranked.append((-product / (length * self._lengths[position]), position, exchange))
        ranked.sort()
        best = -ranked[0][0] if ranked else 0.0
        if best < _LEAST_RELEVANCE:
            return [(exchange, 1.0) for exchange in self._fallback]
        return [
            (exchange, (-cosine / best) ** _RELEVANCE_SHARPNESS)
            for cosine, _, exchange in ranked[:_TOPICS]
        ]

    def _length(self, terms: frozenset[str]) -> float:
        weights = (self._weights.get(term, self._unknown_weight) for term in sorted(terms))
        return math.sqrt(sum(weight**2 for weight in weights))


class _Counts:
    """What followed each context of up to `order` tokens in one long text.

    A table, so that a look-up costs the same however long the text is.
    """

    def __init__(self, ids: list[int], order: int) -> None:
        sums: defaultdict[tuple[int, ...], list[tuple[int, float]]] = defaultdict(list)
        for length in range(1, order + 1):
            grams = Counter(zip(*(ids[start:] for start in range(length + 1)), strict=False))
            for gram, count in grams.items():
                sums[gram[:-1]].append((gram[-1], count))
        self._order = order
        self._following = {
            context: tuple(heapq.nsmallest(_CONTINUATIONS, following, key=_by_weight))
            if len(following) > 1
            else following
            for context, following in sums.items()
        }

    def add_to(self, scores: dict[int, float], tail: list[int], amount: float) -> float:
        """Share out an amount of probability over what may follow; return what is left of it."""
        for length in range(min(self._order, len(tail)), 0, -1):
            following = self._following.get(tuple(tail[-length:]))
            if following is not None:
                left = amount * _CORPUS_DOUBT**length
                _share(scores, following, amount - left)
                amount = left
        return amount


class _Topic:
    """The few answers that suit a question, with weights.

    They are searched for the context each time: they are short, and a table for every question
    would take far more memory than the answers do.
    """

    def __init__(self, answers: list[tuple[list[int], float]]) -> None:
        self._answers = answers

    def add_to(self, scores: dict[int, float], tail: list[int], amount: float) -> float:
        """Share out an amount of probability like `_Counts.add_to`."""
        matches: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        last = tail[-1]
        for ids, weight in self._answers:
            position = -1
            for _ in range(ids.count(last)):
                position = ids.index(last, position + 1)
                if position + 1 < len(ids):
                    matches[_match_length(ids, position, tail)].append((ids[position + 1], weight))
        following: list[tuple[int, float]] = []
        for length in sorted(matches, reverse=True):
            following += matches[length]
            left = amount * _TOPIC_DOUBT**length
            _share(scores, following, amount - left)
            amount = left
        return amount


def _match_length(ids: list[int], position: int, tail: list[int]) -> int:
    """How many tokens up to and including a position equal the end of the tail."""
    longest = min(_TOPIC_ORDER, position + 1, len(tail))
    length = 1
    while length < longest and ids[position - length] == tail[-1 - length]:
        length += 1
    return length


def _share(scores: dict[int, float], counts: Sequence[tuple[int, float]], amount: float) -> None:
    """Add an amount to the scores, in proportion to the counts."""
    scale = amount / sum(count for _, count in counts)
    for token, count in counts:
        scores[token] = scores.get(token, 0.0) + scale * count


def _by_weight(item: tuple[int, float]) -> tuple[float, int]:
    return -item[1], item[0]


def _read_exchanges(corpus: str) -> list[_Exchange]:
    exchanges = []
    for document in corpus.split("<|endoftext|>"):
        for (role, question), (next_role, answer) in pairwise(_TURN.findall(document)):
            if (role, next_role) == ("user", "assistant"):
                thought, _, spoken = answer.rpartition("\n</think>\n\n")
                exchanges.append(
                    _Exchange(
                        _terms(question),
                        thought.removeprefix("<think>\n"),
                        spoken,
                        "<tool_call>" in spoken,
                    )
                )
    return exchanges


def _terms(text: str) -> frozenset[str]:
    """The words of a text, or pairs of characters where a script has no spaces."""
    terms: set[str] = set()
    for word in _TERM.findall(text.casefold()):
        if len(word) > 2 and _UNSPACED.search(word):
            terms.update(first + second for first, second in pairwise(word))
        elif len(word) > 3 and word.endswith("s"):
            terms.add(word[:-1])  # most often a plural
        else:
            terms.add(_SIGNS.get(word, word))
    return frozenset(terms)
