"""The command line: what it says when all is well, and when it is not."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import httpx
import pytest

from sglrouter.check import python_advice
from sglrouter.sim import SimOptions, SimulatedEngine
from tests.conftest import StartRouter
from tests.patience import PATIENCE
from tests.processes import chat_body, free_port


def run(*arguments: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sglrouter", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_help_names_every_command_and_flag() -> None:
    text = run("--help").stdout
    assert all(command in text for command in ("serve", "check", "demo", "sim"))
    text = run("serve", "--help").stdout
    for flag in ("host", "port", "workers", "engine", "tokenizer", "chat-template", "model-name",
                 "tool-call-parser", "reasoning-parser", "config"):  # fmt: skip
        assert f"--{flag}" in text


def test_serve_takes_its_flags(tiny_model: Path) -> None:
    with SimulatedEngine() as engine:
        engine.script("served")
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "-m", "sglrouter", "serve", "--port", str(port), "--workers", "1",
             "--engine", f"grpc://{engine.address}", "--engine", f"grpc://{engine.address}",
             "--tokenizer", str(tiny_model), "--model-name", "named", "--chat-template", "",
             "--tool-call-parser", "", "--reasoning-parser", ""],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    models = httpx.get(f"{url}/v1/models").json()
                    break
                except httpx.TransportError:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            assert [model["id"] for model in models["data"]] == ["named"]
            answer = httpx.post(f"{url}/v1/chat/completions", json=chat_body(model="named")).json()
            assert answer["choices"][0]["message"]["content"] == "served"
            assert len(httpx.get(f"{url}/health").json()["engines"]) == 2
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--port", "abc"), "--port: Expected `int`, got `str`"),
        (("--port", "70000"), "--port: Expected `int` <= 65535"),
        (("--engine", "nonsense"), "--engine: 'nonsense' should be grpc://HOST:PORT"),
        (("--config", "/does/not/exist"), "/does/not/exist: No such file"),
    ],
)
def test_a_wrong_setting_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = run("serve", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_taken_port_is_one_line(command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run(command, "--port", str(port))
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}: another program has it" in done.stderr
    assert "--port" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_unknown_names_are_told_by_check_and_in_the_log(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_router: StartRouter
) -> None:
    config = tmp_path / "router.toml"
    config.write_text("max_bodi = 2000\n")
    monkeypatch.setenv("SGLROUTER_PROT", "1")
    monkeypatch.setenv("SGLROUTER_CONFIG", str(config))
    wanted = (
        f"{config}: max_bodi: there is no such setting; do you mean max_body?",
        "SGLROUTER_PROT: there is no such setting; do you mean SGLROUTER_PORT?",
    )
    with SimulatedEngine() as engine:
        done = run("check", "--engine", f"grpc://{engine.address}", "--tokenizer", str(tiny_model))
        router = start_router(
            engine=f"grpc://{engine.address}", tokenizer=tiny_model, config=config, prot=1
        )
    assert done.returncode == 0
    notes = [line for line in done.stdout.splitlines() if line.startswith("NOTE ")]
    # This Python may be slow.
    notes = [line for line in notes if not line.startswith("NOTE   python: ")]
    assert notes == [f"NOTE   {line}" for line in wanted]
    for line in wanted:
        assert f"[WARNING] {line}" in router.log


def test_a_missing_model_is_one_line_of_serve() -> None:
    done = run("serve", "--tokenizer", "/does/not/exist", "--port", str(free_port()))
    assert done.returncode != 0
    assert "sglrouter: tokenizer: there is no folder /does/not/exist" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_is_content_with_a_good_setup(tiny_model: Path) -> None:
    with SimulatedEngine() as engine:
        done = run("check", "--engine", f"grpc://{engine.address}", "--tokenizer", str(tiny_model))
    assert done.returncode == 0
    assert "WRONG" not in done.stdout
    assert "context 8192" in done.stdout
    assert "ok     channel: " in done.stdout


@pytest.mark.parametrize(
    ("build_options", "says"),
    [
        ("'--enable-shared' '--prefix=/opt'", True),
        ("'--enable-shared' '--enable-optimizations' '--with-lto'", False),
        (None, False),
    ],
)
def test_check_knows_a_slow_python(build_options: str | None, says: bool) -> None:
    assert bool(python_advice(build_options)) is says


def test_check_tells_of_this_python(tiny_model: Path) -> None:
    done = run("check", "--tokenizer", str(tiny_model), "--engine", "grpc://127.0.0.1:1")
    advice = python_advice(sysconfig.get_config_var("CONFIG_ARGS"))
    assert ("without --enable-optimizations" in done.stdout) is bool(advice)


def test_check_says_what_is_wrong(tmp_path: Path, tiny_model: Path) -> None:
    dead = f"grpc://127.0.0.1:{free_port()}"
    done = run("check", "--engine", dead, "--tokenizer", str(tmp_path))
    assert done.returncode == 1
    assert f"WRONG  tokenizer: there is no {tmp_path}/tokenizer.json" in done.stdout
    assert f"WRONG  engine {dead}: cannot be reached" in done.stdout
    broken = tmp_path / "broken.jinja"
    broken.write_text("{% for %}")
    done = run("check", "--engine", dead, "--tokenizer", str(tiny_model),
               "--chat-template", str(broken))  # fmt: skip
    assert "WRONG  chat template: " in done.stdout


def test_check_takes_the_tokenizer_from_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLROUTER_CACHE_DIR", str(tmp_path))
    with SimulatedEngine() as engine:
        assert run("check", "--engine", f"grpc://{engine.address}").returncode == 0
    with SimulatedEngine(SimOptions(dialect="0.5.9")) as engine:
        done = run("check", "--engine", f"grpc://{engine.address}")
    assert done.returncode == 1
    assert "WRONG  tokenizer: set it to a folder, no engine sends one" in done.stdout


def test_the_demo_answers_and_stays_up() -> None:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "sglrouter", "demo", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = ""
        while "curl" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        assert "> What is the capital of France?" in said
        assert "Paris" in said
        response = httpx.post(
            f"http://127.0.0.1:{port}/v1/chat/completions", json=chat_body(stream=True)
        )
        assert response.text.endswith("data: [DONE]\n\n")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/health")
