"""Every setting once: name, type, bounds, default and meaning.

Strategy: `Settings` is the single list. A value comes from, weakest first: the
default, a TOML file, the environment names of the original Go router, the environment
(`SGLROUTER_` + the name in capitals). Command-line flags are written to the
environment by the CLI, so that gunicorn and its workers see the same. Each value is
checked by itself, so that a wrong one is a single line that names its source.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Meta

from sglrouter.errors import ConfigError

PREFIX = "SGLROUTER_"
CONFIG_VARIABLE = "SGLROUTER_CONFIG"

# The original router's environment names; the first that is set wins.
ALIASES = {
    "SGL_TOKENIZER_PATH": "tokenizer",
    "SGL_GRPC_ENDPOINTS": "engine",
    "SGL_GRPC_ENDPOINT": "engine",
    "PORT": "port",
    "LOG_DIR": "log_dir",
    "LOG_LEVEL": "log_level",
}

# The original's words for levels that Python calls otherwise.
_LOG_LEVELS = {"warn": "warning", "fatal": "critical"}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that can be set. Times are in seconds, sizes in bytes."""

    host: Annotated[str, Meta(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="TCP port to listen on.")] = 8080
    workers: Annotated[
        int, Meta(ge=0, le=512, description="Worker processes; 0 means one for each core.")
    ] = 0
    engine: Annotated[
        list[str],
        Meta(min_length=1, description="Engines, each as grpc://HOST:PORT, separated by commas."),
    ] = msgspec.field(default_factory=lambda: ["grpc://localhost:20000"])
    tokenizer: Annotated[
        str,
        Meta(
            description="Folder with tokenizer.json and the model's other files; empty means "
            "that they are fetched from the first engine."
        ),
    ] = ""
    chat_template: Annotated[
        str, Meta(description="Jinja file that replaces the model's own chat template.")
    ] = ""
    model_name: Annotated[
        str, Meta(description="Name shown in /v1/models; empty means the folder's or the engine's.")
    ] = ""
    tool_call_parser: Annotated[
        str, Meta(description="Format of the model's tool calls, as SGLang names it.")
    ] = ""
    reasoning_parser: Annotated[
        str, Meta(description="Format of the model's reasoning, as SGLang names it.")
    ] = ""
    context_length: Annotated[
        int,
        Meta(
            ge=0,
            description="Context in tokens; 0 means what config.json and the engine say.",
        ),
    ] = 0
    channel: Annotated[
        str,
        Meta(
            pattern="^(auto|native|grpcio)$",
            description="How engines are spoken to: `native` is fast and plaintext, `grpcio` also "
            "does TLS; `auto` takes the first that fits.",
        ),
    ] = "auto"
    request_timeout: Annotated[
        float, Meta(gt=0, description="Longest time that one completion may take.")
    ] = 3600.0
    first_token_timeout: Annotated[
        float,
        Meta(
            gt=0,
            description="Longest wait for an engine's first answer. An engine whose queue is full "
            "never answers.",
        ),
    ] = 600.0
    idle_timeout: Annotated[
        float, Meta(gt=0, description="Longest silence of an engine between two tokens.")
    ] = 120.0
    engine_start_timeout: Annotated[
        float,
        Meta(ge=0, description="How long to wait for an engine that must send the tokenizer."),
    ] = 600.0
    heartbeat: Annotated[
        float,
        Meta(gt=0, description="Interval of `: ping` comments while a stream is silent."),
    ] = 15.0
    max_body: Annotated[int, Meta(ge=1024, description="Largest request body.")] = 32 * 1024 * 1024
    max_n: Annotated[
        int, Meta(ge=1, le=128, description="Largest n, the choices of one request.")
    ] = 16
    keepalive: Annotated[
        int, Meta(ge=1, le=600, description="How long an idle client connection is kept.")
    ] = 5
    graceful_timeout: Annotated[
        int, Meta(ge=1, description="How long running streams may go on after SIGTERM.")
    ] = 60
    worker_connections: Annotated[
        int, Meta(ge=1, description="Open client connections of one worker.")
    ] = 4096
    cache_dir: Annotated[
        str,
        Meta(
            description="Where tokenizers fetched from engines are kept; empty means "
            "$CACHE_DIRECTORY, else $XDG_CACHE_HOME/sglrouter, else ~/.cache/sglrouter."
        ),
    ] = ""
    log_level: Annotated[
        str,
        Meta(pattern="^(debug|info|warning|error|critical)$", description="Least level logged."),
    ] = "info"
    log_dir: Annotated[
        str, Meta(description="Folder for sglrouter.log; empty means standard error.")
    ] = ""
    access_log: Annotated[bool, Meta(description="Whether each request is logged.")] = False


