"""No text completion makes the router send what kills an engine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import falcon.testing
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter.app import create_app
from sglrouter.config import Settings
from sglrouter.schema.completions import CompletionRequest
from sglrouter.sim import SimulatedEngine
from tests.fast.profile import SOAK
from tests.integration.requests import ATTACKS, FIELDS, VOCAB, anything, ids, loose, switches, texts
from tests.integration.test_deadly_requests import check_answer


@pytest.fixture(scope="module")
def client(engine: SimulatedEngine, tiny_model: Path) -> Iterator[falcon.testing.TestClient]:
    app = create_app(
        Settings(engine=[f"grpc://{engine.address}"], tokenizer=str(tiny_model), idle_timeout=20)
    )
    yield falcon.testing.TestClient(app)
    app.fleet.close()


good_ids = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=4)
any_ids = st.lists(ids, max_size=4)
prompts = st.one_of(
    texts,
    st.lists(texts, max_size=3),
    good_ids,
    any_ids,
    st.lists(st.one_of(good_ids, any_ids), max_size=3),
    anything,
)
_OWN: dict[str, st.SearchStrategy[Any]] = {
    "prompt": prompts,
    "suffix": texts,
    "best_of": st.one_of(st.integers(1, 3), loose),
    "echo": switches,
    "logprobs": st.one_of(st.integers(0, 20), loose),
    "max_tokens": st.one_of(st.integers(0, 5), loose),
    "json_schema": st.one_of(anything, anything.map(json.dumps), texts),
}
FIELDS_OF_ALL = {
    field.name: (FIELDS | _OWN).get(field.name, anything)
    for field in msgspec.structs.fields(CompletionRequest)
}
GOOD = {
    "prompt": st.one_of(st.just("a b"), st.lists(st.just("a"), min_size=1, max_size=3), good_ids),
    "echo": st.booleans(),
    "logprobs": st.integers(0, 20),
    "stream": st.booleans(),
    "n": st.integers(1, 2),
    "max_tokens": st.integers(0, 3),
    "min_tokens": st.integers(0, 1),
    "stop": st.just(["b"]),
}
# Those of chat completions but for what is written otherwise here.
ATTACKS_HERE = {
    **{name: ATTACKS[name] for name in ATTACKS if name not in ("prompt", "ids", "top_logprobs")},
    "logprobs": st.fixed_dictionaries(
        {"logprobs": st.sampled_from([-1, 0, 20, 21, VOCAB, VOCAB + 1, "4097", 1e9, 2**31])}
    ),
}


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A usual body with something in it that is not."""
    fields: dict[str, Any] = {"prompt": "a", "max_tokens": 3}
    for name in draw(st.lists(st.sampled_from(sorted(GOOD)), max_size=5, unique=True)):
        fields[name] = draw(GOOD[name])
    kind = draw(st.sampled_from(["nothing", "prompt", "attack", "attack", "field"]))
    if kind == "prompt":
        fields["prompt"] = draw(prompts)
    elif kind == "attack":
        fields |= draw(ATTACKS_HERE[draw(st.sampled_from(sorted(ATTACKS_HERE)))])
    elif kind == "field":
        for name in draw(st.lists(st.sampled_from(sorted(FIELDS_OF_ALL)), min_size=1, max_size=2)):
            fields[name] = draw(FIELDS_OF_ALL[name])
    return json.dumps(fields).encode()


@pytest.mark.long
def test_an_arbitrary_request_is_answered_or_refused(
    client: falcon.testing.TestClient, engine: SimulatedEngine
) -> None:
    statuses: Counter[int] = Counter()

    @settings(max_examples=2 * SOAK)
    @given(bodies())
    def run(body: bytes) -> None:
        result = client.simulate_post("/v1/completions", body=body)
        statuses[check_answer(body, result, engine)] += 1

    run()
    # Neither is the rule, or much would not be tried.
    assert min(statuses[200], statuses[400]) > SOAK // 4, statuses
