"""Chat templates in a running router: what reaches the engine, and what holds nobody up."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sglrouter.sim import SimulatedEngine
from tests.patience import PATIENCE
from tests.processes import RouterProcess

USER = {"role": "user", "content": "hi"}

# Endless for one user only, so that others can be watched meanwhile.
SOURCE = (
    "{% for message in messages %}{% if message.content == 'forever' %}"
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}"
    "{% if message.role == 'system' and not loop.first %}{{ raise_exception('Late') }}{% endif %}"
    "<{{ message.role }}>{{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}"
    "{% endfor %}{{ tools | tojson if tools }}"
    "{% if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% endif %}{% endif %}"
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("templates") / "mine.json"
    named = [{"name": "default", "template": "never"}, {"name": "mine", "template": SOURCE}]
    path.write_text(json.dumps({"chat_template": named}))
    return path


@pytest.fixture(scope="module")
def mine(engine: SimulatedEngine, tiny_model: Path, template: Path) -> Iterator[RouterProcess]:
    """A router whose operator has chosen a template, its variables and its bounds."""
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "chat_template": template,
            "chat_template_name": "mine",
            "chat_template_timeout": 1.5,
            "default_chat_template_kwargs": '{"enable_thinking": true}',
            "sort_tools": True,
        }
    )
    router.start()
    yield router
    router.stop()


def post(router: RouterProcess, **fields: Any) -> httpx.Response:
    return router.http.post("/v1/chat/completions", json={"max_tokens": 1, **fields})


def prompt(router: RouterProcess, engine: SimulatedEngine, **fields: Any) -> str:
    """The text that the engine is given for a conversation."""
    response = post(router, **fields)
    assert response.status_code == 200, response.text
    return engine.requests[-1].tokenized.original_text


def test_a_template_that_goes_on_for_long_is_a_400_and_holds_nobody_up(
    mine: RouterProcess,
) -> None:
    answers: list[httpx.Response] = []
    forever = [{"role": "user", "content": "forever"}]
    thread = threading.Thread(target=lambda: answers.append(post(mine, messages=forever)))
    thread.start()
    waits = 0
    with httpx.Client(base_url=mine.url, timeout=PATIENCE) as other:
        while thread.is_alive():
            assert other.get("/liveness").status_code == 200
            waits += 1
            time.sleep(0.01)
    # Held up, there would be one or two that wait for all of it.
    assert waits > 3
    (answer,) = answers
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "chat_template_error"
    assert "longer than 1.5 s" in answer.json()["error"]["message"]
    assert post(mine, messages=[USER]).status_code == 200


def test_what_the_engine_is_given(mine: RouterProcess, engine: SimulatedEngine) -> None:
    def shown(**fields: Any) -> str:
        return prompt(mine, engine, **{"messages": [USER], **fields})

    # The operator's variables, and the client's.
    assert shown() == "<user>hi<assistant><think>"
    assert shown(reasoning_effort="none") == "<user>hi<assistant>"
    assert shown(thinking={"type": "disabled"}) == "<user>hi<assistant>"
    assert shown(reasoning={"enabled": False}) == "<user>hi<assistant>"
    assert shown(chat_template_kwargs={"enable_thinking": False}) == "<user>hi<assistant>"
    assert shown(add_generation_prompt=False) == "<user>hi"
    # A late system message that the template refuses.
    late = [USER, {"role": "developer", "content": "brief"}]
    assert shown(messages=late).startswith("<system>brief<user>hi<")
    # The answer's beginning, given.
    begun = [USER, {"role": "assistant", "content": "Well, "}]
    assert shown(messages=begun, continue_final_message=True) == "<user>hi<assistant>Well, "
    # Functions, as they were before tools, with their keys sorted.
    function = {"name": "f", "description": "d"}
    assert shown(functions=[function]).startswith(
        '<user>hi[{"function": {"description": "d", "name": "f"}, "type": "function"}]'
    )
    assert shown(functions=[function], function_call="none") == "<user>hi<assistant><think>"
    old = [USER, {"role": "assistant", "function_call": {"name": "f", "arguments": '{"a":1}'}}]
    assert shown(messages=old).startswith('<user>hi<assistant>{"name": "f", "arguments": {"a": 1}}')


def test_cut_arguments_and_results_out_of_order_are_taken_back(
    mine: RouterProcess, engine: SimulatedEngine
) -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": '}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    messages = [
        USER,
        {"role": "assistant", "content": "I look.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "b", "content": "second"},
        {"role": "tool", "tool_call_id": "a", "content": "first"},
    ]
    text = prompt(mine, engine, messages=messages)
    assert '{"INVALID_JSON": "{\\"x\\": "}' in text
    assert text.index("first") < text.index("second")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"chat_template": "x"}, "chat_template"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs.chat_template"),
        (
            {"chat_template_kwargs": {"a": [{"chat_template": "x"}]}},
            "chat_template_kwargs.a[0].chat_template",
        ),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
        ({"continue_final_message": True}, "continue_final_message"),
        (
            {"continue_final_message": True, "add_generation_prompt": True},
            "continue_final_message",
        ),
        ({"function_call": "auto!"}, "function_call"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": 3}}]}]},
            "messages[0].tool_calls[0].function.name",
        ),
    ],
)
def test_what_is_refused_names_its_place(
    router: RouterProcess, fields: dict[str, Any], param: str
) -> None:
    response = post(router, **{"messages": [USER], **fields})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
