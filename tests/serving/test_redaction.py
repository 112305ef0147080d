"""Secrets of engines stay with the engines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sglrouter.serving.redaction import REDACTED, redacted


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "admin_api_key",
        "ssl_keyfile_password",
        "hf_token",
        "token",
        "auth-token",
        "accessToken",
        "client_secret",
        "aws_secret_access_key",
        "PASSWORD".lower(),
        "passwd",
        "credentials",
        "watermark_key",
        "key",
        "apikey",
    ],
)
@pytest.mark.parametrize("wrap", [str, lambda text: [text], lambda text: {"value": text}])
def test_secrets(name: str, wrap: Any) -> None:
    shown = redacted({"deep": [{name: wrap("s3cret")}], "model_path": "m"})
    assert "s3cret" not in json.dumps(shown)
    assert REDACTED in json.dumps(shown)
    assert shown["model_path"] == "m"


def test_what_is_no_secret_is_shown() -> None:
    info = {
        "tokenizer_path": "/models/x",
        "tokenizer_mode": "auto",
        "max_total_tokens": 100,
        "num_reserved_decode_tokens": "512",
        "ssl_keyfile": "/etc/key.pem",
        "chunked_prefill_size": None,
        "api_key": None,
        "monkey": False,
        "max_prefill_tokens": "16384",
        "key": "",
        "speculative_token_map": "/models/map.pt",
    }
    assert redacted(info) == info


def test_the_same_text_elsewhere_is_taken_out_too() -> None:
    shown = redacted(
        {
            "api_key": "s3cret",
            "admin_api_key": "s3cret-too",
            "launch_command": "python -m sglang.launch_server --api-key s3cret --port 1",
            "other": ["a s3cret-too b"],
        }
    )
    assert "s3cret" not in json.dumps(shown)
    assert shown["other"] == [f"a {REDACTED} b"]
    assert shown["launch_command"].endswith(f"--api-key {REDACTED} --port 1")


@pytest.mark.parametrize("flag", ["--api-key s3cret", "--api-key=s3cret", "--hf-token 's3cret x'"])
def test_a_command_line_alone(flag: str) -> None:
    shown = redacted({"launch_command": f"launch {flag} --tokenizer-path /m"})
    assert "s3cret" not in json.dumps(shown)
    assert shown["launch_command"].endswith("--tokenizer-path /m")


def test_json_in_a_string() -> None:
    shown = redacted({"config": json.dumps({"host": "h", "password": "s3cret"}), "broken": "{"})
    assert json.loads(shown["config"]) == {"host": "h", "password": REDACTED}
    assert shown["broken"] == "{"


def test_the_password_of_a_url() -> None:
    shown = redacted({"endpoint": "redis://user:s3cret@host:1/x", "plain": "http://host:1/a@b"})
    assert shown == {"endpoint": f"redis://user:{REDACTED}@host:1/x", "plain": "http://host:1/a@b"}


def test_a_short_secret_is_not_looked_for_in_words() -> None:
    shown = redacted(
        {
            "api_key": "sk",
            "task": "ask",
            "command": "x --api-key sk --task ask",
            "config": '{"key": "sk", "task": "ask"}',
        }
    )
    assert shown == {
        "api_key": REDACTED,
        "task": "ask",
        "command": f"x --api-key {REDACTED} --task ask",
        "config": f'{{"key":"{REDACTED}","task":"ask"}}',
    }
