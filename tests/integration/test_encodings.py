"""Models without a chat template: those with a built-in encoding, and those without."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest

from sglrouter.app import create_app
from sglrouter.config import Settings
from sglrouter.sim import SimOptions, SimulatedEngine
from tests.conftest import StartRouter
from tests.integration.test_commands import run
from tests.processes import chat_body

pytestmark = pytest.mark.long

TOOL = {
    "type": "function",
    "function": {
        "name": "get",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
REFUSED = "no chat template and no built-in encoding, so chat requests are refused"


def folder_of(tiny_model: Path, tmp_path: Path, model_type: str) -> Path:
    """The tiny model as one of another type, without its template."""
    folder = tmp_path / model_type
    shutil.copytree(tiny_model, folder)
    (folder / "chat_template.jinja").unlink()
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": model_type, "architectures": None}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("model_type", "name", "block", "prefix"),
    [
        ("deepseek_v32", "deepseek_v32", "function_calls", "｜DSML｜"),
        ("deepseek_v4", "deepseek_v4_preview", "tool_calls", "｜DSML｜"),
        ("deepseek_v41", "deepseek_v41", "calls", "｜DSML｜ "),
    ],
)
# vllm#29849, sglang#40530
def test_deepseek_talks_without_a_template(
    tiny_model: Path,
    tmp_path: Path,
    start_router: StartRouter,
    model_type: str,
    name: str,
    block: str,
    prefix: str,
) -> None:
    folder = folder_of(tiny_model, tmp_path, model_type)
    with SimulatedEngine(SimOptions(model=folder)) as engine:
        router = start_router(engine=f"grpc://{engine.address}", tokenizer=folder)
        assert router.http.get("/health").json()["chat_template"] == name
        assert f"its prompts are written as {name}" in router.log

        engine.script("Hello there")
        answer = router.chat("hi").json()["choices"][0]["message"]
        assert (answer["content"], answer.get("reasoning_content")) == ("Hello there", None)
        tokenized = router.http.post("/tokenize", json={"messages": chat_body("hi")["messages"]})
        ids = tokenized.json()["tokens"]
        prompt = router.http.post("/detokenize", json={"tokens": ids}).json()["text"]
        assert prompt.endswith("<｜User｜>hi<｜Assistant｜></think>")

        engine.script(
            "hm</think>Let me see.\n\n"
            f'<{prefix}{block}>\n<{prefix}invoke name="get">\n'
            f'<{prefix}parameter name="city" string="true">Köln</{prefix}parameter>\n'
            f"</{prefix}invoke>\n</{prefix}{block}>"
        )
        for switch in ({"thinking": True}, {"reasoning_effort": "high"}):
            choice = router.chat("hi", tools=[TOOL], **switch).json()["choices"][0]
            message = choice["message"]
            assert message["reasoning_content"] == "hm"
            assert message["content"].rstrip() == "Let me see."
            (call,) = message["tool_calls"]
            assert json.loads(call["function"]["arguments"]) == {"city": "Köln"}
            assert choice["finish_reason"] == "tool_calls"
        # What was said comes back.
        engine.script("done")
        history = [
            {"role": "user", "content": "hi"},
            message,
            {"role": "tool", "tool_call_id": call["id"], "content": "rain"},
        ]
        body = {"messages": history, "tools": [TOOL], "chat_template_kwargs": {"thinking": True}}
        ids = router.http.post("/tokenize", json=body).json()["tokens"]
        prompt = router.http.post("/detokenize", json={"tokens": ids}).json()["text"]
        assert f"<think>hm</think>Let me see.\n\n<{prefix}{block}>\n<{prefix}invoke" in prompt
        assert router.chat(**body).status_code == 200

        schema = {"type": "object", "properties": {"city": {"type": "string"}}}
        wanted = {"type": "json_schema", "json_schema": {"name": "c", "schema": schema}}
        engine.script('{"city": "Köln"}')
        answer = router.chat("hi", response_format=wanted).json()
        assert json.loads(answer["choices"][0]["message"]["content"]) == {"city": "Köln"}
        engine.script(" more")
        said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "OK"}]
        for thinking in (True, False):
            message = router.chat(
                messages=said,
                continue_final_message=True,
                add_generation_prompt=False,
                thinking=thinking,
            ).json()["choices"][0]["message"]
            assert (message["content"], message.get("reasoning_content")) == (" more", None)

    done = run("check", "--engine", "grpc://127.0.0.1:1", "--tokenizer", str(folder))
    assert f"ok     chat template: none, built-in {name}: a plain question makes" in done.stdout


def test_a_model_with_neither_says_so_everywhere(
    tiny_model: Path, tmp_path: Path, start_router: StartRouter
) -> None:
    folder = folder_of(tiny_model, tmp_path, "unheard_of")
    with SimulatedEngine(SimOptions(model=folder)) as engine:
        router = start_router(engine=f"grpc://{engine.address}", tokenizer=folder)
        assert router.http.get("/health").json()["chat_template"] == "none"
        assert router.http.get("/health").status_code == 200
        assert sum(REFUSED in line for line in router.log.splitlines()) == 1
        answer = router.chat("hi")
        assert answer.status_code == 400
        assert REFUSED in answer.json()["error"]["message"]
        assert answer.json()["error"]["code"] == "chat_template_error"
        text = router.http.post("/v1/completions", json={"model": "m", "prompt": "hi"})
        assert text.status_code == 200
    done = run("check", "--engine", "grpc://127.0.0.1:1", "--tokenizer", str(folder))
    (line,) = [line for line in done.stdout.splitlines() if REFUSED in line]
    assert line.startswith("WRONG  chat template: ")
    assert "set chat_template to a Jinja file" in line
    assert done.returncode == 1


def test_a_model_with_a_template_needs_no_word(
    tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        app = create_app(Settings(engine=["grpc://127.0.0.1:1"], tokenizer=str(tiny_model)))
    assert app.model.prompts.rendering == "template"
    assert "chat template" not in caplog.text
