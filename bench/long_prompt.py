"""What a long prompt does to the other streams of its worker.

A simulated engine answers fifty streams with a token every 10 ms through a router with
one worker. The time between two arrivals on the same stream is measured, first with
nothing else going on, then while prompts of a megabyte are posted one after another,
each of them different. They are tokenized, and then refused, for they do not fit the
model's context: engine and load share a core, and the engine shall not be what is
measured. With and without fastokens, if it is installed.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from servers import Engine, Router, split_cores

from sglrouter.sim.options import TINY_MODEL

_PATIENCE = 60.0
_ID = 300  # any token of the model's


class Gaps(NamedTuple):
    """Milliseconds between arrivals on a stream, sorted, and what else was done meanwhile."""

    values: list[float]
    prompts: int
    prompt_ms: float

    def percentile(self, share: float) -> float:
        """The gap that this share of all gaps does not exceed."""
        return self.values[min(len(self.values) - 1, int(len(self.values) * share))]


def main() -> int:
    """Runs what the command line asks for; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    add = parser.add_argument
    add("--secs", type=float, default=2.0, help="seconds of each run (default: %(default)s)")
    add("--rounds", type=int, default=3, help="runs, of which the best counts (default: 3)")
    add("--streams", type=int, default=50, help="streams that go on (default: %(default)s)")
    add("--bytes", type=int, default=1_000_000, help="size of the prompt (default: %(default)s)")
    add("--model", type=Path, default=TINY_MODEL, help="its tokenizer (default: the tiny model)")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    router_cores, other_cores = split_cores()
    os.sched_setaffinity(0, other_cores)
    libraries = ["fastokens", "tokenizers"]
    if importlib.util.find_spec("fastokens") is None:
        print("fastokens is not installed: pip install 'sglrouter[fast]'\n")
        libraries = ["tokenizers"]
    bodies = [_long_body(args.bytes, seed) for seed in range(8)]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In front of the installed one, and not to be imported.
        (folder / "fastokens.py").write_text("raise ImportError\n")
        script = folder / "script.json"
        script.write_text(json.dumps([_ID] * int(args.secs * 100)))
        # An engine dies of ids that its model has not: it gets the same one.
        options = ["--delay-ms", "10", "--model", str(args.model)]
        with Engine(script, options, other_cores) as engine:
            for library in libraries:
                hidden = {"PYTHONPATH": str(folder)} if library == "tokenizers" else {}
                settings = {"tokenizer": args.model, "chat_template": _template(folder)}
                with Router(
                    engine.address(), "auto", router_cores, settings=settings, environment=hidden
                ) as router:
                    router.wait_until_ready()
                    prompts = 0
                    for long in (False, True):
                        runs = [
                            _measure(router.port, args.streams, bodies if long else [])
                            for _ in range(args.rounds)
                        ]
                        prompts += sum(run.prompts for run in runs)
                        # Noise only ever adds.
                        rows.append((library, min(runs, key=lambda run: run.percentile(0.99))))
                    if _offloaded(router.port) < prompts:
                        print("FAILED: prompts were not tokenized in threads", file=sys.stderr)
                        return 1
    _print(rows)
    return 0


def _template(folder: Path) -> Path:
    """Of any model's, and cheap: the template is not what is measured."""
    path = folder / "template.jinja"
    path.write_text("{% for message in messages %}{{ message.content }}\n{% endfor %}")
    return path


def _long_body(size: int, seed: int) -> bytes:
    """A request whose prompt no other has."""
    words = (TINY_MODEL / "corpus.txt").read_text("utf-8").split()
    dice = random.Random(seed)
    text: list[str] = []
    length = 0
    while length < size:
        word = dice.choice(words)
        text.append(word)
        length += len(word) + 1
    return json.dumps({"messages": [{"role": "user", "content": " ".join(text)}]}).encode()


def _measure(port: int, streams: int, bodies: list[bytes]) -> Gaps:
    body = json.dumps(
        {"messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 100_000}
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    sockets = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(streams)]
    for stream in sockets:
        stream.sendall(head.encode() + body)
    done = threading.Event()
    times: list[float] = []
    poster = threading.Thread(target=_post, args=(port, bodies, done, times))
    # All streams are under way first.
    threading.Timer(0.3, poster.start).start()
    try:
        values = _gaps(sockets)
    finally:
        done.set()
        for stream in sockets:
            stream.close()
    poster.join()
    prompt_ms = sum(times) / len(times) * 1e3 if times else 0.0
    return Gaps(sorted(values), len(times), prompt_ms)


def _gaps(sockets: list[socket.socket]) -> list[float]:
    poll = select.epoll()
    last: dict[int, float] = {}
    for stream in sockets:
        poll.register(stream, select.EPOLLIN)
    by_number = {stream.fileno(): stream for stream in sockets}
    ends = dict.fromkeys(by_number, b"")
    gaps: list[float] = []
    while by_number:
        ready = poll.poll(_PATIENCE)
        assert ready, "a stream has stopped"
        for number, _ in ready:
            data = by_number[number].recv(65536)
            now = time.perf_counter()
            if number in last:
                gaps.append((now - last[number]) * 1e3)
            last[number] = now
            ends[number] = (ends[number] + data)[-64:]
            if not data or b"[DONE]" in ends[number]:
                assert data, f"a stream was cut: {ends[number]!r}"
                poll.unregister(number)
                del by_number[number]
    poll.close()
    return gaps


def _post(port: int, bodies: list[bytes], done: threading.Event, times: list[float]) -> None:
    """Posts the long prompts in turn until the streams are done."""
    if not bodies:
        return
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    while not done.is_set():
        since = time.perf_counter()
        connection.request(
            "POST",
            "/v1/chat/completions",
            bodies[len(times) % len(bodies)],
            {"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        answer = json.loads(response.read())
        assert answer["error"]["code"] == "context_length_exceeded", answer
        times.append(time.perf_counter() - since)
    connection.close()


def _offloaded(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    connection.request("GET", "/health")
    counts: dict[str, int] = json.loads(connection.getresponse().read())["tokenizer"]
    connection.close()
    return counts["offloaded"]


def _print(rows: list[tuple[str, Gaps]]) -> None:
    print("| library    | long prompts | ms each | gap ms p50 |   p99 |  99.9 |   max |")
    print("|------------|--------------|---------|------------|-------|-------|-------|")
    for library, gaps in rows:
        print(
            f"| {library:10} | {gaps.prompts:12} | {gaps.prompt_ms:7.1f} "
            f"| {gaps.percentile(0.5):10.1f} | {gaps.percentile(0.99):5.1f} "
            f"| {gaps.percentile(0.999):5.1f} | {gaps.values[-1]:5.1f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
