"""Many streams, a fifth of whose clients leave: nothing of them stays behind.

The engine echoes, so that each request says by itself what its answer has to be. The
load is played in parts; between them there are no clients, and what lives in the worker
then is compared: descriptors, greenlets and threads, and with little room objects and
memory. For memory it is the second half of the run that counts: the first one fills the
allocator's arenas.

The short form is 600 streams; SGLROUTER_TEST_SOAK_STREAMS=10000 makes it the full one. (The
engine remembers its last 10,000 calls: a part has to have fewer.)
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import socket
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sglrouter.sim import SimOptions, SimulatedEngine
from tests.integration.census import VARIABLE, WORKER_CLASS, Census, ask
from tests.patience import PATIENCE
from tests.processes import RouterProcess, chat_body, sse_data

logger = logging.getLogger(__name__)

pytestmark = pytest.mark.soak

STREAMS = int(os.environ.get("SGLROUTER_TEST_SOAK_STREAMS", "600"))
WARM_UP = 100
PARTS = 4
PLAYERS = 48

# Memory that the second half of a run may add, and a whole one: the noise of an allocator.
# A leak of 400 bytes a stream is more than that in the full form.
HALF_BYTES = 2 << 20
ALL_BYTES = 12 << 20
# Objects that all parts but the first may add: less than one for each client that leaves.
OBJECTS = 30

# fmt: off
WORDS = (
    "The", "capital", "of", "Norway", "is", "Oslo", "São", "Paulo", "🌧", "Köln", "am", "東京",
)
# fmt: on
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
# It is in every event, so that few of them fill the sockets to a client that does not read.
LONG_NAME = "m" * 1000


class Play(msgspec.Struct, frozen=True):
    """What one client does.

    Attributes:
        number: A number of its own.
        message: What it says, and so is told.
        fields: The rest of its request.
        pause: Seconds that it does not read for after the first bytes.
        leaves: After how many content events it leaves; None if it stays, -1 for a
            moment after it has asked.
        patience: The moment for -1, in seconds.
        reset: Whether it leaves by a reset.
        keeps: Whether it keeps the connection for the next client.
    """

    number: int
    message: str
    fields: dict[str, Any]
    pause: float
    leaves: int | None
    patience: float
    reset: bool
    keeps: bool


def plays(count: int, first: int, dice: random.Random) -> Iterator[Play]:
    """The load: of every twenty clients four leave, one of them without having read."""
    for number in range(first, first + count):
        lot = random.Random(number // 20).sample(range(20), 20)[number % 20]
        words = " ".join(dice.choices(WORDS, k=dice.randint(3, 12)))
        message = f"Nr {number}. {words}"
        kind = ("plain", "calls", "plain", "whole", "n", "whole n", "plain", "calls")[number % 8]
        fields: dict[str, Any] = {"stream": "whole" not in kind}
        if kind == "calls":
            arguments = json.dumps({"city": words, "number": number}, ensure_ascii=False)
            message = (
                f"<think>\nHm, {words}\n</think>\n\n{message}\n<tool_call>\n"
                f'{{"name": "weather", "arguments": {arguments}}}\n</tool_call>'
            )
            fields["tools"] = TOOLS
        elif "n" in kind.split():
            fields["n"] = 2
        leaves, pause = None, 0.0
        if lot < 4:
            # The answer goes on for much longer than its client.
            fields |= {"ignore_eos": True, "max_tokens": 6000}
            leaves = -1 if lot == 0 or not fields["stream"] else dice.randint(1, 8)
        if fields["stream"] and lot in (3, 4):
            fields["model"] = LONG_NAME
            pause = dice.uniform(0.4, 0.8)
            if lot == 4:
                message += f" {words}" * (200 // len(words.split()))
        yield Play(
            number=number,
            message=message,
            fields=fields,
            pause=pause,
            leaves=leaves,
            patience=dice.uniform(0.0, 0.06),
            reset=dice.random() < 0.5,
            keeps=dice.random() < 0.7,
        )


class Connection:
    """A client's connection, which reads no more than it is asked to."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self.unread = b""
        # How often it still takes a little and waits.
        self._sips = 0

    async def open(self, port: int, *, slow: bool) -> None:
        if slow:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self._sips = 150
        await self._loop.sock_connect(self._socket, ("127.0.0.1", port))

    async def post(self, body: bytes) -> None:
        await self._loop.sock_sendall(
            self._socket,
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body),
        )

    async def _receive(self) -> None:
        size = 1 << 18
        if self._sips:
            # There is room in the router's socket before the router is told of it.
            self._sips -= 1
            size = 1 << 10
            await asyncio.sleep(0.003)
        piece = await self._loop.sock_recv(self._socket, size)
        assert piece, f"closed after {self.unread[-200:]!r}"
        self.unread += piece

    async def until(self, end: bytes) -> bytes:
        while end not in self.unread:
            await self._receive()
        found, _, self.unread = self.unread.partition(end)
        return found + end

    async def exactly(self, size: int) -> bytes:
        while len(self.unread) < size:
            await self._receive()
        found, self.unread = self.unread[:size], self.unread[size:]
        return found

    async def chunk(self) -> bytes:
        size = int(await self.until(b"\r\n"), 16)
        return (await self.exactly(size + 2))[:-2]

    def close(self, *, reset: bool = False) -> None:
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


