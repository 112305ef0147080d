"""Vectors as bodies: in order, exact, and of the length that was asked for."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.errors import BadRequest
from sglrouter.output.head import Head
from sglrouter.output.vectors import (
    ClassBody,
    EmbeddingBody,
    EncodedBody,
    VectorBody,
    shortened,
    softmax,
)

HEAD = Head("an-id", 17, "m")
VECTORS = [array("f", [0.1, -0.25]), array("f", [3.0, 1e-20]), array("f", [0.5, 0.0])]


def unit(*values: float) -> array[float]:
    length = math.hypot(*values)
    return array("f", [value / length for value in values])


def filled(body: VectorBody, vectors: list[array[float]], seed: int = 1) -> Any:
    """The body, with the vectors added in any order; the i-th is of i + 1 tokens."""
    order = list(range(len(vectors)))
    random.Random(seed).shuffle(order)
    for number in order:
        body.add(number, vectors[number], number + 1)
    return json.loads(body.body())


def test_embeddings_are_in_the_order_of_the_inputs() -> None:
    answer = filled(EmbeddingBody('a "model"', 3), VECTORS)
    assert answer == {
        "object": "list",
        "model": 'a "model"',
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
        "data": [
            {"object": "embedding", "index": i, "embedding": answer["data"][i]["embedding"]}
            for i in range(3)
        ],
    }
    for item, vector in zip(answer["data"], VECTORS, strict=True):
        assert array("f", item["embedding"]) == vector


def test_base64_is_little_endian_floats() -> None:
    answer = filled(EmbeddingBody("m", 3, base64=True), VECTORS)
    for item, vector in zip(answer["data"], VECTORS, strict=True):
        assert struct.unpack("<2f", base64.b64decode(item["embedding"])) == tuple(vector)


def test_shortened_unit_vectors_are_unit_vectors() -> None:
    short = shortened(unit(3.0, 4.0, 12.0), 2)
    assert list(short) == pytest.approx([0.6, 0.8])
    assert shortened(unit(0.0, 0.0, 1.0), 2) == array("f", [0.0, 0.0])
    answer = filled(EmbeddingBody("m", 1, dimensions=2), [unit(3.0, 4.0, 12.0)])
    assert answer["data"][0]["embedding"] == pytest.approx([0.6, 0.8])


def test_other_vectors_keep_their_length() -> None:
    assert shortened(array("f", [3.0, 4.0, 12.0]), 2) == array("f", [3.0, 4.0])
    assert shortened(VECTORS[0], 2) is VECTORS[0]
    assert shortened(VECTORS[0], None) is VECTORS[0]


def test_more_values_than_there_are_is_the_clients_mistake() -> None:
    with pytest.raises(BadRequest, match="at most 2") as caught:
        shortened(VECTORS[0], 3)
    assert caught.value.param == "dimensions"


def test_classes_are_the_softmax_of_the_logits() -> None:
    answer = filled(
        ClassBody(HEAD, 2, ["no", "yes"]), [array("f", [0.0, math.log(3.0)]), array("f", [1.0, 1])]
    )
    first, second = answer["data"]
    assert (first["index"], first["label"], first["num_classes"]) == (0, "yes", 2)
    assert first["probs"] == pytest.approx([0.25, 0.75])
    # Of equals the first, as an argmax has it.
    assert (second["index"], second["label"], second["probs"]) == (1, "no", [0.5, 0.5])
    assert (answer["id"], answer["object"], answer["created"], answer["model"]) == (
        *("an-id", "list", 17, "m"),
    )
    assert answer["usage"] == {
        "prompt_tokens": 3,
        "total_tokens": 3,
        "completion_tokens": 0,
        "prompt_tokens_details": None,
    }


def test_classes_without_names_get_numbers() -> None:
    answer = filled(ClassBody(HEAD, 1), [array("f", [0.0, 9.0, 1.0])])
    assert answer["data"][0]["label"] == "LABEL_1"


def test_an_embedding_is_no_class() -> None:
    with pytest.raises(BadRequest, match="does not classify") as caught:
        ClassBody(HEAD, 1, ["no", "yes"]).add(0, array("f", [1.0] * 64), 1)
    assert caught.value.param == "model"


@pytest.mark.parametrize("many", [False, True])
def test_sglangs_own_form(many: bool) -> None:
    body = EncodedBody(["mine"], many=many, facts={"weight_version": "v"})
    answer = filled(body, VECTORS[:1])
    (item,) = answer if many else [answer]
    assert array("f", item["embedding"]) == VECTORS[0]
    meta = item["meta_info"]
    assert meta.pop("e2e_latency") >= 0
    assert meta == {
        "id": "mine",
        "prompt_tokens": 1,
        "finish_reason": {"type": "length", "length": 0},
        "weight_version": "v",
    }


@given(
    st.lists(st.floats(-1e6, 1e6) | st.just(-math.inf), min_size=1, max_size=8),
    st.floats(1e-3, 1e3),
)
def test_a_softmax_adds_up_to_one(values: list[float], temperature: float) -> None:
    found = softmax(values, temperature)
    wanted = 0.0 if max(values) == -math.inf else 1.0
    assert sum(found) == pytest.approx(wanted)
    assert all(0.0 <= value <= 1.0 for value in found)


def test_temperature_divides() -> None:
    values = [math.log(1.0), math.log(4.0)]
    assert softmax(values, 2.0) == pytest.approx([1 / 3, 2 / 3])
    assert softmax([1e9, 0.0], 1e-9) == [1.0, 0.0]
