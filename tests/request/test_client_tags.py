"""Structural tags that clients write themselves."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.request.client_tags import MAX_FORMAT_DEPTH, MAX_FORMATS, check_structural_tag
from sglrouter.request.json_schemas import MAX_PATTERN

Json = dict[str, Any]
TEXT = {"type": "any_text"}


def check(**fields: Any) -> None:
    check_structural_tag({"type": "structural_tag", **fields})


def structures(**changes: Any) -> Json:
    structure = {"begin": "<f>", "schema": {"type": "object"}, "end": "</f>"}
    return {"structures": [{**structure, **changes}], "triggers": ["<f"]}


def tag(content: Any) -> Json:
    return {"type": "tag", "begin": "<f>", "content": content, "end": "</f>"}


@pytest.mark.parametrize(
    "fields",
    [
        structures(),
        structures(schema=None),
        structures(schema=True),
        {**structures(), "at_least_one": True, "format": None},
        {"format": TEXT},
        {"format": {"type": "json_schema", "json_schema": {"type": "object"}}},
        {"format": {"type": "json_schema"}},
        {"format": {"type": "of-a-later-engine", "anything": [1]}},
        {"format": {"type": "sequence", "elements": [TEXT, tag(TEXT)]}},
        {"format": {"type": "triggered_tags", "triggers": ["<f"], "tags": [
            {"begin": "<f>", "content": TEXT, "end": "</f>"}]}},
        {"format": {"type": "dispatch", "rules": [["a", TEXT]]}},
        {"format": {"type": "regex", "pattern": "a+"}},
        {"format": {"type": "tag", "begin": {"type": "token", "token": 3}, "content": TEXT,
                    "end": ["a", "b"]}},
    ],
)  # fmt: skip
def test_both_forms(fields: Json) -> None:
    check(**fields)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "format"),
        ({"format": None, "structures": None}, "format"),
        ({"format": "x"}, "format"),
        ({"format": {}}, "format.type"),
        ({"format": {"type": 3}}, "format.type"),
        ({"format": {"begin": "a", "end": "b", "content": TEXT}}, "format.type"),
        ({"structures": [], "triggers": ["a"]}, "structures"),
        ({"structures": "x", "triggers": ["a"]}, "structures"),
        ({"structures": [3], "triggers": ["a"]}, "structures[0]"),
        ({"structures": structures()["structures"]}, "triggers"),
        ({**structures(), "triggers": []}, "triggers"),
        ({**structures(), "triggers": [""]}, "triggers"),
        ({**structures(), "triggers": "<f"}, "triggers"),
        ({**structures(), "triggers": [3]}, "triggers"),
        ({**structures(), "at_least_one": "x"}, "at_least_one"),
        (structures(begin=1), "structures[0].begin"),
        (structures(begin="g"), "structures[0].begin"),
        ({**structures(), "triggers": ["<", "<f"]}, "structures[0].begin"),
        (structures(end=None), "structures[0].end"),
        (structures(schema="{}"), "structures[0].schema"),
        (structures(schema={"type": "nope"}), "structures[0].schema"),
        (structures(schema={"$ref": "#"}), "structures[0].schema"),
        ({"format": {"type": "sequence", "elements": [TEXT, 3]}}, "format.elements[1]"),
        ({"format": {"type": "sequence", "elements": [{}]}}, "format.elements[0].type"),
        ({"format": tag(tag({"type": "json_schema", "json_schema": {"$ref": "#/a"}}))},
         "format.content.content.json_schema"),
        ({"format": {"type": "qwen_xml_parameter", "json_schema": 3}}, "format.json_schema"),
        ({"format": {"type": "triggered_tags", "tags": [tag({"type": None})]}},
         "format.tags[0].content.type"),
        ({"format": {"type": "dispatch", "rules": [["a", 3]]}}, "format.rules[0][1]"),
        ({"format": {"type": "regex", "pattern": "a" * (MAX_PATTERN + 1)}}, "format.pattern"),
        ({"format": {"type": "regex", "pattern": "a\0"}}, "format.pattern"),
        ({"format": {"type": "grammar", "grammar": 3}}, "format.grammar"),
        ({"format": {"type": "or", "elements": [TEXT] * MAX_FORMATS}}, None),
    ],
)  # fmt: skip
def test_a_malformed_tag_is_refused_by_its_place(fields: Json, param: str | None) -> None:
    with pytest.raises(BadRequest) as raised:
        check(**fields)
    if param is not None:
        assert raised.value.param == f"response_format.{param}"
    assert str(raised.value.param) in raised.value.message


def test_depth_is_bounded() -> None:
    def nested(depth: int) -> Json:
        inner: Json = TEXT
        for _ in range(depth - 1):
            inner = {"type": "optional", "content": inner}
        return inner

    check(format=nested(MAX_FORMAT_DEPTH))
    for depth in (MAX_FORMAT_DEPTH + 1, 50_000):
        with pytest.raises(BadRequest, match="too much"):
            check(format=nested(depth))


def test_there_are_not_too_many_structures() -> None:
    one = structures()
    check(structures=one["structures"] * MAX_FORMATS, triggers=one["triggers"])
    with pytest.raises(BadRequest, match="at most"):
        check(structures=one["structures"] * (MAX_FORMATS + 1), triggers=one["triggers"])
