"""The prompt's part of a request, against protobuf's own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter._fast.wire import tokenized_input
from sglrouter._proto import scheduler as pb


@settings(derandomize=True, deadline=None)
@given(st.text(), st.lists(st.integers(0, 2**32 - 1), max_size=300))
def test_it_is_what_protobuf_writes(text: str, ids: list[int]) -> None:
    expected = pb.GenerateRequest(
        tokenized=pb.TokenizedInput(original_text=text, input_ids=ids)
    ).SerializeToString()
    assert tokenized_input(text.encode(), ids) == expected


def test_long_prompts_keep_every_id() -> None:
    ids = [i * 7919 % 200_000 for i in range(100_000)]
    message = pb.GenerateRequest.FromString(tokenized_input(b"text", ids))
    assert list(message.tokenized.input_ids) == ids
