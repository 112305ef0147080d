"""Scores as bodies: probabilities of labels, and documents by how well they fit."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from sglrouter._proto import scheduler as pb
from sglrouter.errors import EngineError
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.head import Head
from sglrouter.output.sample import Sample
from sglrouter.output.scores import RankingBody, ScoreBody, label_logprobs
from tests.output.models import byte_level

HEAD = Head("an-id", 17, "m")
HALF, QUARTER = math.log(0.5), math.log(0.25)


def sample(*rows: list[tuple[int, float]], reason: str = "length") -> Sample:
    """What an engine says after a prompt of nine tokens."""
    found = Sample(DetokenizerFactory(byte_level()), selected_logprobs=True)
    message = pb.GenerateResponse(
        complete=pb.GenerateComplete(
            finish_reason=reason,
            prompt_tokens=9,
            output_logprobs=pb.OutputLogProbs(
                token_ids_logprobs=[
                    pb.TopLogProbs(
                        token_ids=[token for token, _ in row], values=[value for _, value in row]
                    )
                    for row in rows
                ]
            ),
        )
    )
    found.feed([message.SerializeToString()])
    return found


def test_labels_are_found_in_any_order() -> None:
    found = label_logprobs(sample([(7, -2.0), (5, -1.0)]), [5, 7, 6])
    assert found == [-1.0, -2.0, -math.inf]


def test_an_engine_that_scores_nothing_is_too_old() -> None:
    with pytest.raises(EngineError, match="version") as caught:
        label_logprobs(sample(), [5])
    assert (caught.value.status, caught.value.code) == (501, "engine_unsupported")


def test_scores_that_are_no_numbers_are_a_failure() -> None:
    with pytest.raises(EngineError, match="no numbers") as caught:
        label_logprobs(sample([(5, math.nan)]), [5])
    assert caught.value.status == 502


def test_scores_are_probabilities() -> None:
    body = ScoreBody("m", 2)
    body.add_logprobs(1, [QUARTER, -math.inf], 4)
    body.add_logprobs(0, [HALF, QUARTER], 3)
    answer = json.loads(body.body())
    assert answer.pop("scores") == [pytest.approx([0.5, 0.25]), pytest.approx([0.25, 0.0])]
    assert answer == {
        "object": "scoring",
        "model": "m",
        "token_logprobs": None,
        "pooled_hidden_states": None,
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
    }


def test_a_softmax_makes_an_items_scores_one() -> None:
    body = ScoreBody("m", 2, temperature=0.5, tell_logprobs=True)
    body.add_logprobs(0, [HALF, QUARTER], 3)
    body.add_logprobs(1, [-math.inf, HALF], 3)
    answer = json.loads(body.body())
    assert answer["scores"] == [pytest.approx([0.8, 0.2]), [0.0, 1.0]]
    # JSON has no infinity.
    assert answer["token_logprobs"] == [[HALF, QUARTER], [-9999.0, HALF]]


@pytest.mark.parametrize(
    ("temperature", "scores"), [(None, [2.0, -1.0]), (3.0, [0.7310585786, 0.2689414214])]
)
def test_logits_are_scores_as_they_are(temperature: float | None, scores: list[float]) -> None:
    body = ScoreBody("m", 1, temperature=temperature)
    body.add_logits(0, [2.0, -1.0], 3)
    assert json.loads(body.body())["scores"] == [pytest.approx(scores)]


def ranking(documents: list[str] | None, top: int | None = None) -> RankingBody:
    body = RankingBody(documents, 4, top)
    for number, yes in enumerate([0.1, 0.6, 0.6, 0.3]):
        body.add_logprobs(number, [math.log(yes * 0.2), math.log((1 - yes) * 0.2)], 5)
    return body


def shown(results: list[dict[str, Any]]) -> list[tuple[int, float]]:
    return [(each["index"], round(each["score"], 6)) for each in results]


def test_the_best_document_is_first() -> None:
    answer = json.loads(ranking(["a", "b", "c", "d"]).bare())
    assert shown(answer) == [(1, 0.6), (2, 0.6), (3, 0.3), (0, 0.1)]
    assert [each["document"] for each in answer] == ["b", "c", "d", "a"]
    assert all(each["meta_info"] is None for each in answer)


def test_documents_may_be_left_out_and_the_worst_as_well() -> None:
    answer = json.loads(ranking(None, top=3).bare())
    assert shown(answer) == [(1, 0.6), (2, 0.6), (3, 0.3)]
    assert all("document" not in each for each in answer)
    assert len(json.loads(ranking(None, top=9).bare())) == 4


@pytest.mark.parametrize(("name", "shown_id"), [(None, "an-id"), ("mine", "mine")])
def test_gateways_put_it_into_an_object(name: str | None, shown_id: str) -> None:
    answer = json.loads(ranking(["a", "b", "c", "d"]).whole(HEAD, name))
    assert shown(answer.pop("results"))[0] == (1, 0.6)
    assert answer == {
        "id": shown_id,
        "object": "rerank",
        "created": 17,
        "model": "m",
        "usage": {"prompt_tokens": 20, "total_tokens": 20},
    }


def test_neither_yes_nor_no_is_no_fit() -> None:
    body = RankingBody(None, 1, None)
    body.add_logprobs(0, [-math.inf, -math.inf], 5)
    assert json.loads(body.bare())[0]["score"] == 0.0
