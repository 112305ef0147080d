"""Real chat templates, rendered as Hugging Face and SGLang render them, byte for byte."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, tzinfo
from functools import cache
from pathlib import Path
from typing import Any, Self

import pytest
import tokenizers

from sglrouter.errors import BadRequest
from sglrouter.prompt import sandbox
from sglrouter.prompt.continuation import continuation
from sglrouter.prompt.conversation import PromptBuilder, PromptOptions
from sglrouter.prompt.encoder import reference_encoder
from sglrouter.prompt.messages import normalise
from sglrouter.prompt.model_files import read_model_files
from sglrouter.prompt.template import ChatTemplate
from tests.prompt.ample import ample

pytestmark = [pytest.mark.corpus, pytest.mark.long]

Row = dict[str, Any]

TOKENIZERS = (
    "deepseek-v3",
    "gpt-oss",
    "mistral-spm-v3",
    "mistral-tekken-240911",
    "qwen3",
    "smollm2-135m-instruct",
)

MEDIA_CASES = ("image_part", "image_url_part")


def _may_be_adapted(case: str) -> bool:
    """Whether a template may refuse it, or lose part of it, and is given another form."""
    return case in ("two_systems", "empty_assistant") or "tool" in case


class _FrozenTime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(2025, 7, 26, 12, 34, 56)


@pytest.fixture(autouse=True)
def _frozen_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "datetime", _FrozenTime)


@cache
def _templates(folder: Path) -> dict[str, tuple[ChatTemplate, str]]:
    """Every template with the content format that SGLang finds in it."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    return {
        entry["name"]: (
            ChatTemplate(
                (folder / entry["file"]).read_text(encoding="utf-8"), entry["special_tokens"]
            ),
            entry["content_format"],
        )
        for entry in manifest
    }


@cache
def _cases(folder: Path) -> dict[str, Row]:
    return {case["id"]: case for case in json.loads((folder / "cases.json").read_bytes())}


def _lines(path: Path) -> list[Row]:
    # As bytes: text has more ends of a line than JSON Lines.
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@cache
def _goldens(folder: Path) -> dict[str, list[Row]]:
    """The rows by case, with messages as SGLang prepares them."""
    rows: dict[str, list[Row]] = {}
    for row in _all_goldens(folder):
        if row["variant"] == "norm":
            rows.setdefault(row["case"], []).append(row)
    return rows


@cache
def _all_goldens(folder: Path) -> list[Row]:
    return _lines(folder / "goldens.jsonl")


@pytest.fixture(scope="module")
def folder(corpus: Path) -> Path:
    return corpus / "chat_templates"


def _render(template: ChatTemplate, case: Row, messages: list[Row] | None = None) -> str:
    """The prompt of a conversation as a client sends it."""
    return _render_as_is(
        template,
        case,
        normalise(
            case["messages"] if messages is None else messages,
            content_format=template.content_format,
            knows_developer=template.knows_developer,
        ),
    )


def _render_as_is(template: ChatTemplate, case: Row, messages: list[Row]) -> str:
    def render(messages: Sequence[Row]) -> str:
        return template.render(
            messages,
            case["tools"],
            ample(),
            add_generation_prompt=case["add_generation_prompt"],
            kwargs=case["template_kwargs"],
        )

    if case["continue_final_message"]:
        return continuation(messages, True, render).prompt
    return render(messages)


def _assert_golden(
    template: ChatTemplate,
    case: Row,
    row: Row,
    messages: list[Row] | None,
    *,
    same_words: bool = True,
) -> None:
    """Compares a row; None as messages for those that a client sends."""
    where = f"{row['template']}/{row['case']}/{row['variant']}"
    text, refusal = None, None
    try:
        if messages is None:
            text = _render(template, case)
        else:
            text = _render_as_is(template, case, messages)
    except BadRequest as exc:
        refusal = exc.message
    assert text == row.get("expected"), (where, refusal)
    assert (refusal is None) == ("error" not in row), where
    # The last refusal is ours to word.
    if refusal and same_words and not row["message"].startswith("continue_final_message"):
        assert row["message"] in refusal, where


def _prepared(case: Row, row: Row, content_format: str, version: str) -> list[Row]:
    """The messages of a row as transformers hands them to the template."""
    if row["variant"] == "hf":
        messages = case["hf_messages"]
    else:
        messages = case["norm_messages"][content_format]
    out = []
    for message in messages:
        new = dict(message)
        if version.startswith("5."):
            new = {key: value for key, value in message.items() if value is not None}
            if "reasoning_content" in new:
                new.setdefault("thinking", new["reasoning_content"])
        if row["variant"] == "str" and "tool_calls" in new:
            new["tool_calls"] = [_with_text_arguments(call) for call in new["tool_calls"]]
        out.append(new)
    return out


def _with_text_arguments(call: Row) -> Row:
    arguments = call["function"]["arguments"]
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {**call, "function": {**call["function"], "arguments": arguments}}


