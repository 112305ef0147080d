"""What an API calls the fields that have another name inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def renaming(names: Mapping[str, str]) -> Callable[[str], str]:
    """Gives fields the names of an API; for errors.Invalid.called().

    Args:
        names: The API's path by our own; the longest that fits counts. What is inside of a
            field is called as the field is.
    """

    def name(field: str) -> str:
        for ours in sorted(names, key=len, reverse=True):
            if field == ours or field.startswith((f"{ours}.", f"{ours}[")):
                return names[ours] + field[len(ours) :]
        return field

    return name
