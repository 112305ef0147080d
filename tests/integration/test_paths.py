"""Every path by every method: JSON, whatever becomes of it."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.processes import RouterProcess

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]
# A HEAD of these would do what a GET does.
ACTS = {"/flush_cache", "/start_profile", "/stop_profile"}


@pytest.fixture(scope="module")
def paths(router: RouterProcess) -> dict[str, set[str]]:
    """The methods of each path, as the OpenAPI document has them."""
    document = router.http.get("/openapi.json").json()
    return {
        path.replace("{name}", "tiny"): {method.upper() for method in operations}
        for path, operations in document["paths"].items()
    }


def is_error(response: httpx.Response) -> bool:
    return response.headers["content-type"] == "application/json" and set(
        json.loads(response.content)["error"]
    ) == {"message", "type", "param", "code"}


def test_other_methods(router: RouterProcess, paths: dict[str, set[str]]) -> None:
    assert {"/v1/models", "/v1/models/tiny", "/tokenize", "/flush_cache"} <= set(paths)
    for path, methods in paths.items():
        allowed = methods | {"OPTIONS"}
        if "GET" in methods and path not in ACTS:
            allowed.add("HEAD")
        for method in METHODS:
            if method in allowed and method != "OPTIONS":
                continue
            response = router.http.request(method, path)
            where = f"{method} {path}"
            named = set(response.headers["allow"].split(", "))
            assert named == allowed or named == allowed - {"OPTIONS"}, where
            if method == "OPTIONS":
                assert (response.status_code, response.content) == (200, b""), where
            else:
                assert response.status_code == 405, where
                assert method == "HEAD" or is_error(response), where


def test_head_is_get_without_the_body(router: RouterProcess, paths: dict[str, set[str]]) -> None:
    for path, methods in paths.items():
        if "GET" in methods and path not in ACTS:
            head, get = router.http.head(path), router.http.get(path)
            assert head.status_code == get.status_code == 200, path
            assert head.content == b""
            assert head.headers["content-type"] == get.headers["content-type"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/nothing", "/v1/models/nope", "/favicon.ico"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_paths_that_are_not_there(router: RouterProcess, path: str, method: str) -> None:
    response = router.http.request(method, path)
    wanted = 405 if path.endswith("nope") and method != "GET" else 404
    assert response.status_code == wanted
    assert is_error(response)


def test_a_slash_at_the_end_is_no_other_path(
    router: RouterProcess, paths: dict[str, set[str]]
) -> None:
    for path, methods in paths.items():
        if "GET" in methods and path not in ACTS:
            assert router.http.get(f"{path}/").status_code == 200, path
    assert router.http.post("/v1/tokenize/", json={"prompt": "x"}).status_code == 200
    assert router.chat(max_tokens=1).status_code == 200
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    assert router.http.post("/v1/chat/completions/", json=body).status_code == 200
