"""Answers that go on with the assistant's message, in its content or in its thoughts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.processes import RouterProcess

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HARMONY = (
    "{% for m in messages %}<|start|>{{ m.role }}"
    "{% if m.thinking %}<|channel|>analysis<|message|>{{ m.thinking }}<|end|>"
    "<|start|>assistant{% endif %}{% if m.role == 'assistant' %}<|channel|>final{% endif %}"
    "<|message|>{{ m.content }}<|end|>{% endfor %}"
)
# Formats whose answers begin with thoughts although the prompt says nothing.
ALWAYS = ["minimax", "deepseek-r1", "qwen3-thinking", "step3", "kimi_thinking", "gigachat35"]


def said(router: RouterProcess, final: dict[str, Any], go_on: Any) -> tuple[str, str]:
    """Content and reasoning, the same whole and streamed."""
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", **final}],
        "continue_final_message": go_on,
        "add_generation_prompt": False,
    }
    answer = router.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    message = answer.json()["choices"][0]["message"]
    found = message["content"] or "", message.get("reasoning_content") or ""
    events = router.stream(**{key: body[key] for key in body if key != "model"})
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    streamed = tuple(
        "".join(delta.get(name) or "" for delta in deltas)
        for name in ("content", "reasoning_content")
    )
    assert streamed == found
    return found


@pytest.fixture(params=[*ALWAYS, "cohere_command4"])
def router(
    request: pytest.FixtureRequest,
    engine: SimulatedEngine,
    tiny_model: Path,
    tmp_path: Path,
    start_router: StartRouter,
) -> RouterProcess:
    template = TEMPLATE
    if request.param == "cohere_command4":
        template = template.replace("<think>", "<|START_THINKING|>")
        template = template.replace("</think>", "<|END_THINKING|>")
    (tmp_path / "t.jinja").write_text(template)
    return start_router(
        engine=f"grpc://{engine.address}",
        tokenizer=tiny_model,
        chat_template=tmp_path / "t.jinja",
        reasoning_parser=request.param,
        tool_call_parser="",
    )


def test_content_goes_on_as_content_and_thoughts_as_thoughts(
    router: RouterProcess, engine: SimulatedEngine, request: pytest.FixtureRequest
) -> None:
    engine.script(" more")
    # sglang#30000
    assert said(router, {"content": "OK"}, True) == (" more", "")
    assert said(router, {"content": "OK"}, "content") == (" more", "")
    assert said(router, {"content": "OK", "reasoning_content": "hm"}, True) == (" more", "")
    # Nothing is said yet, so it is as always.
    assert said(router, {"content": ""}, True) == ("", "more")
    closer = "<|END_THINKING|>" if "cohere" in request.node.name else "</think>"
    engine.script(f" more{closer}so")
    for go_on in (True, "reasoning_content"):
        content, reasoning = said(router, {"content": "", "reasoning_content": "I think"}, go_on)
        assert (content, reasoning.strip()) == ("so", "more")


def test_gpt_oss_goes_on_in_its_channel(
    engine: SimulatedEngine, tiny_model: Path, tmp_path: Path, start_router: StartRouter
) -> None:
    (tmp_path / "t.jinja").write_text(HARMONY)
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, chat_template=tmp_path / "t.jinja"
    )
    engine.script(" more<|end|><|start|>assistant<|channel|>final<|message|>so")
    final = {"content": "", "reasoning_content": "I think"}
    assert said(router, final, "reasoning_content") == ("so", " more")
    engine.script(" more")
    assert said(router, {"content": "OK"}, True) == (" more", "")


def test_what_cannot_go_on_is_refused(
    engine: SimulatedEngine, tiny_model: Path, tmp_path: Path, start_router: StartRouter
) -> None:
    (tmp_path / "t.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, chat_template=tmp_path / "t.jinja"
    )
    for value, words in (("reasoning_content", "reasoning"), ("thoughts", "thoughts")):
        answer = router.chat(
            messages=[
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "", "reasoning_content": "I think"},
            ],
            continue_final_message=value,
            add_generation_prompt=False,
        )
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert error["param"] == "continue_final_message"
        assert words in error["message"]
