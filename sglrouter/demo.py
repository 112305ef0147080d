"""`sglrouter demo`: the whole thing on one machine, with nothing to download.

The simulated engine and the router are the same processes that a user would start,
on loopback ports. The question's answer is printed as it streams.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from types import FrameType

from sglrouter.server.taken_port import refuse_taken_port
from sglrouter.sim.options import TINY_MODEL

_PATIENCE = 60.0


def run_demo(port: int, question: str) -> int:
    """Starts engine and router, asks the question, and stays up until Ctrl-C.

    Args:
        port: The router's port; 0 takes a free one.
        question: What to ask.

    Returns:
        The exit status: 0 after Ctrl-C or SIGTERM, 1 if something did not start.

    Raises:
        ConfigError: The port cannot be listened on.
    """
    if port:
        refuse_taken_port("127.0.0.1", port, "--port N, or PORT=N ./run.sh")
    signal.signal(signal.SIGTERM, _interrupt)
    engine_port = _free_port()
    port = port or _free_port()
    children = []
    try:
        children.append(_start("sim", "--port", str(engine_port), "--delay-ms", "20"))
        children.append(
            _start(
                "serve",
                *("--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
                *("--engine", f"grpc://127.0.0.1:{engine_port}"),
                *("--tokenizer", str(TINY_MODEL), "--model-name", "tiny"),
            )
        )
        if not _wait_until_ready(port, children):
            _say("The demo did not start: see the messages above.\n")
            return 1
        _say(f"\n> {question}\n")
        _ask(port, question)
        body = json.dumps(
            {"model": "tiny", "messages": [{"role": "user", "content": question}], "stream": True}
        )
        _say(
            f"\nServing on http://127.0.0.1:{port} until Ctrl-C. Try:\n\n"
            f"curl -N http://127.0.0.1:{port}/v1/chat/completions "
            f"-H 'Content-Type: application/json' -d {shlex.quote(body)}\n\n"
        )
        while all(child.poll() is None for child in children):
            time.sleep(0.5)
        _say("A part of the demo has ended.\n")
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        for child in reversed(children):
            child.terminate()
        for child in children:
            child.wait()


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 (our own command)
        [sys.executable, "-P", "-m", "sglrouter", *arguments],
        env={**os.environ, "SGLROUTER_LOG_LEVEL": "warning"},
    )


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(port: int, children: list[subprocess.Popen[bytes]]) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and all(child.poll() is None for child in children):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return True
        except OSError:
            pass
        time.sleep(0.1)
    return False


def _ask(port: int, question: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    body = {"model": "tiny", "messages": [{"role": "user", "content": question}], "stream": True}
    connection.request(
        "POST",
        "/v1/chat/completions",
        json.dumps(body),
        {"Content-Type": "application/json"},
    )
    response = connection.getresponse()
    for line in response:
        if line.startswith(b"data: {"):
            chunk = json.loads(line.removeprefix(b"data: "))
            for choice in chunk.get("choices", ()):
                _say(choice["delta"].get("content") or "")
    _say("\n")
    connection.close()
