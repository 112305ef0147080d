"""Sampling parameters as the engine understands them, and the choice of a token.

The wire's zeros become the engine's defaults here, or stay zeros in the dialects that
take them literally. Their effect is then as absurd as on the real engine and easy to
see: an empty candidate set or a NaN temperature picks id 0, a repetition penalty of zero
says the last token again and again.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from sglrouter._proto import scheduler as pb
    from sglrouter.sim.distribution import Distribution, Ranked
    from sglrouter.sim.options import Dialect

_GREEDY_BELOW = 1e-6


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling parameters of one sample."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    frequency_penalty: float
    presence_penalty: float
    repetition_penalty: float
    max_new_tokens: int | None
    min_new_tokens: int
    stop: tuple[str, ...]
    stop_token_ids: frozenset[int]
    ignore_eos: bool
    stream_interval: int | None
    logit_bias: dict[int, float]

    @classmethod
    def read(cls, params: pb.SamplingParams, dialect: Dialect) -> Sampling:
        """Takes the parameters off the wire; ValueError for a logit_bias key in letters."""
        top_p, top_k, repetition = params.top_p, params.top_k, params.repetition_penalty
        if not dialect.literal_zeros:
            top_p = top_p or 1.0
            top_k = top_k or -1
            repetition = repetition or 1.0
        return cls(
            temperature=params.temperature,
            top_p=top_p,
            top_k=top_k,
            min_p=params.min_p,
            frequency_penalty=params.frequency_penalty,
            presence_penalty=params.presence_penalty,
            repetition_penalty=repetition,
            max_new_tokens=params.max_new_tokens if params.HasField("max_new_tokens") else None,
            min_new_tokens=params.min_new_tokens,
            stop=tuple(params.stop),
            stop_token_ids=frozenset(params.stop_token_ids),
            ignore_eos=params.ignore_eos,
            stream_interval=params.stream_interval or None,
            logit_bias={int(key): value for key, value in params.logit_bias.items()},
        )

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken."""
        return self.temperature < _GREEDY_BELOW

    @property
    def penalised(self) -> bool:
        """Whether what was said before changes what is likely now."""
        return bool(
            self.frequency_penalty or self.presence_penalty or self.repetition_penalty != 1.0
        )


def choose(
    distribution: Distribution,
    sampling: Sampling,
    *,
    decided: bool,
    prompt: Sequence[int],
    output: Sequence[int],
    forbidden: frozenset[int],
    dice: random.Random,
) -> int:
    """The next token.

    `decided` says that the answer is written already (a script, an echo): then only what
    an engine does to any answer counts, that is broken parameters and forbidden ids, and
    not the taste of the sampler. The bias is in the distribution already.
    """
    if math.isnan(sampling.temperature) or (sampling.top_k == 0 and not sampling.greedy):
        return 0
    if sampling.repetition_penalty == 0.0:
        return output[-1] if output else prompt[-1]
    penalised = sampling.penalised and not decided
    greedy = decided or sampling.greedy or sampling.top_p == 0.0 or sampling.top_k == 1
    if not (penalised or forbidden):
        if greedy:
            return distribution.best
        ranked = distribution.ranked
    else:
        ranked = _adjusted(distribution, sampling, penalised, prompt, output, forbidden)
        if greedy:
            return ranked[0][0]
    return _draw(ranked, sampling, dice)


def _adjusted(
    distribution: Distribution,
    sampling: Sampling,
    penalised: bool,
    prompt: Sequence[int],
    output: Sequence[int],
    forbidden: frozenset[int],
) -> Ranked:
    # One id more than can be forbidden, so that something is always left.
    scores = dict(distribution.top(max(len(distribution.ranked), len(forbidden) + 1)))
    if penalised:
        for token, count in Counter(output).items():
            if token in scores:
                scores[token] -= sampling.presence_penalty + count * sampling.frequency_penalty
        for token in set(prompt).union(output):
            # Log probabilities are negative logits: dividing them would reward.
            if token in scores:
                scores[token] *= sampling.repetition_penalty
    for token in forbidden:
        scores.pop(token, None)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def _draw(ranked: Ranked, sampling: Sampling, dice: random.Random) -> int:
    best = ranked[0][1]
    if sampling.top_k > 0:
        ranked = ranked[: sampling.top_k]
    heat = max(sampling.temperature, _GREEDY_BELOW)
    weights = [math.exp((score - best) / heat) for _, score in ranked]
    total = sum(weights)
    kept, mass = 0, 0.0
    for weight in weights:
        if kept and (mass >= sampling.top_p * total or weight < sampling.min_p):
            break
        kept += 1
        mass += weight
    point = dice.random() * mass
    for (token, _), weight in zip(ranked[:kept], weights, strict=False):
        point -= weight
        if point < 0.0:
            return token
    return ranked[kept - 1][0]
