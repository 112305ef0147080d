"""One id for a request: the client's own, if it can go everywhere, or a new one."""

from __future__ import annotations

import re

import falcon
import falcon.testing
import pytest

from sglrouter.http.request_id import RequestIds, metadata_of, request_id_of


class Told:
    """Says what it is told of the request."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        resp.media = [request_id_of(req), metadata_of(req)]


@pytest.fixture
def client() -> falcon.testing.TestClient:
    app: falcon.App[falcon.Request, falcon.Response] = falcon.App(middleware=[RequestIds()])
    app.add_route("/", Told())
    return falcon.testing.TestClient(app)


@pytest.mark.parametrize("name", ["a", "req_0123-4567", "x" * 128, "~!#$%&'*+-.^_`|"])
def test_a_fit_id_is_taken(client: falcon.testing.TestClient, name: str) -> None:
    answer = client.simulate_get("/", headers={"X-Request-ID": name})
    assert answer.headers["x-request-id"] == name
    assert answer.json == [name, [["x-request-id", name]]]


@pytest.mark.parametrize("name", [None, "", "x" * 129, "a b", "caf\xe9", "a\tb", "a\x7f"])
def test_any_other_is_replaced_by_a_new_one(
    client: falcon.testing.TestClient, name: str | None
) -> None:
    headers = {} if name is None else {"X-Request-ID": name}
    answers = [client.simulate_get("/", headers=headers) for _ in range(2)]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)
    assert ids[0] != ids[1]
    assert [answer.json[0] for answer in answers] == ids


def test_an_error_has_it_too(client: falcon.testing.TestClient) -> None:
    answer = client.simulate_get("/nothing", headers={"X-Request-ID": "mine"})
    assert answer.status_code == 404
    assert answer.headers["x-request-id"] == "mine"


def test_without_anybody_who_gives_ids_there_is_none() -> None:
    req = falcon.testing.create_req()
    assert request_id_of(req) == "-"
