"""Routers as processes: real gunicorn, real gevent, real gRPC."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import openai

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]
# Not the module's generator: tests set its seed.
_random = random.SystemRandom()


def free_port() -> int:
    """A port that was free a moment ago, and that no system gives out by itself.

    Drawn at random, since other test processes look for ports at the same time.
    """
    while True:
        port = _random.randrange(10_240, 32_768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class RouterProcess:
    """`gunicorn -c deploy/gunicorn.conf.py` with settings in its environment."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        values = {"port": self.port, "workers": 1, **settings}
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SGL")},
            **{f"SGLROUTER_{name.upper()}": str(value) for name, value in values.items()},
        }
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by stop)
        self._process: subprocess.Popen[bytes] | None = None
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE)
        self._clients: list[openai.OpenAI] = []

    @property
    def log(self) -> str:
        """All that the router has logged."""
        self._log.seek(0)
        return self._log.read()

    @property
    def pid(self) -> int:
        """The master's process id."""
        assert self._process is not None
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """Starts gunicorn; by default waits until it answers."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"],
            cwd=ROOT,
            env=self._environment,
            stdout=self._log,
            stderr=self._log,
        )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Waits for the first answer; AssertionError with the log if none comes."""
        assert self._process is not None
        # A large vocabulary takes seconds to load, and minutes on a machine full of other work.
        deadline = time.monotonic() + 5 * PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if self.http.get("/liveness").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError(f"the router did not start:\n{self.log}")

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the master."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Waits for the end; returns the exit status."""
        assert self._process is not None
        return self._process.wait(timeout)

    def stop(self) -> None:
        """Ends the router, whatever it does."""
        self.http.close()
        for client in self._clients:
            client.close()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def openai(self) -> openai.OpenAI:
        """The official client, without retries; it ends with the router."""
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)
        self._clients.append(client)
        return client

    def chat(self, content: str = "Hello", /, **fields: Any) -> httpx.Response:
        """Posts a chat completion and returns the response, read to its end."""
        return self.http.post("/v1/chat/completions", json=chat_body(content, **fields))

    def stream(self, content: str = "Hello", /, **fields: Any) -> list[dict[str, Any]]:
        """Posts a streamed chat completion and returns its events, `[DONE]` checked."""
        response = self.chat(content, stream=True, **fields)
        assert response.status_code == 200, response.text
        events = list(sse_data(response.text))
        assert events[-1] == "[DONE]", events
        chunks = [json.loads(event) for event in events[:-1]]
        assert not [chunk for chunk in chunks if "error" in chunk], (chunks[-1], self.log)
        return chunks


def chat_body(content: str = "Hello", /, **fields: Any) -> dict[str, Any]:
    """A request body for one user message."""
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], **fields}


def sse_data(text: str) -> Iterator[str]:
    """The data of each event of a stream, strictly: blocks of one data line or a comment."""
    assert text.endswith("\n\n"), text[-80:]
    for block in text[:-2].split("\n\n"):
        if block.startswith(":"):
            continue
        assert block.startswith("data: "), block
        assert "\n" not in block, block
        yield block.removeprefix("data: ")


def joined(events: list[dict[str, Any]], index: int = 0) -> str:
    """The content of one choice, from its chunks."""
    return "".join(
        choice["delta"].get("content") or ""
        for event in events
        for choice in event["choices"]
        if choice["index"] == index
    )


def finish_reason(events: list[dict[str, Any]], index: int = 0) -> str:
    """Why a choice ended; AssertionError unless exactly one chunk says so."""
    reasons = [
        choice["finish_reason"]
        for event in events
        for choice in event["choices"]
        if choice["index"] == index and choice["finish_reason"] is not None
    ]
    assert len(reasons) == 1, reasons
    reason: str = reasons[0]
    return reason
