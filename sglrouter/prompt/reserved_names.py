"""The names that variables from outside may not have.

Strategy: what the router itself passes to a template is refused, and what could bring a
template or another conversation along is refused at any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sglrouter.errors import BadRequest
from sglrouter.turns import Pause, Turns, no_pause

# Never from a request, however deep they are buried.
_OURS = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "messages",
        "tokenize",
        "tools",
    }
)

# What templates call, and what Hugging Face's function takes besides variables.
_TAKEN = frozenset(
    {
        "conversation",
        "cycler",
        "dict",
        "joiner",
        "lipsum",
        "max_length",
        "namespace",
        "padding",
        "raise_exception",
        "range",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "strftime_now",
        "tokenizer_kwargs",
        "truncation",
    }
)

RESERVED = _OURS | _TAKEN


def refuse_reserved(
    variables: Mapping[str, Any],
    where: str = "chat_template_kwargs",
    pause: Pause = no_pause,
) -> None:
    """Checks variables from outside.

    Args:
        variables: The variables.
        where: The field that they are in, for messages.
        pause: Called now and then, to let others go on.

    Raises:
        BadRequest: They hold a name that is not theirs to set; param is its path.
    """
    for name in _TAKEN:
        if name in variables:
            raise _refusal(where, name)
    waiting: list[tuple[_Path, Any]] = [((None, where), variables)]
    turns = Turns(pause)
    while waiting:
        turns.check()
        path, value = waiting.pop()
        if isinstance(value, Mapping):
            for name in _OURS:
                if name in value:
                    raise _refusal(_written(path), name)
            items: Iterable[tuple[object, Any]] = value.items()
        else:
            items = enumerate(value)
        waiting += [((path, step), item) for step, item in items if isinstance(item, dict | list)]


# A place: the one that it is in, and the step from there.
_Path = tuple[Any, object]


def _written(path: _Path) -> str:
    steps: list[object] = []
    while path[0] is not None:
        steps.append(path[1])
        path = path[0]
    return str(path[1]) + "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(steps)
    )


def _refusal(where: str, name: str) -> BadRequest:
    return BadRequest(
        f"{where} may not set {name}: leave it out", param=f"{where}.{name}", code="reserved_name"
    )
