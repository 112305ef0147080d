"""`sglrouter check`: will it run, and if not, why not, in plain words."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence

import msgspec

from sglrouter.config import Settings
from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.connect import HOW_TO_GET_HTTP2, http2_is_built
from sglrouter.engines.channel.grpcio import GrpcioChannel
from sglrouter.engines.fleet.engine import Engine
from sglrouter.engines.tokenizer_fetch import model_directory
from sglrouter.engines.wire.scheduler import HEALTH_CHECK, health_request, read_health
from sglrouter.errors import BadRequest, ConfigError
from sglrouter.model import Model, load_model
from sglrouter.prompt.conversation import NO_TEMPLATE

_QUESTION = [{"role": "user", "content": "Hello"}]
_TIMEOUT = 5.0


def run_checks(settings: Settings, unknown: Sequence[str] = ()) -> int:
    """Tries everything that serving needs and prints a line for each.

    Args:
        settings: What would be served with.
        unknown: What config.unknown_settings() says.

    Returns:
        0 if all is well, 1 otherwise.
    """
    for line in unknown:
        _print("NOTE", line)
    advice = python_advice(sysconfig.get_config_var("CONFIG_ARGS"))
    if advice:
        _print("NOTE", advice)
    # Somebody is waiting at a terminal: an engine that is down is an answer.
    results = [_check_model(settings), _check_channel(settings)]
    results += [_check_engine(text) for text in settings.engine]
    return 0 if all(results) else 1


def python_advice(build_options: str | None) -> str:
    """What to say of the Python that runs this; empty if nothing.

    Args:
        build_options: What it was configured with when it was built; None if it cannot tell.
    """
    if build_options is None or "--enable-optimizations" in build_options:
        return ""
    return (
        f"python: {sys.executable} was built without --enable-optimizations; one built with it, "
        "as the system's own usually is, needs 9 to 19 % less CPU"
    )


def _check_model(settings: Settings) -> bool:
    try:
        impatient = msgspec.structs.replace(settings, engine_start_timeout=0.0)
        model = load_model(settings, model_directory(impatient))
    except ConfigError as exc:
        return _say(False, str(exc))
    _say(
        True,
        f"tokenizer: {model.files.directory}, {model.vocab_size} ids, "
        f"context {model.context_length or 'unknown'}, "
        f"eos ids {sorted(model.files.eos_ids) or 'unknown'}",
    )
    if not model.files.eos_ids:
        _say(
            True,
            "tokenizer: no eos id in config.json or generation_config.json; the engine's own "
            "will end answers, but its text may show",
        )
    return _check_template(model)


def _check_template(model: Model) -> bool:
    if not model.prompts.has_template:
        return _say(False, f"chat template: {NO_TEMPLATE}")
    try:
        prompt = model.prompts.build(_QUESTION)
    except BadRequest as exc:
        return _say(False, f"chat template: it refuses a plain question: {exc.message}")
    if max(prompt.ids, default=0) >= model.vocab_size:
        return _say(False, "tokenizer: it makes ids that config.json's vocab_size does not hold")
    what = model.prompts.rendering
    kind = "chat template" if what == "template" else f"chat template: none, built-in {what}"
    return _say(True, f"{kind}: a plain question makes {len(prompt.ids)} tokens")


def _check_channel(settings: Settings) -> bool:
    if http2_is_built():
        return _say(True, f"channel: {settings.channel}, the native one is built")
    # Slow is not wrong, unless the fast one is insisted on.
    return _say(settings.channel != "native", f"channel: {HOW_TO_GET_HTTP2}")


def _check_engine(text: str) -> bool:
    engine = Engine(parse_endpoint(text), GrpcioChannel)
    try:
        status, answer = engine.channel.unary(HEALTH_CHECK, health_request(), timeout=_TIMEOUT)
        if status.code == "UNAVAILABLE":
            return _say(False, f"engine {engine.endpoint}: cannot be reached: {status.message}")
        if status.code == "DEADLINE_EXCEEDED":
            return _say(False, f"engine {engine.endpoint}: no answer in {_TIMEOUT:g} s")
        if status.ok and not read_health(answer):
            return _say(False, f"engine {engine.endpoint}: it is up but does not serve yet")
        facts = engine.facts_now()
        if not facts.model_path:
            return _say(
                False,
                f"engine {engine.endpoint}: it does not speak SGLang's scheduler service; "
                "start it with --smg-grpc-mode",
            )
        return _say(
            True,
            f"engine {engine.endpoint}: serves {facts.model_path}, "
            f"prompts up to {facts.max_prompt_tokens or 'an unknown number of'} tokens",
        )
    finally:
        engine.close()


def _say(good: bool, text: str) -> bool:
    _print("ok" if good else "WRONG", text)
    return good


def _print(verdict: str, text: str) -> None:
    sys.stdout.write(f"{verdict:<7}{text}\n")
