"""Where settings come from, and how a wrong one is reported."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sglrouter.config import ALIASES, Settings, cache_directory, settings_table
from sglrouter.endpoint import Endpoint, parse_endpoint
from sglrouter.errors import ConfigError
from sglrouter.setting_sources import load_settings, unknown_settings

ROOT = Path(__file__).parents[1]
NAMES = [field.name for field in msgspec.structs.fields(Settings)]


def from_toml(folder: Path, text: str) -> Settings:
    path = folder / "router.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings({}, str(path))


def error(environ: dict[str, str], config_file: str | None = None) -> str:
    with pytest.raises(ConfigError) as raised:
        load_settings(environ, config_file)
    message = str(raised.value)
    assert message
    assert "\n" not in message
    return message


def test_nothing_set_is_the_defaults() -> None:
    assert load_settings({}) == Settings()
    assert load_settings({}, "") == Settings()


def test_every_default_is_a_value_that_may_be_set(tmp_path: Path) -> None:
    defaults = Settings()
    shown = {
        name: ",".join(value) if isinstance(value, list) else str(value)
        for name in NAMES
        if (value := getattr(defaults, name)) is not None
    }
    environ = {f"SGLROUTER_{name.upper()}": value for name, value in shown.items()}
    assert load_settings(environ) == defaults


def test_the_environment_wins_over_the_originals_names_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "router.toml"
    path.write_text('port = 1\nlog_dir = "file"\nhost = "file"\ntokenizer = "file"\n')
    environ = {
        "SGLROUTER_CONFIG": str(path),
        "PORT": "2",
        "LOG_DIR": "original",
        "SGLROUTER_PORT": "3",
    }
    settings = load_settings(environ)
    assert settings.port == 3
    assert settings.log_dir == "original"
    assert settings.host == "file"
    assert settings.tokenizer == "file"


def test_a_file_given_directly_wins_over_the_one_in_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "router.toml"
    path.write_text("port = 1\n")
    assert load_settings({"SGLROUTER_CONFIG": "/nowhere"}, str(path)).port == 1


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLROUTER_PORT", "1234")
    assert load_settings().port == 1234


@pytest.mark.parametrize(
    ("variable", "value", "name", "wanted"),
    [
        ("SGL_TOKENIZER_PATH", "/models/x", "tokenizer", "/models/x"),
        ("SGL_GRPC_ENDPOINTS", "grpc://a:1,grpc://b:2", "engine", ["grpc://a:1", "grpc://b:2"]),
        ("SGL_GRPC_ENDPOINT", "grpc://a:1", "engine", ["grpc://a:1"]),
        ("PORT", "9000", "port", 9000),
        ("LOG_DIR", "/logs", "log_dir", "/logs"),
        ("LOG_LEVEL", "warn", "log_level", "warning"),
    ],
)
def test_the_originals_environment_is_understood(
    variable: str, value: str, name: str, wanted: object
) -> None:
    assert ALIASES[variable] == name
    assert getattr(load_settings({variable: value}), name) == wanted


def test_the_list_of_endpoints_wins_over_the_single_one() -> None:
    environ = {"SGL_GRPC_ENDPOINT": "grpc://a:1", "SGL_GRPC_ENDPOINTS": "grpc://b:2"}
    assert load_settings(environ).engine == ["grpc://b:2"]
    environ["SGL_GRPC_ENDPOINTS"] = ""
    assert load_settings(environ).engine == ["grpc://a:1"]


@pytest.mark.parametrize("variable", ALIASES)
def test_an_empty_name_of_the_original_is_unset(variable: str) -> None:
    assert load_settings({variable: ""}) == Settings()


def test_an_empty_text_is_a_value(tmp_path: Path) -> None:
    assert load_settings({"LOG_DIR": "/logs", "SGLROUTER_LOG_DIR": ""}).log_dir == ""


@pytest.mark.parametrize("name", ["SGLROUTER_NOPE", "HOST", "sglrouter_port", "ENGINE"])
def test_other_variables_are_not_ours(name: str) -> None:
    assert load_settings({name: "x"}) == Settings()


@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [
        ("port = 81", "port", 81),
        ('port = "81"', "port", 81),
        ("heartbeat = 5", "heartbeat", 5.0),
        ("heartbeat = 0.5", "heartbeat", 0.5),
        ("access_log = true", "access_log", True),
        ("max-body = 2048", "max_body", 2048),
        ("max_body = 2048", "max_body", 2048),
        ('log_level = "DEBUG"', "log_level", "debug"),
        ('log_level = "Fatal"', "log_level", "critical"),
        ('engine = "grpc://a:1"', "engine", ["grpc://a:1"]),
        ('engine = "a:1, grpcs://b:2 ,"', "engine", ["a:1", "grpcs://b:2"]),
        ('engine = ["grpc://a:1", "[::1]:2"]', "engine", ["grpc://a:1", "[::1]:2"]),
    ],
)
def test_toml_values(tmp_path: Path, text: str, name: str, wanted: object) -> None:
    value = getattr(from_toml(tmp_path, text), name)
    assert value == wanted
    assert type(value) is type(wanted)


@pytest.mark.parametrize(
    ("value", "wanted"), [("true", True), ("TRUE", True), ("1", True), ("0", False)]
)
def test_a_switch_in_the_environment(value: str, wanted: bool) -> None:
    assert load_settings({"SGLROUTER_ACCESS_LOG": value}).access_log is wanted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", ""),
        ("port", "http"),
        ("port", "0"),
        ("port", "65536"),
        ("port", "80.5"),
        ("workers", "-1"),
        ("workers", "513"),
        ("access_log", "maybe"),
        ("heartbeat", "0"),
        ("heartbeat", "-1"),
        ("heartbeat", "nan"),
        ("heartbeat", "inf"),
        ("request_timeout", "1e999"),
        ("engine_start_timeout", "nan"),
        ("engine_start_timeout", "inf"),
        ("max_body", "1023"),
        ("max_n", "0"),
        ("max_n", "129"),
        ("context_length", "-1"),
        ("log_level", "loud"),
        ("engine", ""),
        ("engine", " , "),
        ("engine", "localhost"),
        ("engine", "grpc://a:1,http://b:2"),
    ],
)
def test_a_wrong_variable_is_named_with_its_value(name: str, value: str) -> None:
    variable = f"SGLROUTER_{name.upper()}"
    message = error({variable: value})
    assert message.startswith(f"{variable}: ")
    if value.strip(" ,"):
        assert value.split(",")[-1] in message


@pytest.mark.parametrize(
    ("variable", "value"),
    [("PORT", "x"), ("LOG_LEVEL", "loud"), ("SGL_GRPC_ENDPOINTS", "grpc://a")],
)
def test_a_wrong_name_of_the_original_is_named_as_it_was_written(variable: str, value: str) -> None:
    assert error({variable: value}).startswith(f"{variable}: ")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('port = "x"', "port"),
        ("port = 81.5", "port"),
        ("port = true", "port"),
        ("port = 2026-01-01", "port"),
        ("host = 3", "host"),
        ("max-body = 3", "max-body"),
        ("heartbeat = nan", "heartbeat"),
        ("heartbeat = inf", "heartbeat"),
        ("access_log = 2", "access_log"),
        ("log_level = 3", "log_level"),
        ("engine = []", "engine"),
        ("engine = 3", "engine"),
        ("engine = [3]", "engine"),
        ('engine = ["a:1,b:2"]', "engine"),
        ('engine = ["a:1", "b"]', "engine"),
        ("[engine]\nurl = 'a:1'", "engine"),
    ],
)
def test_a_wrong_key_is_named_with_its_file(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "router.toml"
    path.write_text(text)
    assert error({}, str(path)).startswith(f"{path}: {key}: ")


@pytest.mark.parametrize(
    ("name", "value", "source"),
    [
        ("port", "x", "--port"),
        ("tool_call_parser", "x" * 10, None),
        ("engine", "grpc://a:1,b", "--engine"),
    ],
)
def test_a_wrong_flag_is_named_as_it_was_typed(name: str, value: str, source: str | None) -> None:
    environ = {f"SGLROUTER_{name.upper()}": "nonsense"}
    if source is None:
        assert getattr(load_settings(environ, flags={name: value}), name) == value
    else:
        with pytest.raises(ConfigError) as raised:
            load_settings(environ, flags={name: value})
        assert str(raised.value).startswith(f"{source}: ")


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("nope = 1", "nope", None),
        ("PORT = 1", "PORT", "port"),
        ("[server]\nport = 1", "server", None),
        ("max-bodi = 2000", "max-bodi", "max_body"),
        ("enginee = 'grpc://a:1'", "enginee", "engine"),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest_and_stops_nothing(
    tmp_path: Path, text: str, key: str, nearest: str | None
) -> None:
    path = tmp_path / "router.toml"
    path.write_text(text)
    assert load_settings({}, str(path)) == Settings()
    guess = f"; do you mean {nearest}?" if nearest else ""
    assert unknown_settings({}, str(path)) == [f"{path}: {key}: there is no such setting{guess}"]


def test_an_unknown_variable_is_told_with_the_nearest() -> None:
    environ = {
        "SGLROUTER_PROT": "1",
        "SGLROUTER_CONFIGG": "x",
        "SGLROUTER_QQ": "x",
        # Known ones, Kubernetes' own for a service of this name, and other programs'.
        "SGLROUTER_PORT": "1",
        "SGLROUTER_CORPUS": "x",
        "SGLROUTER_TEST_EXAMPLES": "9",
        "SGLROUTER_SERVICE_HOST": "10.0.0.1",
        "SGLROUTER_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "PROT": "1",
    }
    assert unknown_settings(environ) == [
        "SGLROUTER_CONFIGG: there is no such setting; do you mean SGLROUTER_CONFIG?",
        "SGLROUTER_PROT: there is no such setting; do you mean SGLROUTER_PORT?",
        "SGLROUTER_QQ: there is no such setting",
    ]


def test_a_port_that_kubernetes_set_is_told_as_such() -> None:
    message = error({"SGLROUTER_PORT": "tcp://10.0.0.1:8080"})
    assert message.startswith("SGLROUTER_PORT: not a port: ")
    assert "enableServiceLinks" in message


@pytest.mark.parametrize("content", [b"port =", b"port = 1\nport = 2", b'host = "\xff"'])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "router.toml"
    path.write_bytes(content)
    assert error({"SGLROUTER_CONFIG": str(path)}).startswith(f"{path}: not a TOML file: ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.toml"
    assert error({"SGLROUTER_CONFIG": str(path)}) == f"{path}: No such file or directory"


@pytest.mark.parametrize(
    ("text", "wanted", "shown"),
    [
        ("grpc://host:1", Endpoint("host", 1, False), "grpc://host:1"),
        ("grpcs://host:65535", Endpoint("host", 65535, True), "grpcs://host:65535"),
        ("host:20000", Endpoint("host", 20000, False), "grpc://host:20000"),
        ("grpc://host:1/", Endpoint("host", 1, False), "grpc://host:1"),
        ("10.0.0.1:1", Endpoint("10.0.0.1", 1, False), "grpc://10.0.0.1:1"),
        ("a-b.c_d.example:1", Endpoint("a-b.c_d.example", 1, False), "grpc://a-b.c_d.example:1"),
        ("[::1]:5", Endpoint("::1", 5, False), "grpc://[::1]:5"),
        ("grpcs://[fe80::1%eth0]:5", Endpoint("fe80::1%eth0", 5, True), "grpcs://[fe80::1%eth0]:5"),
        ("[::ffff:1.2.3.4]:5", Endpoint("::ffff:1.2.3.4", 5, False), "grpc://[::ffff:1.2.3.4]:5"),
    ],
)
def test_endpoints(text: str, wanted: Endpoint, shown: str) -> None:
    endpoint = parse_endpoint(text)
    assert endpoint == wanted
    assert str(endpoint) == shown
    assert shown.endswith(f"://{endpoint.target}")
    assert parse_endpoint(shown) == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        ":1",
        "grpc://",
        "grpc://host",
        "grpc://:1",
        "host:0",
        "host:65536",
        "host:" + "9" * 5000,
        "host:-1",
        "host:+1",
        "host:1x",
        "host:\uff11",
        "host: 1",
        "grpc://host:1/path",
        "grpc://host:1?x",
        "grpc://user@host:1",
        "a:1,b:2",
        "two words:1",
        "::1:5",
        "[::1]",
        "[::1",
        "::1]:5",
        "[]:1",
        "[host]:1",
        "http://host:1",
        "GRPC://host:1",
        "unix:///socket",
        "dns:///host:1",
    ],
    ids=lambda text: text[:24],
)
def test_what_is_no_endpoint(text: str) -> None:
    with pytest.raises(ValueError, match=r"should be|should begin|port outside"):
        parse_endpoint(text)


@pytest.mark.parametrize(
    ("cache_dir", "environ", "wanted"),
    [
        ("/mine", {"CACHE_DIRECTORY": "/c", "XDG_CACHE_HOME": "/x"}, "/mine"),
        ("", {"CACHE_DIRECTORY": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
        ("", {"XDG_CACHE_HOME": "/x"}, "/x/sglrouter"),
        ("", {"CACHE_DIRECTORY": "", "XDG_CACHE_HOME": ""}, "~/.cache/sglrouter"),
        ("", {}, "~/.cache/sglrouter"),
    ],
)
def test_where_tokenizers_are_cached(cache_dir: str, environ: dict[str, str], wanted: str) -> None:
    found = cache_directory(Settings(cache_dir=cache_dir), environ)
    assert found == Path(wanted).expanduser()


def test_the_table_shows_every_setting_once() -> None:
    rows = settings_table().splitlines()[2:]
    cells: list[list[Any]] = [row.strip("|").split(" | ") for row in rows]
    assert [row[0].strip(" `") for row in cells] == NAMES
    assert all(len(row) == 4 and row[2] for row in cells)
    for variable, name in ALIASES.items():
        assert f"`{variable}`" in cells[NAMES.index(name)][3]


def test_the_documentation_holds_the_table() -> None:
    page = ROOT / "docs" / "configuration.md"
    if not page.is_file():
        pytest.skip("there is no docs/configuration.md")
    assert settings_table() in page.read_text(encoding="utf-8")


def test_the_documentation_holds_every_parser() -> None:
    page = ROOT / "docs" / "parsers.md"
    if not page.is_file():
        pytest.skip("there is no docs/parsers.md")
    generate: Any = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    assert page.read_text(encoding="utf-8") == generate["parsers"]()


def test_template_variables_are_json_in_the_environment_and_a_table_in_a_file(
    tmp_path: Path,
) -> None:
    name = "SGLROUTER_DEFAULT_CHAT_TEMPLATE_KWARGS"
    wanted = {"enable_thinking": False, "x": {"y": [1]}}
    text = '{"enable_thinking": false, "x": {"y": [1]}}'
    assert load_settings({name: text}).default_chat_template_kwargs == wanted
    table = "[default_chat_template_kwargs]\nenable_thinking = false\nx = {y = [1]}\n"
    assert from_toml(tmp_path, table).default_chat_template_kwargs == wanted
    assert load_settings({name: ""}).default_chat_template_kwargs == {}
    for wrong in ("{", "[]", "3", "thinking"):
        assert error({name: wrong}).startswith(f"{name}: ")
