"""Next-token distributions: real ones from a language model, plausible ones for a script.

A distribution lists its likely ids best first, with natural log probabilities; every
other id of the vocabulary sits at a floor below them, so that any id can be scored and
any number of alternatives can be listed. All values depend only on what was asked for
and the seed.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Ranked = list[tuple[int, float]]

_FLOOR = -16.0
_ALTERNATIVES = 24

# Clients may send an infinite bias; sums must stay finite.
_BIAS_LIMIT = 1e4


class Distribution:
    """The log probabilities of the next token."""

    __slots__ = ("_by_id", "_ranked", "vocab_size")

    def __init__(self, ranked: Ranked, vocab_size: int) -> None:
        self._ranked = ranked
        self._by_id: dict[int, float] | None = None
        self.vocab_size = vocab_size

    @property
    def ranked(self) -> Ranked:
        """The likely ids, best first."""
        return self._ranked

    @property
    def best(self) -> int:
        """The likeliest id."""
        return self.ranked[0][0]

    def logprob(self, token: int) -> float:
        """The log probability of any id."""
        if self._by_id is None:
            self._by_id = dict(self.ranked)
        return self._by_id.get(token, self._floor)

    def top(self, count: int) -> Ranked:
        """The `count` likeliest ids, best first."""
        listed = self.ranked[:count]
        if len(listed) < count:
            known = {token for token, _ in listed}
            spare = (token for token in range(self.vocab_size) if token not in known)
            listed = listed + [
                (token, self._floor)
                for token, _ in zip(spare, range(count - len(listed)), strict=False)
            ]
        return listed

    def biased(self, bias: Mapping[int, float]) -> Distribution:
        """The distribution with something added to the logits of some ids."""
        scores = dict(self.ranked)
        for token, added in bias.items():
            scores[token] = self.logprob(token) + min(max(added, -_BIAS_LIMIT), _BIAS_LIMIT)
        best = max(scores.values())
        total = best + math.log(sum(math.exp(score - best) for score in scores.values()))
        ranked = [(token, score - total) for token, score in scores.items()]
        return Distribution(sorted(ranked, key=lambda item: -item[1]), self.vocab_size)

    @property
    def _floor(self) -> float:
        return min(_FLOOR, self.ranked[-1][1])


class MadeUp(Distribution):
    """A plausible distribution around a token that is decided already.

    The alternatives are drawn only when somebody looks at them: most requests want no
    log probabilities.
    """

    __slots__ = ("_key", "_ordinary", "_token")

    def __init__(self, token: int, key: str, ordinary: Sequence[int], vocab_size: int) -> None:
        super().__init__([], vocab_size)
        self._token = token
        self._key = key
        self._ordinary = ordinary

    @property
    def best(self) -> int:
        """The decided token."""
        return self._token

    @property
    def ranked(self) -> Ranked:
        """The decided token, then the alternatives made up for it."""
        if not self._ranked:
            dice = random.Random(f"{self._key}:{self._token}")
            share = dice.uniform(0.55, 0.95)
            self._ranked = [(self._token, math.log(share))]
            drawn = dice.sample(self._ordinary, min(_ALTERNATIVES, len(self._ordinary)))
            share = (1.0 - share) * 0.3
            for token in drawn:
                if token != self._token:
                    self._ranked.append((token, math.log(share)))
                    share *= 0.7
        return self._ranked
