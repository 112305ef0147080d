"""A conversation becomes a prompt: normalised, rendered, tokenized."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import tokenizers

from sglrouter.errors import BadRequest, ConfigError
from sglrouter.prompt.adapted_template import AdaptedTemplate
from sglrouter.prompt.budget import Budget
from sglrouter.prompt.continuation import Continue, continuation
from sglrouter.prompt.control_check import check_template
from sglrouter.prompt.control_text import ControlText
from sglrouter.prompt.encoder import Encoder
from sglrouter.prompt.encodings.choice import encoding
from sglrouter.prompt.encodings.encoding import Encoding
from sglrouter.prompt.messages import Message, normalise
from sglrouter.prompt.model_files import ModelFiles, read_template_file
from sglrouter.prompt.reserved_names import refuse_reserved
from sglrouter.prompt.template import ChatTemplate
from sglrouter.turns import no_pause

# What to do about it, for whoever asks.
NO_TEMPLATE = (
    "This model has no chat template and no built-in encoding, so chat requests are refused; "
    "set chat_template to a Jinja file"
)


class Prompt(NamedTuple):
    """What an engine is given: the text, and the ids that count.

    `continued` is how many characters at the text's end are those of the assistant's
    message that the model shall go on with; 0 where it begins one. `in_thoughts` is
    whether they are that message's thoughts.
    """

    text: str
    ids: Sequence[int]
    continued: int = 0
    in_thoughts: bool = False


class PromptOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator may set.

    Attributes:
        template_file: A file that replaces the model's templates, or None.
        template_name: The template for all conversations; empty to choose as Hugging
            Face does.
        variables: Template variables for requests that leave them out.
        sort_tools: Whether tools are shown with their keys sorted.
        seconds: How long a prompt may take to render.
        characters: How long it may get.
    """

    template_file: Path | None = None
    template_name: str = ""
    variables: Mapping[str, Any] = msgspec.field(default_factory=dict)
    sort_tools: bool = False
    seconds: float = 2.0
    characters: int = 64 * 1024 * 1024


class PromptBuilder:
    """Renders conversations of one model.

    Args:
        files: The model's files.
        encoder: Its tokenizer.
        options: The operator's wishes.
        text_only: The model's tokenizer, if control tokens in messages are to be text.

    Raises:
        ConfigError: A template cannot be read, does not compile or is not there, or a
            variable is not to be set.
    """

    def __init__(
        self,
        files: ModelFiles,
        encoder: Encoder,
        options: PromptOptions | None = None,
        text_only: tokenizers.Tokenizer | None = None,
    ) -> None:
        self._options = options = options or PromptOptions()
        sources = files.chat_templates
        if options.template_file is not None:
            sources = read_template_file(options.template_file)
        if options.template_name and options.template_name not in sources:
            raise ConfigError(
                f"chat_template_name: there is no template {options.template_name!r}, "
                f"only {', '.join(sorted(sources)) or 'none at all'}"
            )
        try:
            refuse_reserved(options.variables, "default_chat_template_kwargs")
        except BadRequest as exc:
            raise ConfigError(exc.message) from exc
        self._templates: dict[str, AdaptedTemplate | Encoding] = {
            name: AdaptedTemplate(ChatTemplate(source, files.special_tokens))
            for name, source in sources.items()
        }
        built_in = None if sources else encoding(files.encoding)
        if built_in is not None:
            self._templates["default"] = built_in
            sources = {"default": built_in.source}
        self._encoding = files.encoding
        self.encoder = encoder
        self._control: ControlText | None = None
        if text_only is not None:
            self._control = ControlText(text_only, "\n".join(sources.values()))
            for template in self._templates.values():
                check_template(template, self._control)

    @property
    def has_template(self) -> bool:
        """Whether conversations can be rendered at all."""
        return bool(self._templates)

    @property
    def shows_response_format(self) -> bool:
        """Whether prompts are to tell of a request's response_format."""
        return any(
            not isinstance(each, AdaptedTemplate) and each.shows_response_format
            for each in self._templates.values()
        )

    @property
    def rendering(self) -> str:
        """What renders conversations: "template", the name of an encoding, or "none"."""
        if not self._templates:
            return "none"
        by_template = any(isinstance(each, AdaptedTemplate) for each in self._templates.values())
        return "template" if by_template else self._encoding

    def build(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        kwargs: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: Continue = False,
        pause: Callable[[], object] | None = None,
        check: Callable[[str], object] | None = None,
    ) -> Prompt:
        """Renders and tokenizes a conversation.

        Args:
            messages: As the client sent them.
            tools: As the client sent them, or None.
            kwargs: Template variables of the request.
            add_generation_prompt: Whether to open the assistant's turn.
            continue_final_message: Whether the model goes on with the last message
                instead, which is the assistant's, or with which of its fields.
            pause: Called now and then while rendering goes on for long.
            check: Called with the text before it is tokenized; may refuse it.

        Raises:
            BadRequest: The conversation cannot be rendered, or is refused.
        """
        if kwargs:
            refuse_reserved(kwargs, pause=pause or no_pause)
        options = self._options
        template = self._select(tools)
        budget = Budget(options.seconds, options.characters, pause)
        normal = normalise(
            messages,
            content_format=template.content_format,
            knows_developer=template.knows_developer,
            knows_thinking=template.knows_thinking,
            budget=budget,
        )
        if tools and options.sort_tools:
            tools = _sorted(tools)
        kwargs = kwargs or {}
        control = self._control
        if control is not None:
            normal, tools, kwargs = control.mark((normal, tools, kwargs))

        def render(messages: Sequence[Message]) -> str:
            return template.render(
                messages,
                tools or None,
                budget,
                add_generation_prompt=add_generation_prompt and not continue_final_message,
                kwargs={**options.variables, **kwargs},
            )

        continued, in_thoughts = 0, False
        try:
            if continue_final_message:
                text, continued, in_thoughts = continuation(normal, continue_final_message, render)
            else:
                text = render(normal)
        except BadRequest as exc:
            raise exc if control is None else control.restored(exc) from None
        if check is not None:
            check(text)
        # The template has written every special token, the first one included.
        if control is not None:
            ids = self.encoder.encode_marked(text, control)
            return Prompt(control.restore(text), ids, continued, in_thoughts)
        return Prompt(text, self.encoder.encode(text), continued, in_thoughts)

    def _select(self, tools: object) -> AdaptedTemplate | Encoding:
        """Picks as Hugging Face does: `tool_use` where there are tools, else `default`."""
        name = self._options.template_name
        if not name:
            name = "tool_use" if tools and "tool_use" in self._templates else "default"
        if name in self._templates:
            return self._templates[name]
        raise BadRequest(
            NO_TEMPLATE,
            code="chat_template_error",
        )


def _sorted(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same tools with the keys of every object in order."""
    try:
        # Not msgspec, which has no integers of more than 64 bits.
        in_order: list[dict[str, Any]] = json.loads(json.dumps(tools, sort_keys=True))
    except RecursionError as exc:
        raise BadRequest("tools are nested too deeply", param="tools") from exc
    return in_order
