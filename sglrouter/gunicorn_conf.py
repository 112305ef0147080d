"""gunicorn's configuration, made from ours; deploy/gunicorn.conf.py is a line round it.

Importing this module reads the settings and patches the process for gevent, which has
to happen before anything else is imported. It is for gunicorn alone to import.
"""

# ruff: noqa: E402
import os
import sys

# gunicorn has put the working folder first. What lies in it must not be taken for a library:
# here it is gone until all is imported, and goes last then, since gunicorn puts it first
# again where it is missing.
sys.path[:] = [path for path in sys.path if path not in ("", os.getcwd())]

from gevent import monkey

monkey.patch_all()

import gc
import logging
import logging.handlers
from pathlib import Path
from typing import Any

from sglrouter.config import Settings
from sglrouter.errors import ConfigError
from sglrouter.server.log_lines import OneLine
from sglrouter.server.open_files import allow_open_files
from sglrouter.server.siblings import Siblings
from sglrouter.setting_sources import load_settings, unknown_settings

sys.path.append(os.getcwd())


def _load() -> Settings:
    try:
        return load_settings()
    except ConfigError as exc:
        raise SystemExit(f"sglrouter: {exc}") from exc


def _log_file(settings: Settings) -> str:
    if not settings.log_dir:
        return "-"
    try:
        Path(settings.log_dir).mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise SystemExit(f"sglrouter: log_dir: {exc}") from exc
    return str(Path(settings.log_dir) / "sglrouter.log")


_settings = _load()
_log = _log_file(_settings)

_handler: logging.Handler = (
    logging.StreamHandler() if _log == "-" else logging.handlers.WatchedFileHandler(_log)
)
_handler.setFormatter(
    OneLine("[%(asctime)s] [%(process)d] [%(levelname)s] %(message)s", "%Y-%m-%d %H:%M:%S %z")
)
logging.basicConfig(level=_settings.log_level.upper(), handlers=[_handler])

for _line in unknown_settings():
    logging.getLogger("sglrouter").warning("%s", _line)

allow_open_files(_settings.worker_connections)

# One item of a batch gains nothing from the tokenizer's threads, and a fork after
# they have been used draws a warning.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

wsgi_app = "sglrouter.app:application()"
proc_name = "sglrouter"
# Seconds for telling the engines of calls that were cancelled last.
_LAST_WORDS = 1.0
_GC_THRESHOLD = (20_000, 20, 20)

bind = [
    f"[{_settings.host}]:{_settings.port}"
    if ":" in _settings.host
    else f"{_settings.host}:{_settings.port}"
]
workers = _settings.workers or len(os.sched_getaffinity(0))
worker_class = "sglrouter.server.worker.RouterWorker"
worker_connections = _settings.worker_connections
# The tokenizer and its tables are loaded once and shared.
preload_app = True
keepalive = _settings.keepalive
graceful_timeout = _settings.graceful_timeout
# A worker whose event loop stands still this long is replaced; no bound on requests.
timeout = 60
backlog = 2048
# In memory, where this user may write there: a disk that is slow would look like a worker
# that stands still.
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108
# It would be a thread in a master that forks, and nobody has asked for it.
control_socket_disable = True
# The C parser that the package index holds is older than gunicorn wants.
http_parser = "python"
# No proxy says which path a request has, or who made it: gunicorn would believe it of any
# process of this machine.
forwarder_headers = ""
loglevel = _settings.log_level
errorlog = _log
accesslog = _log if _settings.access_log else None
access_log_format = '%(h)s "%(r)s" %(s)s %(B)s %(D)sus %({x-request-id}o)s'


_siblings: Siblings | None = None


def on_starting(_server: Any) -> None:
    """Makes the place where workers find each other."""
    global _siblings
    try:
        _siblings = Siblings(Siblings.make_folder())
    except OSError as exc:
        logging.getLogger(__name__).warning("workers cannot find each other: %s", exc)


def on_exit(_server: Any) -> None:
    """Removes it."""
    if _siblings is not None:
        _siblings.remove_folder()


def pre_fork(_server: Any, _worker: Any) -> None:
    """Takes what has been loaded out of the garbage collector's sight.

    It lives as long as the process. Looking through it time and again would stop every
    stream for a while, and copy the pages that the workers share. Requests free what
    they made when they end, by reference counts: rare looks at the rest are enough, and
    every 700 objects would be every other request.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLD)


def post_worker_init(worker: Any) -> None:
    """Connects to the other workers, and to the engines, so that no request waits for it."""
    in_flight, fleet = worker.application.in_flight, worker.application.fleet
    if _siblings is not None:
        _siblings.listen(in_flight.abort)
        in_flight.tell_others = _siblings.tell
    fleet.ask_facts()
    fleet.watch()


def worker_exit(_server: Any, worker: Any) -> None:
    """Ends all of these."""
    if _siblings is not None:
        _siblings.close()
    if getattr(worker, "application", None) is not None:
        fleet = worker.application.fleet
        # What clients have left shall not go on for nobody.
        fleet.settle(_LAST_WORDS)
        fleet.close()
