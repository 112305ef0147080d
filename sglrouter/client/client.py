"""The client: settings, model and engines of one program.

Strategy: what serves HTTP requests serves these, from the checks of a request to the
chunks of its answer; only who asks is another.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from gevent.monkey import is_module_patched

from sglrouter.client.home import home
from sglrouter.client.options import Buffers, Timeouts, checked
from sglrouter.client.stream import ChatCompletionStream
from sglrouter.client.work import Work
from sglrouter.config import Settings
from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.channel import ChannelOptions
from sglrouter.engines.channel.connect import connector
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.engines.tokenizer_fetch import model_directory
from sglrouter.errors import BadRequest, ConfigError, RouterError
from sglrouter.model import load_model
from sglrouter.prompt.encoder import Run, in_place
from sglrouter.serving.answer import Answer
from sglrouter.serving.chat import ChatServing
from sglrouter.serving.service import Service
from sglrouter.setting_sources import check_settings

Request = Mapping[str, Any] | str | bytes

# Of the server alone: they would do nothing here.
SERVER_SETTINGS = frozenset(
    ("host", "port", "workers", "heartbeat", "keepalive", "graceful_timeout",
     "worker_connections", "log_level", "log_dir", "access_log")
)  # fmt: skip

# Bytes that the native channel lets wait for each message of `Buffers.received`.
_MESSAGE_BYTES = 64
_LEAST_WINDOW = 1024


class Client:
    """Chat completions from SGLang engines.

    Connections are made on first use. Threads may share a client; so may the greenlets
    of one thread, in a process that gevent has patched before it imported sglrouter.
    A context manager that closes it.

    Attributes:
        settings: All settings.
        errors: The last failures of streams, the newest last.
    """

    def __init__(
        self,
        engines: str | Sequence[str],
        tokenizer: str | Path = "",
        *,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 (immutable)
        buffers: Buffers = Buffers(),  # noqa: B008
        **settings: object,
    ) -> None:
        """Loads the model's files, which takes a second or two.

        Args:
            engines: Where the engines are, as "grpc://HOST:PORT", or "grpcs://" for TLS;
                one, a list of them, or several separated by commas.
            tokenizer: Folder with tokenizer.json and the model's other files; empty to
                fetch them from an engine.
            timeouts: How long things may take.
            buffers: How much is kept of what nobody has asked for yet.
            **settings: Other settings by name, such as `tool_call_parser`; see
                docs/configuration.md. No environment variable and no file is read for them.

        Raises:
            ConfigError: A setting or a file is wrong, or no engine sends the files.
        """
        for name in settings:
            if name == "engine":
                raise ConfigError("Client: engine: engines are given as the first argument")
            if name in SERVER_SETTINGS:
                raise ConfigError(f"Client: {name}: only a server has this setting")
        given = {"engine": engines, "tokenizer": tokenizer, **settings}
        self._open(check_settings(_plain(given), "Client"), timeouts, buffers)

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        *,
        timeouts: Timeouts = Timeouts(),  # noqa: B008
        buffers: Buffers = Buffers(),  # noqa: B008
    ) -> Self:
        """A client with the settings that sglrouter.setting_sources.load_settings() found, say.

        Args:
            settings: The settings; what only a server has is left aside.
            timeouts: See Client.
            buffers: See Client.

        Raises:
            ConfigError: See Client.
        """
        client = cls.__new__(cls)
        client._open(settings, timeouts, buffers)
        return client

    def _open(self, settings: Settings, timeouts: Timeouts, buffers: Buffers) -> None:
        self._timeouts, self._buffers = checked(timeouts), checked(buffers)
        self.settings = settings = _with_timeouts(settings, timeouts)
        self.errors: deque[RouterError] = deque(maxlen=buffers.errors)
        self._home = home()
        self._running: set[Work] = set()
        self._closed = False
        options = ChannelOptions(
            keepalive=timeouts.keepalive_time,
            keepalive_timeout=timeouts.keepalive_timeout,
            read_ahead=buffers.received,
            window=min(max(buffers.received * _MESSAGE_BYTES, _LEAST_WINDOW), 2**31 - 1),
        )
        connect = connector(settings.channel, options)
        run: Run = in_place
        if is_module_patched("threading"):
            # Elsewhere a long prompt holds up its own thread alone.
            from sglrouter.offload import Offload

            run = Offload(settings.tokenizer_threads)
        model = load_model(settings, model_directory(settings), run)
        self._fleet = Fleet([parse_endpoint(text) for text in settings.engine], connect)
        self._serving = ChatServing(Service(settings, model, self._fleet, self._home.pause))

    def create_chat_completion(self, request: Request) -> dict[str, Any]:
        """Waits for a whole chat completion.

        Args:
            request: As POST /v1/chat/completions takes it (docs/api.md): a mapping, or
                JSON. Whether it says `stream` makes no difference.

        Returns:
            OpenAI's `chat.completion` object.

        Raises:
            BadRequest: The request cannot be served as it is.
            Cancelled: The client was closed meanwhile.
            RouterError: The engine failed.
            RuntimeError: The client is closed, or belongs elsewhere; see docs/library.md.
        """
        answer, work = self._start(request, stream=False)
        with work.turn():
            try:
                body = answer.collect()
            finally:
                work.finish()
        completion: dict[str, Any] = msgspec.json.decode(body)
        return completion

    def create_chat_completion_stream(self, request: Request) -> ChatCompletionStream:
        """Starts a streamed chat completion.

        Args:
            request: See create_chat_completion().

        Returns:
            Its chunks. To be closed, best by `with`, unless it is read to its end.

        Raises:
            BadRequest: The request cannot be served as it is.
            RuntimeError: The client is closed, or belongs elsewhere.
        """
        answer, work = self._start(request, stream=True)
        return ChatCompletionStream(
            answer, work, results=self._buffers.results, on_failure=self.errors.append
        )

    def close(self) -> None:
        """Cancels what is under way, waits for it a little, ends the connections.

        Waits `Timeouts.close_timeout` at most. Whoever waits for a completion gets
        Cancelled. A closed client stays closed; to close it again does nothing.

        Raises:
            RuntimeError: Under gevent, this is not the thread of the client's loop.
        """
        self._home.enter()
        self._closed = True
        deadline = time.monotonic() + self._timeouts.close_timeout
        running = list(self._running)
        for work in running:
            work.cancel()
        for work in running:
            work.over.wait(max(deadline - time.monotonic(), 0.0))
        self._disconnect(deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self, request: Request, *, stream: bool) -> tuple[Answer, Work]:
        self._home.enter()
        if self._closed:
            raise RuntimeError("this client is closed")
        try:
            answer = self._serving.start(self._serving.read(self._body(request), stream=stream))
            work = Work(answer.exchange, self._home, self._running.discard)
            self._running.add(work)
            if self._closed:
                # close() has looked before there was anything to see.
                work.cancel()
        finally:
            if self._closed:
                self._disconnect(time.monotonic() + self._timeouts.close_timeout)
        return answer, work

    def _disconnect(self, deadline: float) -> None:
        # First let engines hear of what has been cancelled.
        self._fleet.settle(max(deadline - time.monotonic(), 0.0))
        self._fleet.close()

    def _body(self, request: Request) -> bytes:
        """The request as a server would get it.

        Raises:
            RouterError: It is not JSON (400), or too large (413).
        """
        try:
            if isinstance(request, bytes):
                body = request
            elif isinstance(request, str):
                body = request.encode()
            else:
                text = json.dumps(request, ensure_ascii=False, allow_nan=False, default=_as_json)
                body = text.encode()
        except (TypeError, ValueError, RecursionError) as exc:
            raise BadRequest(f"The request cannot be written as JSON: {exc}") from exc
        if len(body) > self.settings.max_body:
            raise RouterError(
                f"The request is larger than {self.settings.max_body} bytes",
                status=413,
                type="invalid_request_error",
                code="request_too_large",
            )
        return body


def _as_json(value: object) -> object:
    """What json does not know but can be written all the same."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def _plain(settings: Mapping[str, object]) -> dict[str, object]:
    """The same with paths as text and sequences as lists, as a file has them."""
    plain = {}
    for name, value in settings.items():
        if isinstance(value, os.PathLike):
            plain[name] = os.fspath(value)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            plain[name] = list(value)
        else:
            plain[name] = value
    return plain


def _with_timeouts(settings: Settings, timeouts: Timeouts) -> Settings:
    given = {
        "request_timeout": timeouts.request,
        "first_token_timeout": timeouts.first_token,
        "idle_timeout": timeouts.idle,
    }
    return msgspec.structs.replace(
        settings, **{name: value for name, value in given.items() if value is not None}
    )
