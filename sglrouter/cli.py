"""The `sglrouter` command: serve, check, demo, sim.

Flags of `serve` and `check` are checked under their own names and then become
SGLROUTER_* variables, since gunicorn and its workers read the settings for themselves.
`serve` then becomes gunicorn.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from sglrouter.config import Settings
from sglrouter.errors import ConfigError
from sglrouter.server.taken_port import refuse_taken_port
from sglrouter.setting_sources import CONFIG_VARIABLE, PREFIX, load_settings, unknown_settings
from sglrouter.version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    args = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = args.command
    try:
        return command(args)
    except ConfigError as exc:
        print(f"sglrouter: {exc}", file=sys.stderr)  # noqa: T201
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sglrouter",
        description="The OpenAI HTTP API in front of SGLang engines that speak gRPC.",
    )
    parser.add_argument("--version", action="version", version=f"sglrouter {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="run the router")
    _add_settings(serve)
    serve.set_defaults(command=_serve)

    check = commands.add_parser(
        "check", help="load tokenizer and template, ask the engines, say what is wrong"
    )
    _add_settings(check)
    check.set_defaults(command=_check)

    demo = commands.add_parser(
        "demo", help="run a simulated engine and a router, and ask it a question"
    )
    demo.add_argument("--port", type=int, default=0, help="the router's port (default: a free one)")
    demo.add_argument(
        "--question", default="What is the capital of France?", help="what to ask first"
    )
    demo.set_defaults(command=_demo)

    sim = commands.add_parser("sim", help="run a simulated engine")
    from sglrouter.sim import command as sim_command

    sim_command.add_arguments(sim)
    sim.set_defaults(command=sim_command.run)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """The settings that have flags; the others are set by file or environment."""
    add = parser.add_argument
    add("--host", help="address to listen on (default: 127.0.0.1)")
    add("--port", help="port to listen on (default: 8080)")
    add("--workers", help="worker processes (default: one for each core)")
    add(
        "--engine",
        action="append",
        metavar="grpc://HOST:PORT",
        help="an engine; may be given several times (default: grpc://localhost:20000)",
    )
    add("--tokenizer", metavar="DIR", help="the model's folder (default: fetched from the engine)")
    add("--chat-template", metavar="FILE", help="a Jinja file in place of the model's own template")
    add(
        "--model-name",
        metavar="NAME",
        help="name in /v1/models (default: the engine's --served-model-name, else the folder's)",
    )
    add("--tool-call-parser", metavar="NAME", help="format of the model's tool calls")
    add("--reasoning-parser", metavar="NAME", help="format of the model's reasoning")
    add("--config", metavar="FILE", help="a TOML file with settings (see docs/configuration.md)")


# The settings that have flags of the same name.
_FLAGS = (
    "host",
    "port",
    "workers",
    "engine",
    "tokenizer",
    "chat_template",
    "model_name",
    "tool_call_parser",
    "reasoning_parser",
)


def _settings(args: argparse.Namespace) -> Settings:
    """The settings with the flags that were given, which go into the environment as well."""
    if args.config is not None:
        os.environ[CONFIG_VARIABLE] = args.config
    flags = {name: value for name in _FLAGS if (value := getattr(args, name)) is not None}
    if "engine" in flags:
        flags["engine"] = ",".join(flags["engine"])
    settings = load_settings(flags=flags)
    for name, value in flags.items():
        os.environ[PREFIX + name.upper()] = value
    return settings


def _serve(args: argparse.Namespace) -> NoReturn:
    # What is wrong with a setting or the port is told in one line before gunicorn starts.
    settings = _settings(args)
    refuse_taken_port(settings.host, settings.port, "--port, SGLROUTER_PORT")
    os.execv(  # noqa: S606
        sys.executable,
        # -P: what lies in the working folder is nobody's module.
        [
            sys.executable,
            "-P",
            "-m",
            "sglrouter.server",
            "-c",
            "python:sglrouter.server.gunicorn_conf",
        ],
    )


def _check(args: argparse.Namespace) -> int:
    from sglrouter.check import run_checks

    return run_checks(_settings(args), unknown_settings())


def _demo(args: argparse.Namespace) -> int:
    from sglrouter.demo import run_demo

    return run_demo(args.port, args.question)
