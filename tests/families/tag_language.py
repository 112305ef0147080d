"""What a structural tag accepts, as a regular expression: a small model of the engine's.

Arguments are stood for by words: a JSON Schema by the title it has, in angle brackets,
after the style in which it is written, as in "<qwen_xml strict>".
"""

from __future__ import annotations

import re
from typing import Any


def accepts(tag: dict[str, Any], text: str) -> bool:
    """Whether an answer may be this text, from its first character to its last."""
    assert tag["type"] == "structural_tag"
    if "structures" in tag:
        assert set(tag) == {"type", "structures", "triggers", "at_least_one"}
        pattern = _triggered(
            [
                {
                    "type": "tag",
                    "begin": structure["begin"],
                    "content": {"type": "json_schema", "json_schema": structure["schema"]},
                    "end": structure["end"],
                }
                for structure in tag["structures"]
            ],
            tag["triggers"],
            at_least_one=tag["at_least_one"],
        )
    else:
        assert set(tag) == {"type", "format"}
        pattern = _pattern(tag["format"])
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _pattern(node: dict[str, Any]) -> str:
    kind = node["type"]
    if kind == "const_string":
        return re.escape(str(node["value"]))
    if kind == "regex":
        return f"(?:{node['pattern']})"
    if kind == "any_text":
        return _text(node.get("excludes", []))
    if kind == "json_schema":
        style = node.get("style", "json")
        return re.escape(f"<{style} {node['json_schema'].get('title', 'any')}>")
    if kind == "tag":
        ends = node["end"] if isinstance(node["end"], list) else [node["end"]]
        end = "|".join(map(re.escape, ends))
        return f"{re.escape(node['begin'])}{_pattern(node['content'])}(?:{end})"
    if kind == "sequence":
        return "".join(map(_pattern, node["elements"]))
    if kind == "or":
        return _either(node["elements"])
    if kind == "tags_with_separator":
        tags = _either(node["tags"])
        more = "" if node.get("stop_after_first") else f"(?:{re.escape(node['separator'])}{tags})*"
        return f"(?:{tags}{more}){'' if node.get('at_least_one') else '?'}"
    assert kind == "triggered_tags"
    return _triggered(
        node["tags"],
        node["triggers"],
        at_least_one=node["at_least_one"],
        stop_after_first=node["stop_after_first"],
        excludes=node["excludes"],
    )


def _triggered(
    tags: list[dict[str, Any]],
    triggers: list[str],
    *,
    at_least_one: bool,
    stop_after_first: bool = False,
    excludes: list[str] | None = None,
) -> str:
    for tag in tags:
        assert sum(tag["begin"].startswith(trigger) for trigger in triggers) == 1
    text = _text([*triggers, *(excludes or [])])
    call = _either(tags)
    if stop_after_first:
        return call if at_least_one else f"{text}{call}?"
    rest = f"(?:{text}{call})*{text}"
    return call + rest if at_least_one else rest


def _text(excludes: list[str]) -> str:
    none = "".join(f"(?!{re.escape(word)})" for word in excludes)
    return f"(?:{none}.)*"


def _either(nodes: list[dict[str, Any]]) -> str:
    return f"(?:{'|'.join(map(_pattern, nodes))})"
