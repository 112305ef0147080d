"""The workers of one router telling each other which requests to stop.

A request that is to be stopped is seldom with the worker that is told so. Each worker
listens on a Unix socket in a folder that the master makes for them, and passes on what a
client asks of it; an answer comes once the other has done it, so that when /abort_request
returns, all have. Nobody else may open the folder.

A worker that has died leaves its socket behind, and whoever finds nobody there removes it.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import gevent
import msgspec
from gevent import socket
from gevent.server import StreamServer

logger = logging.getLogger(__name__)

# Seconds. A worker that lives answers at once, unless its event loop is held up.
_PATIENCE = 2.0
_LONGEST_MESSAGE = 16 * 1024
_DONE = b"done"
_UNFINISHED = ".new"


class _Abort(msgspec.Struct):
    """What is told: the client's name of a request, or None for all."""

    rid: str | None


_decoder = msgspec.json.Decoder(_Abort)


class Siblings:
    """The other workers, as one of them sees them.

    Args:
        folder: The sockets' folder, as the master has made it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: StreamServer | None = None
        self._on_abort: Callable[[str | None], None] | None = None
        self._own: Path | None = None

    @staticmethod
    def make_folder() -> Path:
        """Makes the folder, for this user alone, in systemd's place for it if it has one."""
        runtime = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
        return Path(tempfile.mkdtemp(prefix="sglrouter-", dir=runtime or None))

    def remove_folder(self) -> None:
        """Removes it with all sockets in it."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def listen(self, on_abort: Callable[[str | None], None]) -> None:
        """Begins to listen, in the worker.

        Args:
            on_abort: Called with what another worker tells.
        """
        path = self._folder / str(os.getpid())
        unfinished = path.with_suffix(_UNFINISHED)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(unfinished))
            listener.listen()
            # Whoever found it before would take it for a dead worker's.
            unfinished.rename(path)
        except OSError as exc:
            listener.close()
            logger.warning("/abort_request reaches this worker's own requests only: %s: %s",
                           path, exc.strerror or exc)  # fmt: skip
            return
        listener.setblocking(False)
        self._on_abort, self._own = on_abort, path
        self._server = StreamServer(listener, self._handle)
        self._server.start()

    def close(self) -> None:
        """Ends that."""
        if self._server is not None and self._own is not None:
            self._own.unlink(missing_ok=True)
            self._server.close()

    def tell(self, rid: str | None) -> None:
        """Tells all others, and waits until they have done it or are not to be reached."""
        message = msgspec.json.encode(_Abort(rid))
        try:
            paths = [
                path
                for path in self._folder.iterdir()
                if path != self._own and path.suffix != _UNFINISHED
            ]
        except OSError:
            return
        gevent.joinall([gevent.spawn(_send, path, message) for path in paths])

    def _handle(self, client: socket.socket, _address: object) -> None:
        # gevent itself closes the connection.
        client.settimeout(_PATIENCE)
        message = b""
        try:
            while part := client.recv(_LONGEST_MESSAGE):
                message += part
                if len(message) > _LONGEST_MESSAGE:
                    return
            assert self._on_abort is not None
            self._on_abort(_decoder.decode(message).rid)
            client.sendall(_DONE)
        except (OSError, msgspec.DecodeError) as exc:
            logger.warning("a worker could not tell which request to stop: %s", exc)


def _send(path: Path, message: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sender:
        sender.settimeout(_PATIENCE)
        try:
            sender.connect(str(path))
            sender.sendall(message)
            sender.shutdown(socket.SHUT_WR)
            done = sender.recv(len(_DONE)) == _DONE
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except FileNotFoundError:
            pass
        except OSError as exc:
            logger.warning("worker %s was not told which request to stop: %s", path.name, exc)
        else:
            if not done:
                logger.warning("worker %s did not stop a request that it was told of", path.name)
