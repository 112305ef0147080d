"""Muse: calls in messages to a recipient."""

from __future__ import annotations

import pytest

from sglrouter.families.formats.program import Tools
from sglrouter.families.registry import TOOL_FORMATS
from tests.families.laws import check_truncated, reads

MUSE = TOOL_FORMATS["muse"]
TOOLS = Tools([{"function": {"name": name}} for name in ("map", "files.list", "a.b", "c.b")])


def call(name: str = "map") -> str:
    return (
        f'<atem:function_calls>\n<atem:invoke name="{name}">\n'
        '<atem:parameter name="n">1</atem:parameter>\n</atem:invoke>\n</atem:function_calls>'
    )


CALLS = [("map", {"n": 1})]


TO_USER = "<|start|>assistant to=user<|message|>"
TO_TOOL = "<|start|>assistant to=functions<|message|>"


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (f" to=functions<|message|>{call()}<|eom|>", "", CALLS),
        (f"to=functions.map<|message|>{call()}<|eot|>", "", CALLS),
        (" to=user<|message|>Hello.<|eot|>", "Hello.", []),
        (f" to=user<|message|>Hello.<|eom|>{TO_TOOL}{call()}<|eom|>", "Hello.", CALLS),
        (f"{TO_TOOL}{call()}<|eom|>{TO_USER}Done.<|eot|>", "Done.", CALLS),
        (f"Looking. {call()} Done.", "Looking.  Done.", CALLS),
        # What is for the user is no call, whatever it looks like.
        (f" to=user<|message|>Write {call()}!", f"Write {call()}!", []),
        (f"<|start|>assistant<|message|>{call()}", call(), []),
        ("to=5 or so", "to=5 or so", []),
        ("to", "to", []),
        ("Two, to=three.", "Two, to=three.", []),
        ("<|start|>" + "x" * 500 + " ok", "<|start|>" + "x" * 500 + " ok", []),
        (f"{call()} ok </atem:invoke><|eom|>", " ok </atem:invoke>", CALLS),
    ],
)
def test_messages(text: str, content: str, calls: list[tuple[str, object]]) -> None:
    assert reads(MUSE, text, TOOLS) == (content, calls)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("map.map", "map"),
        ("functions.map", "map"),
        ("files.list", "files.list"),
        ("list", "list"),
        ("x.list", "files.list"),
        ("x.b", "x.b"),
        ("x.y", "x.y"),
    ],
)
def test_names_with_a_namespace(written: str, meant: str) -> None:
    assert reads(MUSE, call(written), TOOLS) == ("", [(meant, {"n": 1})])


def test_messages_cut_off_anywhere() -> None:
    check_truncated(MUSE, f"{TO_USER}Hi.<|eom|>{TO_TOOL}{call()}<|eom|>", TOOLS)
