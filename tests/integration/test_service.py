"""What the service says of itself."""

from __future__ import annotations

import pytest

from sglrouter.sim import SimulatedEngine
from tests.processes import RouterProcess


def test_health_follows_the_engines(router: RouterProcess, engine: SimulatedEngine) -> None:
    assert router.http.get("/health").status_code == 200
    engine.set_serving(False)
    try:
        engine.wait_until(lambda: router.http.get("/readiness").status_code == 503)
        assert router.http.get("/liveness").status_code == 200
    finally:
        engine.set_serving(True)
    engine.wait_until(lambda: router.http.get("/health").json()["status"] == "ok")


@pytest.mark.usefixtures("native")
def test_health_counts_what_the_channel_does(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    def counts() -> dict[str, int]:
        (shown,) = router.http.get("/health").json()["engines"]
        channel: dict[str, int] = shown["channel"]
        return channel

    before = counts()
    router.stream("count me")
    after = counts()
    assert after["connections"] == after["connects"] == 1
    assert after["streams"] > before["streams"]
    assert after["received"] > before["received"]
    assert after["sent"] > before["sent"]
    assert after["resets"] == after["lost"] == 0
    # The engine's trailers come a moment after its last message.
    engine.wait_until(lambda: counts()["active"] == 0)


def test_one_model_is_listed_and_shown(router: RouterProcess) -> None:
    (model,) = router.openai().models.list().data
    assert model.id == "tiny"
    assert router.http.get("/v1/models/tiny").json()["max_model_len"] == 8192
    assert router.http.get("/v1/models/other").status_code == 404
