"""The labels of a request for scores."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.request.limits import Limits
from sglrouter.serving.scoring import MAX_SCORES, labels_for

LIMITS = Limits(vocab_size=300, context_length=0, max_prompt_tokens=0, max_n=1)
ROOMY = Limits(vocab_size=10**9, context_length=0, max_prompt_tokens=0, max_n=1)


def test_labels_are_shared_or_each_items_own() -> None:
    assert labels_for([5, 299], 3, LIMITS) == [[5, 299]] * 3
    assert labels_for([[5], [6, 0]], 2, LIMITS) == [[5], [6, 0]]


@pytest.mark.parametrize(
    ("given", "code", "param"),
    [
        (None, "invalid_value", "label_token_ids"),
        ([], "invalid_value", "label_token_ids"),
        ([[5], []], "invalid_value", "label_token_ids[1]"),
        ([[5]], "invalid_value", "label_token_ids"),
        ([[5], [5], [5]], "invalid_value", "label_token_ids"),
        ([5, [5]], "invalid_value", "label_token_ids"),
        ([5, 300], "token_out_of_vocabulary", "label_token_ids"),
        ([[5], [-1]], "token_out_of_vocabulary", "label_token_ids[1]"),
        ([5, 6, 5], "invalid_value", "label_token_ids"),
    ],
)
def test_other_labels_are_refused(given: Any, code: str, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        labels_for(given, 2, LIMITS)
    assert (caught.value.code, caught.value.param) == (code, param)


def test_there_is_a_bound_for_all_together() -> None:
    labels = list(range(MAX_SCORES // 1000))
    assert len(labels_for(labels, 1000, ROOMY)) == 1000
    with pytest.raises(BadRequest, match="more than") as caught:
        labels_for(labels, 1001, ROOMY)
    assert caught.value.param == "label_token_ids"
