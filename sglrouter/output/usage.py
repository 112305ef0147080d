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
    prompt = completion = cached = reasoning = 0
    for counts in prompts:
        # What the samples of a prompt share: a sample may have ended before it heard of it.
        prompt += max([count.prompt_tokens for count in counts])
        cached += max([count.cached_tokens for count in counts])
        for count in counts:
            completion += count.completion_tokens
            reasoning += count.reasoning_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
