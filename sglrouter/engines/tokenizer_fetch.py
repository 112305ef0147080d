"""Fetches a model's tokenizer files from an engine.

The engine streams a ZIP archive with its digest. The archive is checked, unpacked
within bounds into a folder named by the digest, and found there the next time, by
any process. Run as a module it prints that folder, or what is wrong.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from subprocess import PIPE, run
from threading import Event

import msgspec

from sglrouter.config import Settings, cache_directory
from sglrouter.endpoint import Endpoint, parse_endpoint
from sglrouter.engines.channel.channel import Channel
from sglrouter.engines.channel.grpcio import GrpcioChannel
from sglrouter.engines.wire.scheduler import GET_TOKENIZER, read_tokenizer_chunk, tokenizer_request
from sglrouter.errors import ConfigError

logger = logging.getLogger(__name__)

MAX_ARCHIVE = 200 * 1024 * 1024
MAX_UNPACKED = 500 * 1024 * 1024
MAX_FILES = 64
_CALL_TIMEOUT = 120.0
_PAUSE = 2.0

# What an engine that is starting, or gone, answers.
_WORTH_WAITING = ("UNAVAILABLE", "DEADLINE_EXCEEDED")


def model_directory(settings: Settings) -> Path:
    """The folder with the model's files, fetched from an engine if none is set.

    The fetch is a process of its own: one that has used grpcio must not fork.

    Raises:
        ConfigError: There is no such folder, or no engine sends the files.
    """
    if settings.tokenizer:
        return Path(settings.tokenizer)
    done = run(
        [sys.executable, "-m", "sglrouter.engines.tokenizer_fetch"],
        input=msgspec.json.encode(settings),
        stdout=PIPE,
        check=False,
    )
    answer = done.stdout.decode().strip()
    if done.returncode:
        raise ConfigError(answer or "tokenizer: cannot be fetched from an engine")
    return Path(answer)


def fetch_tokenizer(endpoints: Sequence[Endpoint], cache: Path, timeout: float) -> Path:
    """Asks the engines in turn until one sends its files.

    Args:
        endpoints: The engines.
        cache: Where the unpacked files are kept.
        timeout: How long to wait in seconds for an engine that does not answer yet.

    Raises:
        ConfigError: No engine sends them, or they are not sound.
    """
    deadline = time.monotonic() + timeout
    while True:
        refusals = []
        for endpoint in endpoints:
            channel = GrpcioChannel(endpoint)
            try:
                archive, refusal = _download(channel)
            finally:
                channel.close()
            if archive is not None:
                logger.info("tokenizer: %d bytes from %s", len(archive), endpoint)
                return unpack(archive, cache)
            refusals.append((endpoint, refusal))
        told = "; ".join(f"{endpoint}: {refusal}" for endpoint, refusal in refusals)
        if not any(refusal.startswith(_WORTH_WAITING) for _, refusal in refusals):
            raise ConfigError(f"tokenizer: set it to a folder, no engine sends one: {told}")
        if time.monotonic() >= deadline:
            raise ConfigError(f"tokenizer: set it to a folder, or start the engine: {told}")
        logger.warning("tokenizer: waiting for an engine: %s", told)
        time.sleep(min(_PAUSE, max(deadline - time.monotonic(), 0.0)))


def _download(channel: Channel) -> tuple[bytes | None, str]:
    """Returns the archive, or None and why not."""
    arrived = Event()
    call = channel.stream(
        GET_TOKENIZER, tokenizer_request(), timeout=_CALL_TIMEOUT, arrived=arrived
    )
    archive = bytearray()
    digest = ""
    while True:
        arrived.wait()
        arrived.clear()
        status = call.status
        for message in call.take():
            data, digest = read_tokenizer_chunk(message)
            archive += data
        if len(archive) > MAX_ARCHIVE:
            call.cancel()
            return None, f"sends more than {MAX_ARCHIVE} bytes"
        if status is None:
            continue
        if not status.ok:
            return None, f"{status.code}: {status.message}"
        if digest and hashlib.sha256(archive).hexdigest() != digest:
            return None, "DATA_LOSS: the archive does not match its digest"
        return bytes(archive), ""


def unpack(archive: bytes, cache: Path) -> Path:
    """Unpacks an archive into the cache; does nothing if it is there already.

    Raises:
        ConfigError: It is no ZIP archive, is too large, or would write elsewhere.
    """
    target = cache / "tokenizers" / hashlib.sha256(archive).hexdigest()
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=target.parent))
    except OSError as exc:
        raise ConfigError(f"cache_dir: {exc}") from exc
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            _extract(files, scratch)
        # Another process may have been quicker: the content is the same.
        if not target.is_dir():
            os.rename(scratch, target)
    except (zipfile.BadZipFile, OSError) as exc:
        if not target.is_dir():
            raise ConfigError(f"tokenizer: the engine's archive cannot be unpacked: {exc}") from exc
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _extract(files: zipfile.ZipFile, scratch: Path) -> None:
    entries = [entry for entry in files.infolist() if not entry.is_dir()]
    if len(entries) > MAX_FILES:
        raise ConfigError(f"tokenizer: the engine's archive holds more than {MAX_FILES} files")
    left = MAX_UNPACKED
    for entry in entries:
        name = PurePosixPath(entry.filename)
        if name.is_absolute() or ".." in name.parts or "\\" in entry.filename:
            raise ConfigError(f"tokenizer: the engine's archive holds the path {entry.filename!r}")
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.open(entry) as source, path.open("wb") as sink:
            # The sizes in the archive are claims: count what really comes out.
            while piece := source.read(min(1 << 20, left + 1)):
                left -= len(piece)
                if left < 0:
                    raise ConfigError("tokenizer: the engine's archive is too large unpacked")
                sink.write(piece)


def main() -> int:
    """Reads settings as JSON from standard input; prints the folder or the error."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    settings = msgspec.json.decode(sys.stdin.buffer.read(), type=Settings)
    try:
        folder = fetch_tokenizer(
            [parse_endpoint(text) for text in settings.engine],
            cache_directory(settings),
            settings.engine_start_timeout,
        )
    except ConfigError as exc:
        sys.stdout.write(f"{exc}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
