"""What a full server still answers, and what is kept out of callbacks."""

from __future__ import annotations

import falcon
import falcon.testing
import pytest

from sglrouter.http import failures
from sglrouter.http.admission import SURPLUS_KEY, Admission, Waiting
from sglrouter.waiting import NeedsGreenlet, in_callback


class Patient:
    """A resource that may wait."""

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        resp.text = "patient"


class Quick(Patient):
    """One that says before it does."""

    in_callbacks = True


@pytest.fixture
def client() -> falcon.testing.TestClient:
    app: falcon.App[falcon.Request, falcon.Response] = falcon.App(
        middleware=[Admission(), Waiting()]
    )
    failures.install(app)
    for path in ("/liveness", "/health", "/v1/models"):
        app.add_route(path, Patient())
    app.add_route("/quick", Quick())
    return falcon.testing.TestClient(app)


@pytest.mark.parametrize("path", ["/liveness", "/health"])
def test_a_full_server_tells_that_it_lives(client: falcon.testing.TestClient, path: str) -> None:
    assert client.simulate_get(path, extras={SURPLUS_KEY: True}).text == "patient"


@pytest.mark.parametrize("path", ["/v1/models", "/quick", "/nothing"])
def test_a_full_server_refuses_all_else(client: falcon.testing.TestClient, path: str) -> None:
    answer = client.simulate_get(path, extras={SURPLUS_KEY: True})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json["error"]["code"] == "overloaded"


def test_one_with_room_refuses_nobody(client: falcon.testing.TestClient) -> None:
    assert client.simulate_get("/v1/models").text == "patient"


def test_a_resource_that_may_wait_is_not_served_in_a_callback(
    client: falcon.testing.TestClient,
) -> None:
    with pytest.raises(NeedsGreenlet):
        in_callback(client.simulate_get, "/v1/models")
    assert in_callback(client.simulate_get, "/quick").text == "patient"
    # Nor is one that is not there a reason to wait.
    assert in_callback(client.simulate_get, "/nothing").status_code == 404
    assert client.simulate_get("/v1/models").text == "patient"
