"""A chat template that is given conversations in the forms that it takes.

Strategy: the forms that probes chose at start are used at once. A conversation that the
template refuses all the same is tried in others before the client hears of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglrouter.prompt.budget import Budget
from sglrouter.prompt.forms import Tools, in_forms, other_forms
from sglrouter.prompt.messages import Message
from sglrouter.prompt.template import ChatTemplate, TemplateRefusal
from sglrouter.prompt.template_probes import probe


class AdaptedTemplate:
    """One template and what it wants.

    Args:
        template: The template, which is tried at once.

    Attributes:
        content_format: As the template's.
        knows_developer: As the template's.
        knows_thinking: As the template's.
        forms: The names of the forms that it is given.
        hidden: What it shows in no form.
    """

    def __init__(self, template: ChatTemplate) -> None:
        self.content_format = template.content_format
        self.knows_developer = template.knows_developer
        self.knows_thinking = template.knows_thinking
        self._template = template
        self._forms, self.hidden = probe(template)
        self.forms = tuple(form.name for form in self._forms)

    def render(
        self,
        messages: Sequence[Message],
        tools: Tools,
        budget: Budget,
        *,
        add_generation_prompt: bool = True,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Renders a conversation in the first form that the template takes.

        Raises:
            TemplateRefusal: It takes none; what is told is its word on the first.
            BadRequest: The budget is used up.
        """

        def rendered(messages: Sequence[Message], tools: Tools) -> str:
            return self._template.render(
                messages, tools, budget, add_generation_prompt=add_generation_prompt, kwargs=kwargs
            )

        try:
            return rendered(*in_forms(self._forms, messages, tools))
        except TemplateRefusal as refusal:
            for forms in other_forms(
                self._forms, messages, tools, knows_thinking=self.knows_thinking
            ):
                try:
                    return rendered(*in_forms(forms, messages, tools))
                except TemplateRefusal:
                    continue
            raise refusal
