"""The LoRA adapters that requests may use.

An engine knows its adapters by ids of its own making and does not check those that come
over gRPC. So clients ask by name, the operator says which names there are, and no other
id ever reaches an engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sglrouter.errors import BadRequest, ConfigError


def parse_adapters(texts: Sequence[str]) -> dict[str, str]:
    """Reads NAME=ID pairs; a NAME alone is its own id.

    Raises:
        ConfigError: A pair is not of this form, or a name comes twice.
    """
    adapters: dict[str, str] = {}
    for text in texts:
        name, equals, identity = text.partition("=")
        if not name or (equals and not identity):
            raise ConfigError(f"lora_adapters: {text!r} should be NAME=ID")
        if name in adapters:
            raise ConfigError(f"lora_adapters: there are two of the name {name!r}")
        adapters[name] = identity or name
    return adapters


def adapter_id(name: str, adapters: Mapping[str, str]) -> str:
    """The engine's id of the adapter that a lora_path names.

    Raises:
        BadRequest: There is no such adapter.
    """
    found = adapters.get(name)
    if found is None:
        known = ", ".join(sorted(adapters)) or "none"
        raise BadRequest(
            f"lora_path names an adapter that is not here; there are: {known}",
            code="adapter_not_found",
            param="lora_path",
        )
    return found
