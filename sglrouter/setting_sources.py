"""Where settings come from, and what is said of a wrong one.

Strategy: a value comes from, weakest first: the default, a TOML file, the environment
names of the original Go router, the environment (`SGLROUTER_` + the name in capitals),
command-line flags. The CLI checks its flags and then writes them to the environment, so
that gunicorn and its workers see the same. Each value is checked by itself, so that a
wrong one is a single line that names its source.

A name that nobody knows stops nothing, since a file may be older or newer than the
router; it is a warning with the name that was probably meant.
"""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sglrouter.config import ALIASES, NAMES, TYPES, Settings
from sglrouter.endpoint import parse_endpoint
from sglrouter.errors import ConfigError

PREFIX = "SGLROUTER_"
CONFIG_VARIABLE = "SGLROUTER_CONFIG"

# Variables of the build and of the tests.
_OTHER_VARIABLES = (
    CONFIG_VARIABLE,
    "SGLROUTER_DEBUG",
    "SGLROUTER_SANITIZE",
    "SGLROUTER_CORPUS",
)
# The tests' own, and what Kubernetes sets in each pod beside a service that is called sglrouter.
_OTHERS = ("SGLROUTER_TEST_", "SGLROUTER_SERVICE_", "SGLROUTER_PORT_")

# The original's words for levels that Python calls otherwise.
_LOG_LEVELS = {"warn": "warning", "fatal": "critical"}

_LISTS = ("engine", "lora_adapters", "model_aliases", "cors_origins", "allowed_hosts")


def load_settings(
    environ: Mapping[str, str] | None = None,
    config_file: str | None = None,
    flags: Mapping[str, str] | None = None,
) -> Settings:
    """Gathers the settings from file, environment and command line.

    Args:
        environ: The environment; os.environ if None.
        config_file: A TOML file; if None, the one that SGLROUTER_CONFIG names, if any.
        flags: Values from the command line by the name of the setting.

    Raises:
        ConfigError: A setting is wrong; the message begins with where it was set.
    """
    environ = os.environ if environ is None else environ
    config_file = environ.get(CONFIG_VARIABLE, "") if config_file is None else config_file
    values: dict[str, Any] = {}
    if config_file:
        for key, value in _read_toml(config_file).items():
            name = key.replace("-", "_")
            if name in NAMES:
                values[name] = _checked(f"{config_file}: {key}", name, value)
    aliased: set[str] = set()
    for variable, name in ALIASES.items():
        if environ.get(variable) and name not in aliased:
            aliased.add(name)
            values[name] = _checked(variable, name, environ[variable])
    flags = flags or {}
    for name in NAMES:
        variable = _variable(name)
        if name in flags:
            values[name] = _checked(flag_of(name), name, flags[name])
        elif variable in environ:
            values[name] = _checked(variable, name, environ[variable])
    return Settings(**values)


def flag_of(name: str) -> str:
    """The command-line flag of a setting that has one."""
    return f"--{name.replace('_', '-')}"


def unknown_settings(
    environ: Mapping[str, str] | None = None, config_file: str | None = None
) -> list[str]:
    """Names that look like settings and are none, a sentence for each.

    Args:
        environ: The environment; os.environ if None.
        config_file: A TOML file; if None, the one that SGLROUTER_CONFIG names, if any.

    Raises:
        ConfigError: The file cannot be read.
    """
    environ = os.environ if environ is None else environ
    config_file = environ.get(CONFIG_VARIABLE, "") if config_file is None else config_file
    lines = []
    if config_file:
        for key in _read_toml(config_file):
            if key.replace("-", "_") not in NAMES:
                name = key.replace("-", "_").lower()
                lines.append(f"{config_file}: {key}: {_no_such(name, NAMES)}")
    variables = {_variable(name) for name in NAMES}
    for variable in sorted(environ):
        if (
            variable.startswith(PREFIX)
            and variable not in variables
            and variable not in _OTHER_VARIABLES
            and not variable.startswith(_OTHERS)
        ):
            name = variable.removeprefix(PREFIX).lower()
            lines.append(f"{variable}: {_no_such(name, (*NAMES, 'config'), _variable)}")
    return lines


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _no_such(
    name: str, names: Sequence[str], written: Callable[[str], str] = lambda name: name
) -> str:
    """Says so, with the nearest of the names as it would be written."""
    nearest = difflib.get_close_matches(name, names, n=1)
    guess = f"; do you mean {written(nearest[0])}?" if nearest else ""
    return f"there is no such setting{guess}"


def check_settings(values: Mapping[str, object], source: str) -> Settings:
    """Makes settings of values by name; the others have their defaults.

    Args:
        values: The values, as a TOML file could have them.
        source: Who gave them, for what is said of a wrong one.

    Raises:
        ConfigError: A setting is unknown or wrong.
    """
    for name in values:
        if name not in NAMES:
            raise ConfigError(f"{source}: {name}: {_no_such(name, NAMES)}")
    return Settings(
        **{name: _checked(f"{source}: {name}", name, value) for name, value in values.items()}
    )


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
    if name in _LISTS and isinstance(value, str):
        value = [item.strip() for item in value.split(",") if item.strip()]
    if name == "engine" and isinstance(value, list):
        for item in value:
            try:
                parse_endpoint(str(item))
            except ValueError as exc:
                raise ConfigError(f"{source}: {exc}") from exc
    elif name == "port" and isinstance(value, str) and "://" in value:
        raise ConfigError(
            f"{source}: not a port: {value!r}. Kubernetes sets this beside a service that is "
            "called sglrouter: set enableServiceLinks to false in the pod, or call the service "
            "something else"
        )
    elif name == "log_level" and isinstance(value, str):
        value = value.lower()
        value = _LOG_LEVELS.get(value, value)
    elif name == "default_chat_template_kwargs" and isinstance(value, str):
        try:
            value = msgspec.json.decode(value or "{}")
        except msgspec.DecodeError as exc:
            raise ConfigError(f"{source}: not valid JSON: {exc} (got {value!r})") from exc
    try:
        converted = msgspec.convert(value, TYPES[name], strict=False)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{source}: {exc} (got {value!r})") from exc
    if isinstance(converted, float) and not math.isfinite(converted):
        raise ConfigError(f"{source}: not a finite number (got {value!r})")
    return converted
