"""The names that a request may ask for, and what it gets.

Strategy: the model has one name, which its operator gave it, or else its folder; aliases
are other names for the same. An adapter is asked for by its own name, since that is
what /v1/models lists, or after the model's and a colon, as SGLang has it. A name that
somebody has chosen is worth checking: a request for another one was meant for another
server. A name that is only a folder's is not: clients cannot be expected to guess it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sglrouter.config import Settings
from sglrouter.engines.wire.scheduler import EngineFacts
from sglrouter.errors import BadRequest, ConfigError
from sglrouter.serving.adapters import adapter_id, parse_adapters

# A name comes back in every chunk of a stream.
MAX_MODEL_NAME = 1024
# How many names, and how much of an unknown one, an error shows.
_MOST_NAMES = 20
_LONGEST_SHOWN = 100


class Named(Protocol):
    """A request as far as it says what shall answer it."""

    @property
    def model(self) -> str | None:
        """The name of the model or an adapter."""

    @property
    def lora_path(self) -> str | None:
        """The name of an adapter."""


class Models:
    """The names of one model and its adapters.

    Args:
        settings: The operator's names.
        folder: The name of the model's folder; empty if it means nothing.

    Raises:
        ConfigError: An adapter has the name of the model, or no proper name.
    """

    def __init__(self, settings: Settings, folder: str = "") -> None:
        self._name = settings.model_name
        self._folder = folder
        self._aliases = tuple(settings.model_aliases)
        self._unknown = settings.unknown_models
        self._adapters = parse_adapters(settings.lora_adapters)
        for name in (self._name, *self._aliases):
            if name in self._adapters:
                raise ConfigError(f"lora_adapters: {name!r} is a name of the model itself")

    def name(self, facts: EngineFacts) -> str:
        """What the model is called."""
        return self._told(facts) or self._folder or facts.model_name or "default"

    def adapter(self, request: Named, facts: EngineFacts) -> str:
        """The engine's id of the adapter that a request is for; empty for none.

        Args:
            request: The request. An adapter in `model` wins over `lora_path`.
            facts: Of the engine that will serve it.

        Raises:
            RouterError: There is no such model (404) or adapter (400).
        """
        asked = request.model
        found = ""
        if asked:
            if len(asked) > MAX_MODEL_NAME:
                raise BadRequest(
                    f"model takes at most {MAX_MODEL_NAME} characters",
                    code="invalid_value",
                    param="model",
                )
            known = self.find(asked, facts)
            if known is None:
                if self._refuses(facts):
                    raise self.unknown(asked, facts)
                # Other model names have colons, too.
                known = asked.partition(":")[2]
            found = self._adapters.get(known, "")
        if request.lora_path:
            named = adapter_id(request.lora_path, self._adapters)
            return found or named
        return found

    def find(self, name: str, facts: EngineFacts) -> str | None:
        """The adapter that a name means: empty for the model itself, None if unknown."""
        names = (self.name(facts), *self._aliases)
        if name in names:
            return ""
        if name in self._adapters:
            return name
        for model in names:
            if name.startswith(f"{model}:") and (rest := name[len(model) + 1 :]) in self._adapters:
                return rest
        return None

    def unknown(self, name: str, facts: EngineFacts) -> BadRequest:
        """The error for a name that is not known."""
        # A name may be in the list twice, as the model's and as an alias.
        known = list(dict.fromkeys((self.name(facts), *self._aliases, *self._adapters)))
        names = ", ".join(known[:_MOST_NAMES])
        if len(known) > _MOST_NAMES:
            names += f" and {len(known) - _MOST_NAMES} more"
        shown = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}..."
        return BadRequest(
            f"The model `{shown}` does not exist or you do not have access to it. "
            f"There are: {names}",
            status=404,
            code="model_not_found",
            param="model",
        )

    def entries(self, facts: EngineFacts, **same: Any) -> list[dict[str, Any]]:
        """What /v1/models lists: the model, then its adapters.

        Args:
            facts: Of an engine.
            same: Fields that are the same for all.
        """
        name = self.name(facts)
        model = {
            **_entry(name, facts.model_path or name, None, same),
            "aliases": [alias for alias in self._aliases if alias != name],
        }
        return [
            model,
            *({**_entry(each, each, name, same), "aliases": []} for each in self._adapters),
        ]

    def _told(self, facts: EngineFacts) -> str:
        """The name that somebody has chosen; empty if nobody has."""
        served = facts.served_model_name
        return self._name or ("" if served == facts.model_path else served)

    def _refuses(self, facts: EngineFacts) -> bool:
        """Whether requests for other models are refused."""
        return self._unknown == "refuse" or (self._unknown == "auto" and bool(self._told(facts)))


def _entry(name: str, root: str, parent: str | None, same: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "owned_by": "sglang",
        "root": root,
        "parent": parent,
        **same,
    }
