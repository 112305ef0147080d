"""Questions to all engines at once.

Each engine answers for itself: one that cannot be reached is named with its error, and
hides nothing of what the others say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import falcon
import gevent
import msgspec

from sglrouter.engines.fleet.engine import Engine
from sglrouter.engines.wire.control_messages import Outcome
from sglrouter.errors import BadRequest, RouterError

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class Reply(NamedTuple, Generic[T]):
    """What an engine has answered, or how it failed to."""

    endpoint: str
    answer: T | None
    error: RouterError | None = None


def ask_all(engines: Sequence[Engine], question: Callable[[Engine], T]) -> list[Reply[T]]:
    """Asks all engines at the same time.

    Args:
        engines: Whom to ask.
        question: Asks one; a RouterError of it becomes its reply.
    """
    others = [gevent.spawn(_ask, engine, question) for engine in engines[1:]]
    try:
        return [_ask(engines[0], question), *(each.get() for each in others)]
    finally:
        gevent.killall(others)


def answer_with_information(
    resp: falcon.Response, replies: Sequence[Reply[dict[str, Any]]], common: Mapping[str, Any] = {}
) -> None:
    """Makes a response of what engines say of themselves.

    Its "engines" hold what each of them says. A single one's is also at the top, as
    SGLang's own server has it.

    Args:
        resp: The response.
        replies: One for each engine.
        common: What holds for all.

    Raises:
        RouterError: None has answered.
    """
    if all(reply.error is not None for reply in replies):
        raise _all_errors(replies)
    (first, *others) = replies
    top = first.answer if not others and first.answer is not None else {}
    engines = [{"endpoint": each.endpoint, **(each.answer or _error(each))} for each in replies]
    resp.content_type = falcon.MEDIA_JSON
    resp.data = _encode({**top, **common, "engines": engines})


def answer_with_outcomes(resp: falcon.Response, replies: Sequence[Reply[Outcome]]) -> None:
    """Makes a response of what engines did.

    Raises:
        RouterError: One of them did not.
    """
    checked = [_unless_refused(reply) for reply in replies]
    if any(reply.error is not None for reply in checked):
        raise _all_errors(checked)
    engines = [
        {"endpoint": reply.endpoint, "message": reply.answer.message}
        for reply in replies
        if reply.answer is not None
    ]
    resp.content_type = falcon.MEDIA_JSON
    resp.data = _encode({"success": True, "engines": engines})


def _unless_refused(reply: Reply[Outcome]) -> Reply[Outcome]:
    """A refusal becomes an error: a 400, as of SGLang's own server."""
    if reply.answer is None or reply.answer.success:
        return reply
    words = reply.answer.message or "no reason given"
    error = BadRequest(f"The engine did not do it: {words}", code="engine_refused")
    return Reply(reply.endpoint, None, error)


def _ask(engine: Engine, question: Callable[[Engine], T]) -> Reply[T]:
    name = str(engine.endpoint)
    try:
        return Reply(name, question(engine))
    except RouterError as error:
        if error.status == 501:
            error = _lacking(engine, error)
        return Reply(name, None, error)


def _lacking(engine: Engine, error: RouterError) -> RouterError:
    """A call that an engine does not have is a matter of its version."""
    try:
        version = engine.control.server_info()["sglang_version"]
    except RouterError:
        version = ""
    return RouterError(
        f"The engine, SGLang {version or 'of an unknown version'}, cannot do this: {error.message}",
        status=error.status,
        type=error.type,
        code=error.code,
    )


def _all_errors(replies: Sequence[Reply[Any]]) -> RouterError:
    """One error for several: the worst status, and everybody's words."""
    errors = [(reply.endpoint, reply.error) for reply in replies if reply.error is not None]
    _, worst = max(errors, key=lambda each: each[1].status)
    message = "; ".join(f"{endpoint}: {error.message}" for endpoint, error in errors)
    if len(errors) < len(replies):
        message += f" (the other {len(replies) - len(errors)} did it)"
    return RouterError(message, status=worst.status, type=worst.type, code=worst.code)


def _error(reply: Reply[Any]) -> dict[str, Any]:
    error = reply.error
    if error is None:
        return {}
    shown = {"message": error.message, "type": error.type, "param": None, "code": error.code}
    return {"error": shown}
