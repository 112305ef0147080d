"""The scheduler: who runs, who waits, who is turned away, who is stopped.

Every running sample is a task that makes a step, hands out what is ready and pauses. A
full queue drops a request without a word, an abort matches ids by prefix and silently
forgets those that still wait, and a deadly request takes everything down when its turn
comes: that is what the real one does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from sglrouter.sim.admission import deadly_because, scheduler_refusal
from sglrouter.sim.answers import Finish
from sglrouter.sim.generation import Generation, Job, Output
from sglrouter.sim.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from sglrouter.sim.answers import AnswerSource
    from sglrouter.sim.model_folder import ModelFolder
    from sglrouter.sim.options import Dialect, SimOptions


logger = logging.getLogger(__name__)


class _Running:
    """A task's sample, and the alarm that ends its pause early."""

    __slots__ = ("aborting", "alarm", "generation", "job")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.generation: Generation | None = None
        self.aborting = False
        self.alarm: asyncio.Future[None] | None = None

    def abort(self) -> None:
        self.aborting = True
        if self.generation is not None:
            self.generation.aborting = True
        if self.alarm is not None and not self.alarm.done():
            self.alarm.set_result(None)

    async def pause(self, seconds: float) -> None:
        if seconds <= 0.0 or self.aborting:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        self.alarm = alarm = loop.create_future()
        timer = loop.call_later(seconds, _ring, alarm)
        try:
            await alarm
        finally:
            timer.cancel()


def _ring(alarm: asyncio.Future[None]) -> None:
    if not alarm.done():
        alarm.set_result(None)


class Scheduler:
    """Runs jobs and delivers their outputs by id.

    `die` is called with the reason when a deadly request runs.
    """

    def __init__(
        self,
        *,
        options: SimOptions,
        dialect: Dialect,
        folder: ModelFolder,
        answers: AnswerSource,
        deliver: Callable[[str, Output], None],
        die: Callable[[str], None],
    ) -> None:
        self._options = options
        self._dialect = dialect
        self._folder = folder
        self._answers = answers
        self._deliver = deliver
        self._die = die
        self._running: dict[_Running, asyncio.Task[None]] = {}
        self._waiting: deque[Job] = deque()
        self.cache = PrefixCache(self.max_total_tokens)

    @property
    def context_length(self) -> int:
        """Tokens of prompt and answer together."""
        return self._options.context_length or self._folder.context_length

    @property
    def max_total_tokens(self) -> int:
        """The size of the KV cache: room for two full contexts."""
        return 2 * self.context_length

    @property
    def running(self) -> int:
        """How many samples run."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many samples wait for their turn."""
        return len(self._waiting)

    @property
    def waiting_tokens(self) -> int:
        """The prompt tokens of those that wait."""
        return sum(len(job.request.tokenized.input_ids) for job in self._waiting)

    @property
    def used_tokens(self) -> int:
        """The prompt and answer tokens of those that run."""
        generations = [running.generation for running in self._running]
        return sum(len(each.prompt) + len(each.output) for each in generations if each)

    def submit(self, job: Job) -> None:
        """Refuses, starts, queues or, with the queue full, forgets a sample."""
        if (words := scheduler_refusal(job.request, self.context_length)) is not None:
            prompt_tokens = len(job.request.tokenized.input_ids)
            finish = Finish("abort", http_status=400, message=words)
            self._deliver(job.rid, Output([], prompt_tokens, 0, 0, finish))
            return
        if self.running < self._options.max_running_requests and not self._waiting:
            self._start(job)
            return
        limit = self._options.max_queued_requests
        if limit is None or self.waiting < limit:
            self._waiting.append(job)

    def abort(self, prefix: str) -> None:
        """Ends every sample whose id starts so; those that wait get no answer at all."""
        self._waiting = deque(job for job in self._waiting if not job.rid.startswith(prefix))
        for running in self._running:
            if running.job.rid.startswith(prefix):
                running.abort()

    def shut_down(self) -> None:
        """Forgets everything at once."""
        self._waiting.clear()
        for task in self._running.values():
            task.cancel()

    def _start(self, job: Job) -> None:
        running = _Running(job)
        task = asyncio.create_task(self._guard(running))
        self._running[running] = task
        task.add_done_callback(lambda _: self._ended(running))

    def _ended(self, running: _Running) -> None:
        del self._running[running]
        while self._waiting and self.running < self._options.max_running_requests:
            self._start(self._waiting.popleft())

    async def _guard(self, running: _Running) -> None:
        try:
            await self._run(running)
        except Exception as error:
            # An exception in the scheduler's process ends a real engine, too.
            logger.exception("simulated scheduler crashed")
            self._die(repr(error))

    async def _run(self, running: _Running) -> None:
        job = running.job
        request = job.request
        if (reason := deadly_because(request, self._folder.vocab_size)) is not None:
            self._die(reason)
            return
        prompt = request.tokenized.input_ids
        reusable = len(prompt) - 1
        if request.return_logprob and request.logprob_start_len >= 0:
            reusable = min(reusable, request.logprob_start_len)
        generation = Generation(
            job,
            cached_tokens=min(self.cache.match(request.lora_id, prompt), reusable),
            context_length=self.context_length,
            folder=self._folder,
            answers=self._answers,
            options=self._options,
            dialect=self._dialect,
        )
        running.generation = generation
        await running.pause(self._options.first_delay)
        self.cache.insert(request.lora_id, prompt)
        while True:
            generation.aborting = running.aborting
            force = generation.step()
            if (output := generation.take_output(force)) is not None:
                self._deliver(job.rid, output)
            if generation.finish is not None:
                break
            await running.pause(self._options.token_delay)
        self.cache.insert(request.lora_id, [*prompt, *generation.output[:-1]])
