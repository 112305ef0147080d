"""Clients that know of lines and bytes only: requests, and curl."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import pytest

from sglrouter.sim import SimulatedEngine
from tests.clients.conversation import ANSWER, CALL, RESULT, TOOL
from tests.patience import PATIENCE
from tests.processes import RouterProcess, chat_body, joined, sse_data

requests = pytest.importorskip("requests", reason="requests is not installed (extra: clients)")


@pytest.mark.usefixtures("any_chunks")
@pytest.mark.parametrize("chunk_size", [1, 512])
def test_lines_of_decoded_text(
    router: RouterProcess, engine: SimulatedEngine, chunk_size: int
) -> None:
    """requests decodes by the charset, and splits at what str.splitlines() takes for an end."""
    engine.script(ANSWER)
    with requests.post(
        f"{router.url}/v1/chat/completions",
        json=chat_body(stream=True),
        stream=True,
        timeout=PATIENCE,
    ) as response:
        assert response.encoding == "utf-8"
        lines = list(response.iter_lines(chunk_size=chunk_size, decode_unicode=True))
    datas = [line.removeprefix("data: ") for line in lines if line]
    assert datas.pop() == "[DONE]"
    assert joined([json.loads(data) for data in datas]) == ANSWER


def test_an_error_in_decoded_lines(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    engine.fault("fail,after=1,times=1,status=INTERNAL,message=no\u2028memory \x85 here")
    with requests.post(
        f"{router.url}/v1/chat/completions",
        json=chat_body(stream=True),
        stream=True,
        timeout=PATIENCE,
    ) as response:
        *_, last, done = [line for line in response.iter_lines(decode_unicode=True) if line]
    assert done == "data: [DONE]"
    assert "no memory   here" in json.loads(last.removeprefix("data: "))["error"]["message"]


def test_a_conversation_with_requests(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(CALL, ANSWER)
    body = chat_body(tools=[TOOL])
    with requests.Session() as session:
        url = f"{router.url}/v1/chat/completions"
        message = session.post(url, json=body, timeout=PATIENCE).json()["choices"][0]["message"]
        result = {
            "role": "tool",
            "tool_call_id": message["tool_calls"][0]["id"],
            "content": RESULT,
        }
        body["messages"] += [message, result]
        response = session.post(url, json=body, timeout=PATIENCE)
    assert response.apparent_encoding.lower().startswith(("utf", "ascii"))
    assert response.json()["choices"][0]["message"]["content"] == ANSWER


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_sees_the_first_event_before_the_last_token(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("one two three four five six seven eight")
    engine.options.token_delay = 0.05
    with subprocess.Popen(
        [
            "curl", "-sSN", "--fail-with-body", f"{router.url}/v1/chat/completions",
            "-H", "Content-Type: application/json", "-d", json.dumps(chat_body(stream=True)),
        ],
        stdout=subprocess.PIPE,
    ) as curl:  # fmt: skip
        assert curl.stdout is not None
        first = curl.stdout.readline()
        began = time.monotonic()
        assert engine.active == 1
        text = (first + curl.stdout.read()).decode()
        assert time.monotonic() - began > 0.2
    assert curl.returncode == 0
    *events, done = sse_data(text)
    assert done == "[DONE]"
    assert joined([json.loads(event) for event in events]).startswith("one two three")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_sends_what_it_sends_by_default(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    """A form's content type, and `Expect: 100-continue` before a large body."""
    engine.script(ANSWER)
    done = subprocess.run(
        ["curl", "-sS", f"{router.url}/v1/chat/completions", "--data-binary", "@-"],
        input=json.dumps(chat_body("word " * 500_000)).encode(),
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
    assert json.loads(done.stdout)["error"]["code"] == "context_length_exceeded"
    done = subprocess.run(
        ["curl", "-sS", f"{router.url}/v1/chat/completions", "-d", json.dumps(chat_body())],
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == ANSWER
