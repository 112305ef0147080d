"""What is read from a model's folder, and how a broken one is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sglrouter.errors import ConfigError
from sglrouter.prompt.model_files import ModelFiles, read_model_files, read_template_file


def write(folder: Path, **files: Any) -> None:
    """Writes files by their name without .json; text as it is, all else as JSON."""
    for name, value in files.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


def read(folder: Path, **files: Any) -> ModelFiles:
    write(folder, **files)
    return read_model_files(folder)


def test_an_empty_folder_says_nothing(tmp_path: Path) -> None:
    files = read(tmp_path)
    assert files.directory == tmp_path
    assert files.name == tmp_path.name
    assert (files.vocab_size, files.context_length) == (0, 0)
    assert not files.eos_ids
    assert not files.sampling_defaults
    assert not files.special_tokens
    assert not files.chat_templates


def test_the_tiny_model_is_read_whole(tiny_model: Path) -> None:
    files = read_model_files(tiny_model)
    assert files.vocab_size > 4000
    assert files.context_length > 0
    assert files.eos_ids
    assert files.special_tokens["eos_token"] == "<|im_end|>"
    # A token that is null is not there.
    assert "bos_token" not in files.special_tokens
    assert list(files.chat_templates) == ["default"]


def test_the_path_of_tokenizer_json_stands_for_its_folder(tmp_path: Path) -> None:
    write(tmp_path, tokenizer={}, config={"vocab_size": 7})
    assert read_model_files(tmp_path / "tokenizer.json").vocab_size == 7


def test_a_relative_folder_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_model_files(Path()).name == tmp_path.name


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no folder .*/nowhere$"):
        read_model_files(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "name",
    [
        "config",
        "generation_config",
        "tokenizer_config",
        "special_tokens_map",
        "chat_template",
    ],
)
@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "3", '{"a": 1} x', "[" * 100_000], ids=lambda text: text[:8]
)
def test_a_broken_file_is_one_line_that_names_it(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, **{name: text})
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / name}.json: not ")
    assert "\n" not in message


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b'{"a": "\xff\xfe"}')
    with pytest.raises(ConfigError, match=r"config\.json: not valid"):
        read_model_files(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(ConfigError, match=r"config\.json: Is a directory"):
        read_model_files(tmp_path)


def test_python_writes_infinity_into_configurations(tmp_path: Path) -> None:
    text = '{"time_step_limit": [0.0, Infinity], "x": NaN, "vocab_size": 9}'
    assert read(tmp_path, config=text).vocab_size == 9


@pytest.mark.parametrize(
    ("config", "generation", "wanted"),
    [
        ({"eos_token_id": 5}, {}, {5}),
        ({"eos_token_id": [5, 6]}, {"eos_token_id": 7}, {5, 6, 7}),
        ({}, {"eos_token_id": [1, 1, 2]}, {1, 2}),
        ({"text_config": {"eos_token_id": 3}}, {"eos_token_id": 4}, {3, 4}),
        ({"eos_token_id": 0}, {}, {0}),
        ({"eos_token_id": None}, {"eos_token_id": [None, "x", -1, True, 1.5, 8]}, {8}),
    ],
)
def test_eos_ids_are_those_of_all_configurations(
    tmp_path: Path, config: object, generation: object, wanted: set[int]
) -> None:
    assert read(tmp_path, config=config, generation_config=generation).eos_ids == wanted


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"vocab_size": 100}, 100),
        ({"text_config": {"vocab_size": 50}}, 50),
        ({"vocab_size": 100, "text_config": {"vocab_size": 50}}, 100),
        ({"vocab_size": 0, "text_config": {"vocab_size": 50}}, 50),
        ({"vocab_size": "100"}, 0),
        ({"vocab_size": True}, 0),
        ({"vocab_size": -1}, 0),
        ({"text_config": "x"}, 0),
        ({"text_config": None}, 0),
    ],
)
def test_vocabulary(tmp_path: Path, config: object, wanted: int) -> None:
    assert read(tmp_path, config=config).vocab_size == wanted


@pytest.mark.parametrize(
    ("config", "tokenizer", "wanted"),
    [
        ({"max_position_embeddings": 4096}, {}, 4096),
        ({"max_position_embeddings": 4096, "max_sequence_length": 2048}, {}, 2048),
        ({"max_position_embeddings": 4096, "seq_length": 1024}, {}, 1024),
        ({"max_position_embeddings": 4096, "max_seq_len": 512}, {}, 512),
        ({"text_config": {"max_position_embeddings": 8192}}, {}, 8192),
        ({"max_position_embeddings": 4096}, {"model_max_length": 1024}, 4096),
        ({}, {"model_max_length": 1024}, 1024),
        ({}, {"model_max_length": 1e30}, 0),
        ({}, {"model_max_length": 1000000000000000019884624838656}, 0),
        ({}, '{"model_max_length": Infinity}', 0),
        ({"max_position_embeddings": 10**400}, {"model_max_length": 64}, 64),
        ({"max_position_embeddings": None}, {"model_max_length": 2048.0}, 2048),
        ({"max_position_embeddings": -1, "max_seq_len": 0}, {"model_max_length": "x"}, 0),
        ({"max_position_embeddings": True}, {}, 0),
        ({"max_position_embeddings": 0.5}, {}, 0),
    ],
)
def test_context_length(tmp_path: Path, config: object, tokenizer: object, wanted: int) -> None:
    files = read(tmp_path, config=config, tokenizer_config=tokenizer)
    assert files.context_length == wanted


def test_sampling_defaults_are_numbers_that_a_request_could_hold(tmp_path: Path) -> None:
    generation = (
        '{"temperature": 0.6, "top_p": 1, "top_k": 20, "min_p": null, "do_sample": true,'
        ' "repetition_penalty": Infinity, "max_length": 20}'
    )
    assert read(tmp_path, generation_config=generation).sampling_defaults == {
        "temperature": 0.6,
        "top_p": 1,
        "top_k": 20,
    }
    assert not read(tmp_path, generation_config={"temperature": True}).sampling_defaults
    assert not read(tmp_path, generation_config={"temperature": "0.6"}).sampling_defaults


def test_special_tokens_are_text_whether_declared_as_text_or_object(tmp_path: Path) -> None:
    files = read(
        tmp_path,
        tokenizer_config={
            "bos_token": {"content": "<s>", "lstrip": False, "__type": "AddedToken"},
            "eos_token": "</s>",
            "unk_token": None,
            "pad_token": {"text": "?"},
            "mask_token": 3,
            "chat_template": "x",
            "additional_special_tokens": ["<a>", {"content": "<b>"}, None],
        },
    )
    assert files.special_tokens == {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "additional_special_tokens": ["<a>", "<b>"],
    }


def test_the_special_tokens_map_fills_what_the_configuration_leaves_open(tmp_path: Path) -> None:
    files = read(
        tmp_path,
        tokenizer_config={"bos_token": "<s>", "eos_token": None},
        special_tokens_map={"bos_token": "<other>", "eos_token": {"content": "</s>"}},
    )
    assert files.special_tokens == {"bos_token": "<s>", "eos_token": "</s>"}


LIST_FORM = [
    {"name": "default", "template": "list"},
    {"name": "tool_use", "template": "list tools"},
    {"name": "rag", "template": 3},
    "stray",
]


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"chat_template.json": {"chat_template": "json"}}, {"default": "json"}),
        ({"tokenizer_config.json": {"chat_template": "field"}}, {"default": "field"}),
        (
            {
                "chat_template.json": {"chat_template": "json"},
                "tokenizer_config.json": {"chat_template": "field"},
            },
            {"default": "field"},
        ),
        (
            {"tokenizer_config.json": {"chat_template": LIST_FORM}},
            {"default": "list", "tool_use": "list tools"},
        ),
        # One file replaces the field altogether, its template for tools included.
        (
            {
                "chat_template.json": {"chat_template": "json"},
                "tokenizer_config.json": {"chat_template": LIST_FORM},
                "chat_template.jinja": "file",
            },
            {"default": "file"},
        ),
        (
            {
                "chat_template.jinja": "file",
                "chat_templates/tool_use.jinja": "old folder",
                "additional_chat_templates/tool_use.jinja": "folder",
                "additional_chat_templates/README.md": "no template",
            },
            {"default": "file", "tool_use": "folder"},
        ),
        (
            {
                "chat_templates/default.jinja": "folder",
                "chat_templates/tool_use.jinja": "folder tools",
                "tokenizer_config.json": {"chat_template": "field"},
            },
            {"default": "folder", "tool_use": "folder tools"},
        ),
        (
            {
                "chat_templates/default.jinja": "folder",
                "chat_template.jinja": "file",
            },
            {"default": "file"},
        ),
        (
            {
                "chat_templates/tool_use.jinja": "folder tools",
                "tokenizer_config.json": {"chat_template": LIST_FORM},
            },
            {"default": "list", "tool_use": "folder tools"},
        ),
        ({"tokenizer_config.json": {"chat_template": {"default": "x"}}}, {}),
        ({"other.jinja": "not a chat template's name"}, {}),
    ],
)
def test_chat_templates_and_their_precedence(
    tmp_path: Path, files: dict[str, Any], wanted: dict[str, str]
) -> None:
    for name, value in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
    assert read_model_files(tmp_path).chat_templates == wanted


@pytest.mark.parametrize("name", ["chat_template.jinja", "chat_templates/tool_use.jinja"])
def test_a_template_file_that_is_not_text_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"{{ '\xff' }}")
    with pytest.raises(ConfigError, match=r"\.jinja: not UTF-8"):
        read_model_files(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("mine.jinja", "{{ x }}", {"default": "{{ x }}"}),
        ("mine", "\u00fc", {"default": "\u00fc"}),
        ("mine.json", '{"chat_template": "x"}', {"default": "x"}),
        (
            "mine.json",
            json.dumps({"chat_template": LIST_FORM, "bos_token": "<s>"}),
            {"default": "list", "tool_use": "list tools"},
        ),
    ],
)
def test_templates_of_one_file(
    tmp_path: Path, name: str, content: str, wanted: dict[str, str]
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert read_template_file(path) == wanted


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"chat_template": 3}', '{"chat_template": []}', '"x"']
)
def test_a_file_without_a_template_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.json"):
        read_template_file(path)
