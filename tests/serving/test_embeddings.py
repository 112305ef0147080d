"""What a model's files and its engine say about its vectors."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.engines.wire.scheduler import EngineFacts
from sglrouter.errors import BadRequest, from_grpc_status
from sglrouter.serving.embeddings import (
    Matryoshka,
    explain_embedding,
    labels_of,
)


@pytest.mark.parametrize(
    ("config", "allowed", "refused"),
    [
        ({}, [None], [1, 64]),
        ({"is_matryoshka": False}, [None], [64]),
        ({"is_matryoshka": True}, [None, 1, 64, 10_000], [0, -1]),
        ({"matryoshka_dimensions": [32, 64]}, [None, 32, 64], [0, 33, 65]),
        ({"matryoshka_dimensions": []}, [None], [32]),
        ({"matryoshka_dimensions": 5}, [None], [5]),
    ],
)
def test_which_lengths_a_model_was_trained_for(
    config: dict[str, Any], allowed: list[int | None], refused: list[int]
) -> None:
    lengths = Matryoshka(config)
    for each in allowed:
        lengths.check(each)
    for each in refused:
        with pytest.raises(BadRequest, match="dimensions") as caught:
            lengths.check(each)
        assert caught.value.param == "dimensions"


@pytest.mark.parametrize(
    ("id2label", "labels"),
    [
        ({"1": "yes", "0": "no"}, ["no", "yes"]),
        ({str(i): f"c{i}" for i in range(11)}, [f"c{i}" for i in range(11)]),
        ({"0": "no", "2": "yes"}, []),
        ({"no": 0}, []),
        ({}, []),
        (None, []),
        (["no", "yes"], []),
    ],
)
def test_labels_are_in_the_order_of_their_numbers(id2label: object, labels: list[str]) -> None:
    assert labels_of(id2label) == labels


def test_what_an_engine_is_that_says_nothing_is_unknown() -> None:
    assert not EngineFacts().generates
    assert not EngineFacts().embeds
    assert EngineFacts(model_path="/m").generates
    assert EngineFacts(model_path="/m", is_generation=False).embeds


def test_an_engines_riddle_is_explained() -> None:
    error = explain_embedding(from_grpc_status("INTERNAL", "'embedding'"))
    assert (error.status, error.code, error.param) == (400, "unsupported_model", "model")
    other = from_grpc_status("INTERNAL", "out of memory")
    assert explain_embedding(other) is other
