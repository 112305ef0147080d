"""The composition root: settings in, WSGI application out.

gunicorn calls create_app() in its master, before it forks (preload): the tokenizer,
its tables and the compiled templates are made once and shared by every worker. What
cannot cross a fork, the connections to the engines, is made on first use.
"""

from __future__ import annotations

import logging
from typing import Any

import falcon

from sglrouter.config import Settings
from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.connect import connector
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.engines.tokenizer_fetch import model_directory
from sglrouter.errors import ConfigError
from sglrouter.http import failures
from sglrouter.http.admission import Admission, Waiting
from sglrouter.http.origins import Cors
from sglrouter.http.request_id import RequestIds
from sglrouter.http.routes import routes
from sglrouter.http.turns import let_others_go_on
from sglrouter.model import Model, load_model
from sglrouter.offload import Offload, in_a_thread
from sglrouter.prompt.conversation import NO_TEMPLATE
from sglrouter.server.memory import Trimming, give_back_memory
from sglrouter.server.siblings import Siblings
from sglrouter.serving.service import Service
from sglrouter.setting_sources import load_settings

logger = logging.getLogger(__name__)


# Seconds at the end of a worker for telling the engines of calls that were cancelled last.
_LAST_WORDS = 1.0


class Router(falcon.App[falcon.Request, falcon.Response]):
    """The WSGI application, from what a process needs before its first request to its end.

    It is made in gunicorn's master. There prepare() and dismantle() are called, and in each
    worker start() and stop().

    Attributes:
        settings: As given.
        fleet: The engines.
        model: The model they serve.
        in_flight: The requests in flight.
        large_request: To be called with the size of a body that has been dealt with.
    """

    def __init__(self, settings: Settings, model: Model, fleet: Fleet) -> None:
        middleware: list[Any] = [RequestIds()]
        if settings.cors_origins:
            middleware.append(Cors(settings.cors_origins))
        middleware += [Admission(), Waiting()]
        super().__init__(middleware=middleware)
        self.req_options.strip_url_path_trailing_slash = True
        self.settings = settings
        self.model = model
        self.fleet = fleet
        self.large_request = Trimming(in_a_thread).after
        failures.install(self)
        service = Service(settings, model, fleet, let_others_go_on, self.large_request)
        self.in_flight = service.in_flight
        self._siblings: Siblings | None = None
        for route in routes(service):
            self.add_route(route.path, route.resource, suffix=route.suffix)

    def prepare(self) -> None:
        """In the master: makes the place where workers find each other."""
        try:
            self._siblings = Siblings(Siblings.make_folder())
        except OSError as exc:
            logger.warning("workers cannot find each other: %s", exc)

    def dismantle(self) -> None:
        """In the master: removes it."""
        if self._siblings is not None:
            self._siblings.remove_folder()

    def start(self) -> None:
        """In a worker: connects to the others, and to the engines, so that no request waits."""
        if self._siblings is not None:
            self._siblings.listen(self.in_flight.abort)
            self.in_flight.share(self._siblings.tell)
        self.fleet.ask_facts()
        self.fleet.watch()

    def stop(self) -> None:
        """In a worker: ends all of these."""
        if self._siblings is not None:
            self._siblings.close()
        # What clients have left shall not go on for nobody.
        self.fleet.settle(_LAST_WORDS)
        self.fleet.close()


def create_app(settings: Settings | None = None) -> Router:
    """Builds the application.

    Args:
        settings: From load_settings() if None.

    Raises:
        ConfigError: A setting or a model file is wrong.
    """
    settings = load_settings() if settings is None else settings
    # Its threads begin with the first long text, which is after the fork.
    run = Offload(settings.tokenizer_threads)
    model = load_model(settings, model_directory(settings), run)
    give_back_memory()
    rendering = model.prompts.rendering
    if rendering == "none":
        logger.warning(NO_TEMPLATE)
    elif rendering != "template":
        logger.info("the model has no chat template: its prompts are written as %s", rendering)
    logger.info(
        "tool calls are read as %s, reasoning as %s",
        model.formats.tool_parser or "text",
        model.formats.reasoning_parser or "text",
    )
    endpoints = [parse_endpoint(text) for text in settings.engine]
    return Router(settings, model, Fleet(endpoints, connector(settings.channel)))


def application() -> Router:
    """create_app() for gunicorn: a wrong setting is one line, not a traceback."""
    try:
        return create_app()
    except ConfigError as exc:
        raise SystemExit(f"sglrouter: {exc}") from exc
