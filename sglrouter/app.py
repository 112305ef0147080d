"""The composition root: settings in, WSGI application out.

gunicorn calls create_app() in its master, before it forks (preload): the tokenizer,
its tables and the compiled templates are made once and shared by every worker. What
cannot cross a fork, the connections to the engines, is made on first use.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from subprocess import PIPE, run

import falcon
import msgspec

from sglrouter.backend.connect import connector
from sglrouter.backend.pool import Pool
from sglrouter.config import Settings, load_settings, parse_endpoint
from sglrouter.errors import ConfigError
from sglrouter.http import failures
from sglrouter.http.request_id import RequestIds
from sglrouter.http.routes import routes
from sglrouter.memory import give_back_memory
from sglrouter.model import Model, load_model
from sglrouter.offload import Offload
from sglrouter.serving.service import Service

logger = logging.getLogger(__name__)


class Router(falcon.App[falcon.Request, falcon.Response]):
    """The WSGI application, and what its worker must look after.

    Attributes:
        pool: The engines.
        model: The model they serve.
    """

    def __init__(self, settings: Settings, model: Model, pool: Pool) -> None:
        super().__init__(middleware=[RequestIds()])
        self.model = model
        self.pool = pool
        failures.install(self)
        model.prompts.encoder.run = Offload(settings.tokenizer_threads)
        for route in routes(Service(settings, model, pool)):
            self.add_route(route.path, route.resource, suffix=route.suffix)


def create_app(settings: Settings | None = None) -> Router:
    """Builds the application.

    Args:
        settings: From load_settings() if None.

    Raises:
        ConfigError: A setting or a model file is wrong.
    """
    settings = load_settings() if settings is None else settings
    model = load_model(settings, model_directory(settings))
    give_back_memory()
    if not model.prompts.has_template:
        logger.warning("the model has no chat template: set chat_template to a Jinja file")
    logger.info(
        "tool calls are read as %s, reasoning as %s",
        model.formats.tool_parser or "text",
        model.formats.reasoning_parser or "text",
    )
    endpoints = [parse_endpoint(text) for text in settings.engine]
    return Router(settings, model, Pool(endpoints, connector(settings.channel)))


def model_directory(settings: Settings) -> Path:
    """The folder with the model's files, fetched from an engine if none is set.

    The fetch is a process of its own: a master that has used grpcio must not fork.

    Raises:
        ConfigError: There is no such folder, or no engine sends the files.
    """
    if settings.tokenizer:
        return Path(settings.tokenizer)
    done = run(
        [sys.executable, "-m", "sglrouter.backend.tokenizer_fetch"],
        input=msgspec.json.encode(settings),
        stdout=PIPE,
        check=False,
    )
    answer = done.stdout.decode().strip()
    if done.returncode:
        raise ConfigError(answer or "tokenizer: cannot be fetched from an engine")
    return Path(answer)


def application() -> Router:
    """create_app() for gunicorn: a wrong setting is one line, not a traceback."""
    try:
        return create_app()
    except ConfigError as exc:
        raise SystemExit(f"sglrouter: {exc}") from exc