def test_every_row_of_every_variant_is_rendered_as_transformers_does(folder: Path) -> None:
    """The engine alone, given what transformers' own engine was given."""
    templates, cases = _templates(folder), _cases(folder)
    compared: Counter[str] = Counter()
    for row in _all_goldens(folder):
        template, content_format = templates[row["template"]]
        case = cases[row["case"]]
        for version in row["transformers"]:
            messages = _prepared(case, row, content_format, version)
            # Where two versions raise, the row has the words of the later one.
            same_words = version == row["transformers"][-1]
            _assert_golden(template, case, row, messages, same_words=same_words)
            compared[row["variant"]] += 1
    assert compared == {"norm": 7566, "hf": 2362, "str": 1028}


def _is_superseded(row: Row, content_format: str) -> bool:
    """Whether the row shows what we decided to do otherwise; each has a test below."""
    case = row["case"]
    return (
        case == "developer_role"
        or case in MEDIA_CASES
        or (case == "tool_result_text_parts" and content_format == "openai")
        # Older versions of transformers know one name only for reasoning; ours is as version 5.
        or (
            (row["template"], case) == ("llamacpp__openai-gpt-oss-120b", "reasoning_tool_history")
            and row.get("transformers") == ["4.57.3"]
        )
    )


def test_what_clients_send_is_rendered_byte_for_byte(folder: Path) -> None:
    templates = _templates(folder)
    compared: Counter[str] = Counter()
    for name, rows in _goldens(folder).items():
        for row in rows:
            template, content_format = templates[row["template"]]
            if not _is_superseded(row, content_format):
                _assert_golden(template, _cases(folder)[name], row, None)
                compared[name] += 1
    # Nothing passes by not being there.
    assert len(compared) == 36
    assert min(compared.values()) >= 57
    assert compared.total() == 3452


def test_content_format_is_detected_as_sglang_does(folder: Path) -> None:
    detected = {name: template.content_format for name, (template, _) in _templates(folder).items()}
    assert detected == {name: wanted for name, (_, wanted) in _templates(folder).items()}


def test_developer_is_system_where_the_template_does_not_know_it(folder: Path) -> None:
    case = _cases(folder)["developer_role"]
    as_system = [
        {**message, "role": "system"} if message["role"] == "developer" else message
        for message in case["messages"]
    ]
    assert as_system != case["messages"]
    knowing = set()
    for row in _goldens(folder)["developer_role"]:
        template, _ = _templates(folder)[row["template"]]
        if template.knows_developer:
            knowing.add(row["template"])
            _assert_golden(template, case, row, None)
        else:
            assert _outcome(template, case) == _outcome(template, case, as_system)
    assert "llamacpp__openai-gpt-oss-120b" in knowing
    # They only speak of developers, and refuse the role.
    assert "llamacpp__Apertus-8B-Instruct" not in knowing
    assert "llamacpp__GigaChat3-10B-A1.8B" not in knowing


def _outcome(template: ChatTemplate, case: Row, messages: list[Row] | None = None) -> str:
    try:
        return _render(template, case, messages)
    except BadRequest as exc:
        return f"400 {exc.message}"


@pytest.mark.parametrize("name", MEDIA_CASES)
def test_media_is_refused_whatever_the_template(folder: Path, name: str) -> None:
    for template, _ in _templates(folder).values():
        with pytest.raises(BadRequest, match="text only") as raised:
            _render(template, _cases(folder)[name])
        assert raised.value.param == "messages[0].content[0]"


def test_text_parts_of_a_tool_result_are_joined_for_every_template(folder: Path) -> None:
    """Left as a list, most templates print it as Python does, or lose parts of it."""
    case = _cases(folder)["tool_result_text_parts"]
    joined = [
        {**message, "content": "21C  sunny"} if message["role"] == "tool" else message
        for message in case["messages"]
    ]
    shown = 0
    for template, _ in _templates(folder).values():
        text = _outcome(template, case)
        assert text == _outcome(template, case, joined)
        shown += "21C  sunny" in text
    assert shown >= 60


@pytest.mark.parametrize("name", TOKENIZERS)
def test_conversations_become_the_ids_of_transformers(
    corpus: Path, folder: Path, name: str
) -> None:
    rows = _lines(corpus / "tokenizers" / "goldens" / f"chat_{name}.jsonl")
    assert {row["variant"] for row in rows} == {"norm"}
    files = read_model_files(corpus / "tokenizers" / name)
    builder = PromptBuilder(
        files,
        reference_encoder(tokenizers.Tokenizer.from_file(str(files.directory / "tokenizer.json"))),
        PromptOptions(template_file=folder / "templates" / f"{rows[0]['template']}.jinja"),
    )
    template, content_format = _templates(folder)[rows[0]["template"]]
    compared = 0
    for row in rows:
        case = _cases(folder).get(row["case"])
        # The ids of some cases are here without their messages.
        if case is None or _is_superseded(row, content_format):
            continue
        if "error" in row:
            if not _may_be_adapted(row["case"]):
                with pytest.raises(BadRequest):
                    _build(builder, case)
            continue
        prompt = _build(builder, case)
        if prompt.text == _render(template, case):
            assert list(prompt.ids) == row["ids"], row["case"]
            compared += 1
        else:
            assert _may_be_adapted(row["case"]), row["case"]
    assert compared >= 20


def _build(builder: PromptBuilder, case: Row) -> Any:
    return builder.build(
        case["messages"],
        case["tools"],
        kwargs=case["template_kwargs"],
        add_generation_prompt=case["add_generation_prompt"],
        continue_final_message=case["continue_final_message"],
    )
