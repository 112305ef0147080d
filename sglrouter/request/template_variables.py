"""The variables that a request gives the chat template.

Strategy: chat_template_kwargs are the client's word and win over all, but for the names that
are reserved. Switches that other APIs have as fields of their own fill what
chat_template_kwargs leave open, under the two names that templates read.
"""

from __future__ import annotations

from typing import Any

from sglrouter.errors import BadRequest
from sglrouter.prompt.reserved_names import refuse_reserved
from sglrouter.schema.chat import ChatRequest
from sglrouter.turns import Pause, no_pause

# The names that templates have for the switch.
_THINKING = ("thinking", "enable_thinking")


def template_variables(request: ChatRequest, pause: Pause = no_pause) -> dict[str, Any]:
    """The variables that a request sets, by whichever field.

    Args:
        request: The request.
        pause: Called now and then, to let others go on.

    Raises:
        BadRequest: It brings a template, or sets a reserved name.
    """
    if request.chat_template is not None:
        raise BadRequest(
            "chat_template is not taken from requests; the operator may set one",
            param="chat_template",
        )
    variables: dict[str, Any] = dict(request.chat_template_kwargs or {})
    if variables:
        refuse_reserved(variables, pause=pause)
    effort = request.reasoning_effort
    if effort is None and request.reasoning is not None:
        effort = request.reasoning.effort
    if effort is not None:
        variables.setdefault("reasoning_effort", effort)
    thinks = _thinks(request, effort)
    if thinks is not None:
        for name in _THINKING:
            variables.setdefault(name, thinks)
    return variables


def _thinks(request: ChatRequest, effort: str | float | None) -> bool | None:
    """Whether the client wants the model to think; None if it has not said."""
    if request.enable_thinking is not None:
        return request.enable_thinking
    if isinstance(request.thinking, bool):
        return request.thinking
    if request.thinking is not None:
        return request.thinking.type != "disabled"
    if request.reasoning is not None and request.reasoning.enabled is not None:
        return request.reasoning.enabled
    if effort is not None:
        return effort != "none"
    return None
