"""What holds for every format, checked on one text, and calls to check it on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from sglrouter.families.formats.program import Format, Tools
from sglrouter.families.reading import Reading
from tests.families.reading import Result, read, read_every_way

TOOLS = Tools(
    [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {"type": "object", "properties": properties},
            },
        }
        for name, properties in (
            (
                "book",
                {
                    "title": {"type": "string"},
                    "pages": {"type": "integer"},
                    "price": {"type": "number"},
                    "lent": {"type": "boolean"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "shelf": {"type": "object"},
                },
            ),
            ("note", {"text": {"type": "string"}}),
            ("now", {}),
        )
    ]
)


def reading_of(form: Format, tools: Tools = TOOLS) -> Reading:
    """A reading without reasoning of its own."""
    return Reading(calls=form, tools=tools)


def parsed(result: Result) -> list[tuple[str, Any]]:
    """The names and the arguments of the calls, all of which are whole."""
    assert result.completed == len(result.calls)
    return [(call.name, json.loads(call.arguments)) for call in result.calls]


def reads(form: Format, text: str, tools: Tools = TOOLS) -> tuple[str, list[tuple[str, Any]]]:
    """Content and whole calls of a text, which has no reasoning, however it is cut."""
    result = read_every_way(reading_of(form, tools), text)
    assert result.reasoning == ""
    return result.content, parsed(result)


def check_truncated(form: Format, text: str, tools: Tools = TOOLS) -> None:
    """Cuts a text off everywhere: what is out already must stay, and no marker shows.

    The text is content, calls, content, and all of the markers in it are well-formed.
    """
    reading = reading_of(form, tools)
    last = read(reading, [""])
    whole = read(reading, [text])
    for end in range(1, len(text) + 1):
        result = read(reading, [text[:end]])
        for marker in form.markers:
            assert marker not in result.content + result.reasoning, text[:end]
        assert len(last.calls) <= len(result.calls) <= len(whole.calls)
        for before, after in zip(last.calls, result.calls, strict=False):
            assert after.name == before.name
            assert after.arguments.startswith(before.arguments), text[:end]
        for call, final in zip(result.calls, whole.calls, strict=False):
            assert final.arguments.startswith(call.arguments)
        last = result


# Values as models write them into arguments, all kinds of strings among them.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("<>|\"'\\[]{}(),:=\n\t u"),
    max_size=12,
)
WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,7}", fullmatch=True)
NUMBERS = st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)


def json_values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Values of JSON whose objects have such keys."""
    return st.recursive(
        st.none() | st.booleans() | NUMBERS | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=6,
    )


def call_lists(
    keys: st.SearchStrategy[str] = TEXTS,
) -> st.SearchStrategy[list[tuple[str, Mapping[str, Any]]]]:
    """Calls of a few functions."""
    arguments = st.dictionaries(WORDS, json_values(keys), max_size=4)
    return st.lists(st.tuples(st.sampled_from(["book", "note"]), arguments), min_size=1, max_size=3)
