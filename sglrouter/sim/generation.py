"""One sample on its way: steps, stops, limits, and what is ready to be sent.

A step appends tokens until something ends the sample; the checks and their order are the
engine's: stop strings, then EOS and stop ids, then the length. What has been made but
not sent waits for the stream interval or for a stop string that may have begun.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sglrouter.sim.answers import Finish
from sglrouter.sim.sampling import Sampling, choose
from sglrouter.sim.stops import StopMatcher

if TYPE_CHECKING:
    from sglrouter._proto import scheduler as pb
    from sglrouter.sim.answers import AnswerSource
    from sglrouter.sim.distribution import Distribution, Ranked
    from sglrouter.sim.model_folder import ModelFolder
    from sglrouter.sim.options import Dialect, SimOptions


class TokenLogprobs(NamedTuple):
    """The log probabilities at one output position; `token` is None for no output."""

    token: int | None
    logprob: float
    top: Ranked
    selected: Ranked


class PromptLogprobs(NamedTuple):
    """The log probabilities at one prompt position; the first one has none."""

    token: int
    logprob: float | None
    top: Ranked


@dataclass(slots=True)
class Output:
    """What the scheduler sends for one sample: the new ids, the totals so far."""

    token_ids: list[int]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    finish: Finish | None = None
    # None: not asked for.
    logprobs: list[TokenLogprobs] | None = None
    prompt_logprobs: list[PromptLogprobs] | None = None
    # With the last output of a stream: the selected scores of the whole answer.
    all_logprobs: list[TokenLogprobs] | None = None


@dataclass(eq=False, slots=True)
class Job:
    """A sample that was asked for: the request, under an id of its own.

    `prefix_only` marks the hidden request that fills the prefix cache before n samples.
    """

    rid: str
    request: pb.GenerateRequest
    prefix_only: bool = False


class Generation:
    """A running sample."""

    def __init__(
        self,
        job: Job,
        *,
        cached_tokens: int,
        context_length: int,
        folder: ModelFolder,
        answers: AnswerSource,
        options: SimOptions,
        dialect: Dialect,
    ) -> None:
        request = job.request
        self.prompt = list(request.tokenized.input_ids)
        self.output: list[int] = []
        self.finish: Finish | None = None
        self.aborting = False
        self._request = request
        self._stream = request.stream
        self._cached_tokens = cached_tokens
        self._folder = folder
        self._answers = answers
        self._options = options
        self._sampling = Sampling.read(request.sampling_params, dialect)
        self._stops = StopMatcher(folder, self._sampling.stop)
        self._dice = random.Random(f"{options.seed}:{job.rid}")
        self._logprobs: list[TokenLogprobs] | None = [] if request.return_logprob else None
        self._sent = 0
        self._started = False
        left = max(0, context_length - 2 - len(self.prompt))
        wanted = 0 if job.prefix_only else self._sampling.max_new_tokens
        self._max_new_tokens = left if wanted is None else min(left, wanted)
        if job.prefix_only:
            self._answer = answers.nothing()
        else:
            self._answer = answers.answer(self.prompt, request.tokenized.original_text)

    def step(self) -> bool:
        """Makes the tokens of one step; returns whether to send even if there are none."""
        if self._max_new_tokens == 0:
            if self._logprobs is not None:
                self._score(None, self._answer.distribution(self.output))
            self.finish = Finish("abort" if self.aborting else "length")
            return True
        size = self._answer.next_step()
        for _ in range(size):
            if self.finish is not None or self._answer.ending(len(self.output)) is not None:
                break
            self._append()
        # A script's own end goes before what the engine made of its last token.
        self.finish = self._answer.ending(len(self.output)) or self.finish
        if self.aborting and self.finish is None:
            self.finish = Finish("abort")
        return size == 0

    def take_output(self, force: bool = False) -> Output | None:
        """What is to be sent now, or None while it is held back."""
        unsent = len(self.output) - self._sent
        if self.finish is None and not force:
            interval = self._sampling.stream_interval or self._options.stream_interval
            due = unsent >= interval or (self._sent == 0 and unsent > 0)
            if not (self._stream and due) or self._stops.may_begin(self.output):
                return None
        start, self._sent = self._sent, len(self.output)
        output = Output(
            token_ids=self.output[start:],
            prompt_tokens=len(self.prompt),
            completion_tokens=len(self.output),
            cached_tokens=self._cached_tokens,
            finish=self.finish,
        )
        if self._logprobs is not None:
            output.logprobs = self._logprobs[start:]
            if self.finish is not None:
                output.all_logprobs = self._logprobs
            if not self._started:
                output.prompt_logprobs = self._score_prompt()
        self._started = True
        return output

    def _append(self) -> None:
        sampling = self._sampling
        distribution = self._answer.distribution(self.output)
        if sampling.logit_bias:
            distribution = distribution.biased(sampling.logit_bias)
        too_early = len(self.output) < sampling.min_new_tokens
        forbidden = self._ending_ids if too_early else frozenset()
        token = choose(
            distribution,
            sampling,
            decided=self._answer.decided,
            prompt=self.prompt,
            output=self.output,
            forbidden=forbidden,
            dice=self._dice,
        )
        if self._logprobs is not None:
            self._score(token, distribution)
        self.output.append(token)
        self.finish = self._finish_at(token)

    def _finish_at(self, token: int) -> Finish | None:
        if (stop := self._stops.match(self.output)) is not None:
            return Finish("stop", stop)
        if not self._sampling.ignore_eos and token in self._ending_ids:
            return Finish("stop", token)
        if len(self.output) >= self._max_new_tokens:
            return Finish("length")
        return None

    @property
    def _ending_ids(self) -> frozenset[int]:
        return self._sampling.stop_token_ids.union(self._folder.eos_ids)

    def _score(self, token: int | None, distribution: Distribution) -> None:
        assert self._logprobs is not None
        self._logprobs.append(
            TokenLogprobs(
                token,
                0.0 if token is None else distribution.logprob(token),
                distribution.top(self._request.top_logprobs_num),
                [(each, distribution.logprob(each)) for each in self._request.token_ids_logprob],
            )
        )

    def _score_prompt(self) -> list[PromptLogprobs] | None:
        start = self._request.logprob_start_len
        if not 0 <= start < len(self.prompt):
            return None
        scores = [PromptLogprobs(self.prompt[start], None, [])]
        for position in range(start + 1, len(self.prompt)):
            distribution = self._answers.prompt_distribution(self.prompt, position)
            token = self.prompt[position]
            top = distribution.top(self._request.top_logprobs_num)
            scores.append(PromptLogprobs(token, distribution.logprob(token), top))
        return scores
