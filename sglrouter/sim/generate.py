"""The calls that do work: Generate, Embed, Abort.

Generate opens mailboxes, submits its samples and writes what arrives; how a sample ends
and in which words is the scheduler's. With n > 1 a hidden request fills the prefix cache
first. A streaming call then runs its samples side by side in one queue; any other call
runs them one after another and sends all at the end, every one with index 0.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from functools import lru_cache
from typing import TYPE_CHECKING

import grpc

from sglrouter._proto import legacy
from sglrouter._proto import scheduler as pb
from sglrouter.sim import messages
from sglrouter.sim.admission import INPUT_RESERVE, InvalidRequestError, check_readable
from sglrouter.sim.calls import metadata_of
from sglrouter.sim.generation import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from sglrouter.sim.calls import CallLog
    from sglrouter.sim.connections import Connections
    from sglrouter.sim.faults import Fault, FaultQueue
    from sglrouter.sim.generation import Output
    from sglrouter.sim.mailboxes import Mailboxes, Queue
    from sglrouter.sim.model_folder import ModelFolder
    from sglrouter.sim.options import Dialect, SimOptions
    from sglrouter.sim.scheduler import Scheduler

    GenerateContext = grpc.aio.ServicerContext[pb.GenerateRequest, messages.Reply]
    EmbedReply = pb.EmbedResponse | legacy.EmbedResponse
    EmbedContext = grpc.aio.ServicerContext[pb.EmbedRequest, EmbedReply]
    AbortContext = grpc.aio.ServicerContext[pb.AbortRequest, pb.AbortResponse]


class _Closed(Exception):
    """The call ends here, with status OK."""


class GenerateCalls:
    """The handlers of Generate, Embed and Abort."""

    def __init__(
        self,
        *,
        options: SimOptions,
        dialect: Dialect,
        folder: ModelFolder,
        scheduler: Scheduler,
        mailboxes: Mailboxes,
        faults: FaultQueue,
        log: CallLog,
        connections: Connections,
        die: Callable[[str], None],
    ) -> None:
        self._options = options
        self._dialect = dialect
        self._folder = folder
        self._scheduler = scheduler
        self._mailboxes = mailboxes
        self._faults = faults
        self._log = log
        self._connections = connections
        self._die = die
        self.stopping = False

    async def generate(self, request: pb.GenerateRequest, context: GenerateContext) -> None:
        """Serves Generate."""
        self._log.metadata.append(metadata_of(context))
        self._log.requests.append(request)
        replies = _Replies(context, self._faults.take(), self._connections, self._die)
        with self._log.live():
            try:
                await replies.meet_fault()
                await self._answer(request, replies)
            except _Closed:
                return
            except asyncio.CancelledError:
                if not self.stopping:
                    self._log.cancelled.append(request.request_id)
                raise

    async def _answer(self, request: pb.GenerateRequest, replies: _Replies) -> None:
        try:
            check_readable(request, self._dialect)
        except InvalidRequestError as error:
            await self._refuse(request, replies, str(error), 500)
        if self._options.embedding:
            await asyncio.Event().wait()
        base, samples = request.request_id, request.sampling_params.n
        if samples <= 1:
            await self._run([Job(base, request)], request, replies)
            return
        prefix = Job(f"{base}-prefix", request, prefix_only=True)
        await self._run([prefix], request, None)
        jobs = [Job(f"{base}-{index}", request) for index in range(samples)]
        if request.stream:
            await self._run(jobs, request, replies)
            return
        outputs = [await self._run([job], request, None) for job in jobs]
        for output in outputs:
            await self._send(request, output, 0, replies)

    async def _run(
        self, jobs: list[Job], request: pb.GenerateRequest, replies: _Replies | None
    ) -> Output:
        # Returns the last output; sends everything if there is somebody to send it to.
        queue: Queue = asyncio.Queue()
        live = {job.rid for job in jobs}
        for index, job in enumerate(jobs):
            self._mailboxes.open(job.rid, queue, index)
            self._scheduler.submit(job)
        try:
            while True:
                index, output = await queue.get()
                if replies is not None:
                    await self._send(request, output, index, replies)
                if output.finish is not None:
                    live.discard(jobs[index].rid)
                    if not live:
                        return output
        finally:
            # Left before the end: the engine stops, by prefix as always.
            for rid in live:
                self._mailboxes.close(rid)
                self._scheduler.abort(rid)
            for job in jobs:
                self._mailboxes.discard(job.rid)

    async def _send(
        self, request: pb.GenerateRequest, output: Output, index: int, replies: _Replies
    ) -> None:
        finish = output.finish
        if finish is not None and finish.http_status and not self._dialect.refusal_is_abort:
            await self._refuse(request, replies, finish.message, finish.http_status)
        if request.stream:
            if finish is not None and finish.http_status:
                await replies.write(
                    messages.complete(request.request_id, output, index, self._dialect)
                )
                return
            for message in messages.streamed(request.request_id, output, index, self._dialect):
                await replies.write(message)
        else:
            await replies.write(messages.complete(request.request_id, output, 0, self._dialect))

    async def _refuse(
        self, request: pb.GenerateRequest, replies: _Replies, words: str, http_status: int
    ) -> None:
        if self._dialect.in_band_errors:
            await replies.write(messages.failure(request.request_id, words, http_status))
            raise _Closed
        await replies.context.abort(grpc.StatusCode.INVALID_ARGUMENT, words)

    async def embed(self, request: pb.EmbedRequest, context: EmbedContext) -> EmbedReply:
        """Serves Embed."""
        self._log.embeds.append(request)
        with self._log.live():
            ids = list(request.tokenized.input_ids)
            if not request.HasField("tokenized"):
                return await self._embed_error(
                    request,
                    context,
                    grpc.StatusCode.INVALID_ARGUMENT,
                    "Tokenized input must be provided",
                )
            if len(ids) >= self._scheduler.context_length - INPUT_RESERVE:
                await asyncio.Event().wait()
            if not self._options.embedding:
                return await self._embed_error(
                    request, context, grpc.StatusCode.INTERNAL, "'embedding'"
                )
            if not ids or max(ids) >= self._folder.vocab_size:
                self._die("an Embed call with no ids or ids past the vocabulary")
                await asyncio.Event().wait()
            await asyncio.sleep(self._options.first_delay)
            vector = embedding(ids, self._folder.embedding_size)
            if self._dialect.in_band_errors:
                return legacy.EmbedResponse(
                    request_id=request.request_id,
                    complete=legacy.EmbedComplete(
                        embedding=vector, prompt_tokens=len(ids), embedding_dim=len(vector)
                    ),
                )
            return pb.EmbedResponse(
                embedding=vector, prompt_tokens=len(ids), embedding_dim=len(vector)
            )

    async def _embed_error(
        self, request: pb.EmbedRequest, context: EmbedContext, code: grpc.StatusCode, words: str
    ) -> legacy.EmbedResponse:
        if not self._dialect.in_band_errors:
            await context.abort(code, words)
        return legacy.EmbedResponse(
            request_id=request.request_id,
            error=legacy.EmbedError(message=words, code=code.name),
        )

    async def abort(self, request: pb.AbortRequest, _context: AbortContext) -> pb.AbortResponse:
        """Serves Abort: success for any id, and silence for the call that has it."""
        rid = request.request_id
        self._log.aborted.append(rid)
        if rid.startswith("HEALTH_CHECK"):
            return pb.AbortResponse(success=False, message=f"Request {rid} not found")
        self._mailboxes.close(rid)
        self._scheduler.abort(rid)
        return pb.AbortResponse(success=True, message=f"Request {rid} aborted")


class _Replies:
    """Writes a call's messages until its fault, if it has one, strikes."""

    def __init__(
        self,
        context: GenerateContext,
        fault: Fault | None,
        connections: Connections,
        die: Callable[[str], None],
    ) -> None:
        self.context = context
        self._fault = fault
        self._connections = connections
        self._die = die
        self._sent = 0

    async def write(self, message: messages.Reply) -> None:
        await self.context.write(message)
        self._sent += 1
        await self.meet_fault()

    async def meet_fault(self) -> None:
        fault = self._fault
        if fault is None or fault.after != self._sent:
            return
        match fault.action:
            case "fail":
                await self.context.abort(fault.code, fault.message)
            case "close":
                raise _Closed
            case "die":
                self._die("a fault on demand")
            case "drop":
                self._connections.drop(self.context.peer())
        # Nothing comes any more; a cut or dead connection cancels the call.
        await asyncio.Event().wait()


def embedding(ids: list[int], size: int) -> list[float]:
    """A unit vector that depends on all ids and a little on their order."""
    total = [0.0] * size
    for position, token in enumerate(ids):
        weight = 1.0 + 1.0 / (1.0 + position)
        for axis, value in enumerate(_token_vector(token, size)):
            total[axis] += weight * value
    length = math.sqrt(sum(value * value for value in total))
    return [value / length for value in total]


@lru_cache(maxsize=4096)
def _token_vector(token: int, size: int) -> tuple[float, ...]:
    data = hashlib.shake_256(token.to_bytes(8, "little")).digest(2 * size)
    words = (int.from_bytes(data[at : at + 2], "little") for at in range(0, 2 * size, 2))
    return tuple(word / 32767.5 - 1.0 for word in words)
