"""A conversation becomes a prompt: normalised, rendered, tokenized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sglrouter.errors import BadRequest, ConfigError
from sglrouter.prompt.fast_tokenizer import Encoder
from sglrouter.prompt.messages import normalise
from sglrouter.prompt.model_files import ModelFiles
from sglrouter.prompt.template import RESERVED, ChatTemplate


class Prompt(NamedTuple):
    """What an engine is given: the text, and the ids that count."""

    text: str
    ids: Sequence[int]


class PromptBuilder:
    """Renders conversations of one model.

    Args:
        files: The model's files.
        encoder: Its tokenizer.
        template_file: A Jinja file that replaces the model's templates, or None.

    Raises:
        ConfigError: The template file cannot be read, or a template does not compile.
    """

    def __init__(
        self, files: ModelFiles, encoder: Encoder, template_file: Path | None = None
    ) -> None:
        sources = files.chat_templates
        if template_file is not None:
            try:
                sources = {"default": template_file.read_text(encoding="utf-8")}
            except (OSError, UnicodeDecodeError) as exc:
                raise ConfigError(f"chat_template: {template_file}: {exc}") from exc
        self._templates = {
            name: ChatTemplate(source, files.special_tokens) for name, source in sources.items()
        }
        self._encoder = encoder

    @property
    def has_template(self) -> bool:
        """Whether conversations can be rendered at all."""
        return bool(self._templates)

    def build(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        kwargs: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
    ) -> Prompt:
        """Renders and tokenizes a conversation.

        Args:
            messages: As the client sent them.
            tools: As the client sent them, or None.
            kwargs: Template variables of the request.
            add_generation_prompt: Whether to open the assistant's turn.

        Raises:
            BadRequest: The conversation cannot be rendered.
        """
        for name in kwargs or ():
            if name in RESERVED:
                raise BadRequest(
                    f"chat_template_kwargs may not set {name}", param="chat_template_kwargs"
                )
        template = self._select(tools)
        text = template.render(
            normalise(
                messages,
                content_format=template.content_format,
                knows_developer=template.knows_developer,
            ),
            tools,
            add_generation_prompt=add_generation_prompt,
            kwargs=kwargs,
        )
        # The template has written every special token, the first one included.
        return Prompt(text, self._encoder.encode(text, add_special_tokens=False).ids)

    def _select(self, tools: object) -> ChatTemplate:
        """Picks as Hugging Face does: `tool_use` where there are tools, else `default`."""
        if tools and "tool_use" in self._templates:
            return self._templates["tool_use"]
        if "default" in self._templates:
            return self._templates["default"]
        raise BadRequest(
            "This model has no chat template; set chat_template to a Jinja file",
            code="chat_template_error",
        )