async def play_all(port: int, load: Iterator[Play], census: Path) -> Counter[str]:
    """Plays a load to its end; returns how many clients did what."""
    did: Counter[str] = Counter()

    async def look() -> None:
        # A census that did not see what there is would find nothing left behind, either.
        async with asyncio.timeout(PATIENCE):
            while True:
                busy = await asyncio.to_thread(ask, census)
                if min(busy.greenlets, len(busy.files)) > PLAYERS // 2:
                    return
                await asyncio.sleep(0.1)

    async def player() -> None:
        kept: Connection | None = None
        for play in load:
            connection, kept = kept, None
            if connection is None or play.pause:
                if connection is not None:
                    connection.close()
                connection = Connection()
                await connection.open(port, slow=bool(play.pause))
                did["connections"] += 1
            try:
                async with asyncio.timeout(PATIENCE):
                    done = await one(connection, play)
            except BaseException as exc:
                exc.add_note(f"client {play}"[:1000])
                connection.close()
                raise
            did[done] += 1
            did["pauses"] += play.pause > 0
            if done == "completed" and play.keeps and not play.pause:
                kept = connection
            else:
                connection.close(reset=done == "left" and play.reset)
        if kept is not None:
            kept.close()

    async with asyncio.TaskGroup() as group:
        group.create_task(look())
        for _ in range(PLAYERS):
            group.create_task(player())
    return did


async def one(connection: Connection, play: Play) -> str:
    """Plays one client up to its end, or to where it leaves."""
    await connection.post(json.dumps(chat_body(play.message, **play.fields)).encode())
    if play.leaves == -1:
        await asyncio.sleep(play.patience)
        return "left"
    head = (await connection.until(b"\r\n\r\n")).lower()
    assert head.startswith(b"http/1.1 200 "), head + connection.unread
    if not play.fields["stream"]:
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        check_whole(play, await connection.exactly(length))
        return "completed"
    body = b""
    await asyncio.sleep(play.pause)
    if play.pause and play.leaves is not None:
        return "left"
    while chunk := await connection.chunk():
        body += chunk
        if play.leaves is not None and body.count(b'"content":') > play.leaves:
            return "left"
    check_stream(play, body)
    return "completed"


def expected(play: Play) -> tuple[str, str, list[Any], str]:
    """Reasoning, content, calls and finish reason of the answer to a message."""
    if "tools" not in play.fields:
        return "", play.message, [], "stop"
    thought, _, rest = play.message.removeprefix("<think>").partition("</think>")
    content, _, call = rest.partition("<tool_call>")
    call, _, after = call.partition("</tool_call>")
    return thought, content + after, [json.loads(call)], "tool_calls"


def check_whole(play: Play, body: bytes) -> None:
    """The answer in one piece is what was said, in each of its choices."""
    choices = json.loads(body)["choices"]
    assert [choice["index"] for choice in choices] == list(range(play.fields.get("n", 1)))
    for choice in choices:
        assert (choice["message"]["content"], choice["finish_reason"]) == (play.message, "stop")


def check_stream(play: Play, body: bytes) -> None:
    """The joined deltas are what was said, in each of the choices."""
    *events, done = sse_data(body.decode())
    assert done == "[DONE]"
    joined: defaultdict[int, dict[str, str]] = defaultdict(lambda: defaultdict(str))
    for event in events:
        for choice in json.loads(event)["choices"]:
            said, delta = joined[choice["index"]], choice["delta"]
            said["finish"] += choice["finish_reason"] or ""
            said["reasoning"] += delta.get("reasoning_content") or ""
            said["content"] += delta.get("content") or ""
            for call in delta.get("tool_calls", []):
                said["name"] += call["function"].get("name") or ""
                said["arguments"] += call["function"].get("arguments") or ""
    assert sorted(joined) == list(range(play.fields.get("n", 1)))
    for said in joined.values():
        calls = []
        if said["name"]:
            calls = [{"name": said["name"], "arguments": json.loads(said["arguments"])}]
        got = (said["reasoning"], said["content"], calls, said["finish"])
        assert got == expected(play)


