"""Token counts: each prompt once, every sample's own tokens, and what they share."""

from __future__ import annotations

import pytest

from sglrouter.output.sample import Usage
from sglrouter.output.usage import usage_of


def counts(*prompts: list[Usage]) -> tuple[int, int, int, int]:
    usage = usage_of(*prompts)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return (
        usage["prompt_tokens"],
        usage["completion_tokens"],
        usage["prompt_tokens_details"]["cached_tokens"],
        usage["completion_tokens_details"]["reasoning_tokens"],
    )


@pytest.mark.parametrize(
    ("prompts", "wanted"),
    [
        ([[Usage(7, 2, 3, 1)]], (7, 2, 3, 1)),
        # Samples share their prompt, and each has its own tokens.
        ([[Usage(7, 2, 3, 1), Usage(7, 5, 3, 4)]], (7, 7, 3, 5)),
        # Several prompts are several.
        ([[Usage(7, 2, 3, 1)], [Usage(4, 1, 0, 0), Usage(4, 2, 4, 2)]], (11, 5, 7, 3)),
        # One that ended before it heard of its prompt says nothing of it.
        ([[Usage(0, 0, 0, 0), Usage(7, 2, 3, 0)]], (7, 2, 3, 0)),
        # The first sample fills the cache for the others.
        ([[Usage(7, 1, 0, 0), Usage(7, 1, 6, 0)]], (7, 2, 6, 0)),
        ([[Usage(0, 0, 0, 0)]], (0, 0, 0, 0)),
        ([], (0, 0, 0, 0)),
    ],
)
def test_tokens_are_counted(prompts: list[list[Usage]], wanted: tuple[int, int, int, int]) -> None:
    assert counts(*prompts) == wanted
    assert counts(*reversed(prompts)) == wanted
    assert counts(*(prompt[::-1] for prompt in prompts)) == wanted
