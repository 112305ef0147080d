"""What connections serve plain requests with, and what gunicorn wants to hear of them.

Strategy: what gunicorn makes for each request is made once here: the environment that all
requests of a connection have in common, the fields that all responses begin with. gunicorn's
limits and access log hold for these requests as for all others. Where its configuration asks
for what callbacks cannot do, no request is plain.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from time import time
from types import SimpleNamespace
from typing import Any

import gunicorn.config
import gunicorn.util
from gunicorn import SERVER
from gunicorn.http.message import (
    DEFAULT_MAX_HEADERFIELD_SIZE,
    MAX_HEADERS,
    MAX_REQUEST_LINE,
    HeaderPolicy,
)
from gunicorn.http.wsgi import base_environ

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.request_reader import RequestReader
from sglrouter.http.clock import Clock
from sglrouter.server.direct_client import WaitingClients
from sglrouter.server.idle_connections import Room

# A larger body is read in a greenlet: it takes long to deal with.
MOST_BODY = 64 * 1024


class PlainServing:
    """What all connections of a worker serve plain requests with.

    Args:
        worker: The worker.
        application: The WSGI application.
        room: The worker's.
        waiting: The clients that wait for an answer.
        clock: The worker's.

    Attributes:
        worker: As given, like the others.
        keepalive: Seconds that a connection may be idle.
    """

    def __init__(
        self,
        worker: Any,
        application: Callable[..., Any],
        room: Room,
        waiting: WaitingClients,
        clock: Clock,
    ) -> None:
        self.worker = worker
        self.application = application
        self.room = room
        self.waiting = waiting
        self.clock = clock
        cfg = self._cfg = worker.cfg
        self.keepalive: float = cfg.keepalive
        self._environ = {
            **base_environ(cfg),
            "wsgi.multithread": True,
            "wsgi.url_scheme": "http",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "SCRIPT_NAME": "",
        }
        line, fields, field = (
            cfg.limit_request_line,
            cfg.limit_request_fields,
            cfg.limit_request_field_size,
        )
        self._limits = (
            line if 0 < line < MAX_REQUEST_LINE else MAX_REQUEST_LINE,
            fields if 0 < fields < MAX_HEADERS else MAX_HEADERS,
            field if field > 0 else DEFAULT_MAX_HEADERFIELD_SIZE,
            MOST_BODY,
        )
        self._second = 0
        self._fields = ("", "")

    def reader(self, sock: Any, address: Sequence[Any], server: Sequence[Any]) -> RequestReader:
        """Makes what reads a connection.

        Args:
            sock: Its socket.
            address: The client's, as (host, port, ...).
            server: The one that it has connected to, in the same form.
        """
        base = {
            **self._environ,
            "gunicorn.socket": sock,
            "REMOTE_ADDR": address[0],
            "REMOTE_PORT": str(address[1]),
            "SERVER_NAME": server[0],
            "SERVER_PORT": str(server[1]),
        }
        return RequestReader(sock.fileno(), base, _says_https(self._cfg, address), self._limits)

    def begin(self, environ: Mapping[str, Any]) -> Record | None:
        """Counts a request; returns what is to hear of its end, if anything is."""
        worker = self.worker
        worker.nr += 1
        if worker.nr >= worker.max_requests and worker.alive:
            worker.log.info("Autorestarting worker after current request.")
            worker.alive = False
        return Record(worker.log, environ) if worker.log.access_log_enabled else None

    def give_back(self) -> None:
        """Says that the last request will be served, and counted, in another way."""
        self.worker.nr -= 1

    def common_fields(self, closes: bool) -> str:
        """The fields that every response begins with."""
        now = int(time())
        if now != self._second:
            self._second = now
            fields = f"Server: {SERVER}\r\nDate: {gunicorn.util.http_date()}\r\nConnection: "
            self._fields = (f"{fields}keep-alive\r\n", f"{fields}close\r\n")
        return self._fields[closes]


class Record:
    """A request for the access log.

    Args:
        log: gunicorn's.
        environ: The request's.
    """

    def __init__(self, log: Any, environ: Mapping[str, Any]) -> None:
        self._log = log
        self._environ = environ
        self._begun = datetime.now()

    def end(
        self, status: str, headers: Sequence[tuple[str, str]], writer: BodyWriter | None
    ) -> None:
        """Writes the line.

        Args:
            status: Of the response.
            headers: The same.
            writer: What has written it; None if nothing has been sent.
        """
        environ = self._environ
        fields = [
            (key.removeprefix("HTTP_").replace("_", "-"), value)
            for key, value in environ.items()
            if key.startswith("HTTP_") or key in ("CONTENT_TYPE", "CONTENT_LENGTH")
        ]
        sent = 0 if writer is None else writer.written
        response = SimpleNamespace(status=status, headers=headers, sent=sent)
        self._log.access(response, fields, environ, datetime.now() - self._begun)


def allows_callbacks(cfg: Any) -> bool:
    """Whether gunicorn's configuration lets plain requests be served in callbacks."""
    return (
        bool(cfg.keepalive)
        and not cfg.is_ssl
        and cfg.proxy_protocol in (False, "off")
        and "SCRIPT_NAME" not in os.environ
        # Hooks may do what they like, and wait.
        and _is_default(cfg, "pre_request")
        and _is_default(cfg, "post_request")
    )


def _is_default(cfg: Any, name: str) -> bool:
    return cfg.settings[name].get() is gunicorn.config.Config().settings[name].get()


def _says_https(cfg: Any, address: Sequence[Any]) -> dict[str, str]:
    """What a peer may say, and where, about the client's side of it; see RequestReader."""
    policy = HeaderPolicy()
    policy.cfg, policy.peer_addr = cfg, address
    fields, _ = policy._peer_trusted_for_forwarded()
    return {f"HTTP_{name.replace('-', '_')}": value for name, value in fields.items()}