@pytest.fixture(scope="module")
def engine(tiny_model: Path) -> Iterator[SimulatedEngine]:
    options = SimOptions(answer="echo", first_delay=0.02, token_delay=0.004, tokens_per_chunk=2)
    with SimulatedEngine(options) as engine:
        yield engine


@pytest.fixture
def census(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The socket of routers started after this."""
    path = tmp_path / "census"
    monkeypatch.setenv(VARIABLE, str(path))
    monkeypatch.setenv("GUNICORN_CMD_ARGS", f"--worker-class {WORKER_CLASS}")
    return path


@pytest.fixture
def soaked(census: Path, engine: SimulatedEngine, tiny_model: Path) -> Iterator[RouterProcess]:
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "tool_call_parser": "qwen25",
            "reasoning_parser": "qwen3",
            # It fills up with what all these clients say, up to its bound.
            "tokenizer_cache": 0,
        }
    )
    router.start()
    yield router
    router.stop()


class Calls:
    """The engine's calls so far, told apart by the clients they were made for.

    The engine keeps the latest ones only, so each part of a run is taken in.
    """

    def __init__(self) -> None:
        self._ids: dict[str, bool] = {}

    def take(self, engine: SimulatedEngine, left: set[int]) -> None:
        """Takes in what is new; `left` are the numbers of the clients that have left."""
        for request in engine.requests:
            if request.request_id not in self._ids:
                text = request.tokenized.original_text.rpartition("Nr ")[2]
                self._ids[request.request_id] = int(text.partition(".")[0]) in left

    def check(self, engine: SimulatedEngine) -> int:
        """Of who left each call was cancelled once, and none of anybody else."""
        cancelled = Counter(engine.cancelled)
        assert cancelled == Counter(each for each, left in self._ids.items() if left)
        # Whether the engine is told by name, too, is not for this test to say.
        aborted = Counter(engine.aborted)
        assert aborted == Counter(set(aborted))
        assert not [each for each in aborted if not self._ids.get(each, True)]
        return len(cancelled)


@pytest.mark.timeout(600)
def test_nothing_stays_behind(soaked: RouterProcess, engine: SimulatedEngine, census: Path) -> None:
    dice = random.Random(1)
    calls = Calls()
    did: Counter[str] = Counter()

    def play(count: int, first: int, like: Census | None = None) -> Census:
        load = list(plays(count, first, dice))
        did.update(asyncio.run(play_all(soaked.port, iter(load), census)))
        measured = at_rest(census, like)
        engine.wait_until(lambda: engine.active == 0 and engine.running == 0, PATIENCE)
        calls.take(engine, {each.number for each in load if each.leaves is not None})
        calls.check(engine)
        logger.info("%d streams: %s", first + count, measured.summary())
        return measured

    soaked.http.close()
    before = play(WARM_UP, 0)
    did.clear()
    started = time.monotonic()
    size = STREAMS // PARTS
    parts = [play(size, WARM_UP + part * size, before) for part in range(PARTS)]
    cancelled = calls.check(engine)
    seconds = time.monotonic() - started
    logger.info("%.1f s, %s, %d calls cancelled", seconds, dict(did), cancelled)

    for after in parts:
        assert after.pid == before.pid, soaked.log
        assert after.files == before.files
        # A thread that a name was looked up in may have ended since.
        assert after.greenlets <= before.greenlets
        assert after.threads <= before.threads
    half, last = parts[PARTS // 2 - 1], parts[-1]
    assert last.all_objects - parts[0].all_objects < OBJECTS, last.growth(parts[0])
    assert last.rss - half.rss < HALF_BYTES
    assert last.rss - before.rss < ALL_BYTES
    assert "Traceback" not in soaked.log
    assert "[ERROR]" not in soaked.log

    # All of it has happened.
    assert did["completed"] + did["left"] == size * PARTS
    assert did["left"] == STREAMS // 5
    assert did["left"] * 0.5 < cancelled
    assert STREAMS * 0.4 < did["connections"] < STREAMS * 0.9
    assert last.stalls - before.stalls > STREAMS // 50


def at_rest(census: Path, like: Census | None = None) -> Census:
    """The worker once the last clients are gone from it, which takes a moment.

    On a busy machine it may take several: while there is more than in `like`, it is waited for.
    """
    deadline = time.monotonic() + PATIENCE
    now, same = ask(census), 0
    while same < 3 or (like is not None and now.files != like.files):
        if time.monotonic() >= deadline:
            assert same >= 3, f"the worker has no rest: {now}"
            break
        time.sleep(0.2)
        earlier, now = now, ask(census)
        alike = (now.files, now.greenlets) == (earlier.files, earlier.greenlets)
        same = same + 1 if alike else 0
    return now