class Endpoint(NamedTuple):
    """Where an engine is, and whether TLS is spoken to it."""

    host: str
    port: int
    tls: bool

    @property
    def target(self) -> str:
        """HOST:PORT, with brackets round an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{'grpcs' if self.tls else 'grpc'}://{self.target}"


_ENDPOINT = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<name>[^\s:/@?#,\[\]]+)):(?P<port>[0-9]{1,5})/?"
)


def parse_endpoint(text: str) -> Endpoint:
    """Reads grpc://HOST:PORT, grpcs://HOST:PORT or HOST:PORT.

    An IPv6 address stands in brackets.

    Raises:
        ValueError: The text is none of them.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "grpc", text
    if scheme not in ("grpc", "grpcs"):
        raise ValueError(f"{text!r} should begin with grpc:// or grpcs://")
    found = _ENDPOINT.fullmatch(rest)
    if found is None:
        raise ValueError(f"{text!r} should be grpc://HOST:PORT")
    port = int(found["port"])
    if not 1 <= port <= 65535:
        raise ValueError(f"{text!r} has a port outside 1 to 65535")
    return Endpoint(found["ipv6"] or found["name"], port, scheme == "grpcs")


_TYPES = get_type_hints(Settings, include_extras=True)
_FIELDS = tuple(field.name for field in msgspec.structs.fields(Settings))


def load_settings(
    environ: Mapping[str, str] | None = None, config_file: str | None = None
) -> Settings:
    """Gathers the settings from file and environment.

    Args:
        environ: The environment; os.environ if None.
        config_file: A TOML file; if None, the one that SGLROUTER_CONFIG names, if any.

    Raises:
        ConfigError: A setting is unknown or wrong.
    """
    environ = os.environ if environ is None else environ
    config_file = environ.get(CONFIG_VARIABLE, "") if config_file is None else config_file
    values: dict[str, Any] = {}
    if config_file:
        for key, value in _read_toml(config_file).items():
            name = key.replace("-", "_")
            if name not in _FIELDS:
                raise ConfigError(f"{config_file}: {key}: there is no such setting")
            values[name] = _checked(f"{config_file}: {key}", name, value)
    aliased: set[str] = set()
    for variable, name in ALIASES.items():
        if environ.get(variable) and name not in aliased:
            aliased.add(name)
            values[name] = _checked(variable, name, environ[variable])
    for name in _FIELDS:
        variable = PREFIX + name.upper()
        if variable in environ:
            values[name] = _checked(variable, name, environ[variable])
    return Settings(**values)


def cache_directory(settings: Settings, environ: Mapping[str, str] | None = None) -> Path:
    """The folder for fetched tokenizers; it need not exist yet."""
    environ = os.environ if environ is None else environ
    if settings.cache_dir:
        return Path(settings.cache_dir)
    if environ.get("CACHE_DIRECTORY"):
        return Path(environ["CACHE_DIRECTORY"])
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sglrouter"


def settings_table() -> str:
    """All settings as a Markdown table, for the documentation."""
    originals: dict[str, list[str]] = {}
    for variable, name in ALIASES.items():
        originals.setdefault(name, []).append(f"`{variable}`")
    lines = ["| setting | default | meaning | original's name |", "|---|---|---|---|"]
    defaults = Settings()
    for name in _FIELDS:
        default = getattr(defaults, name)
        shown = ",".join(default) if isinstance(default, list) else str(default)
        shown = shown.lower() if isinstance(default, bool) else shown
        lines.append(
            f"| `{name}` | {f'`{shown}`' if shown else 'empty'} | {_description(name)} | "
            f"{', '.join(originals.get(name, []))} |"
        )
    return "\n".join(lines) + "\n"


def _description(name: str) -> str:
    meta = next(arg for arg in get_args(_TYPES[name]) if isinstance(arg, Meta))
    return meta.description or ""


def _read_toml(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            return tomllib.load(file)
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: not a TOML file: {exc}") from exc


def _checked(source: str, name: str, value: Any) -> Any:
    """Converts one value to its setting's type, or says what is wrong with it."""
    if name == "engine":
        if isinstance(value, str):
            value = [item.strip() for item in value.split(",") if item.strip()]
        if isinstance(value, list):
            for item in value:
                try:
                    parse_endpoint(str(item))
                except ValueError as exc:
                    raise ConfigError(f"{source}: {exc}") from exc
    elif name == "log_level" and isinstance(value, str):
        value = value.lower()
        value = _LOG_LEVELS.get(value, value)
    try:
        converted = msgspec.convert(value, _TYPES[name], strict=False)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{source}: {exc} (got {value!r})") from exc
    if isinstance(converted, float) and not math.isfinite(converted):
        raise ConfigError(f"{source}: not a finite number (got {value!r})")
    return converted
