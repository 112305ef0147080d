"""Token counts as OpenAI shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglrouter.output.sample import Usage


def usage_of(*prompts: Sequence[Usage]) -> dict[str, Any]:
    """OpenAI's usage object: each prompt counts once, however many samples it has.

    Args:
        prompts: For each prompt the counts of its samples.
    """
    prompt = sum(max(count.prompt_tokens for count in counts) for counts in prompts)
    completion = sum(count.completion_tokens for counts in prompts for count in counts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {
            "cached_tokens": sum(max(count.cached_tokens for count in counts) for counts in prompts)
        },
        "completion_tokens_details": {
            "reasoning_tokens": sum(
                count.reasoning_tokens for counts in prompts for count in counts
            )
        },
    }
