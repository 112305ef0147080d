"""The APIs that we do not speak: clients of theirs are told so, in JSON."""

from __future__ import annotations

import openai
import pytest

from tests.processes import RouterProcess

PATHS = [
    "/v1/responses",  # Codex
    "/v1/messages",  # Claude Code
    "/v1/messages/count_tokens",
    "/v1/audio/speech",
    "/v1/files",
]


@pytest.mark.parametrize("path", PATHS)
def test_they_are_not_found_in_openais_words(router: RouterProcess, path: str) -> None:
    response = router.http.post(path, json={"model": "tiny", "input": "Hello"})
    assert response.status_code == 404
    assert response.headers["content-type"].startswith("application/json")
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert path in error["message"]


def test_the_sdk_says_so_at_once(router: RouterProcess) -> None:
    with router.openai() as client, pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(model="tiny", input="Hello")
    assert "/v1/responses" in caught.value.message
