"""What bounds a request for one model, and the prompts that an engine would not survive.

Strategy: the lengths are the engine's own. Of a context of C tokens (or a smaller cache) it
uses C - 1 for prompt, answer and one more, and takes prompts that leave it at least five
tokens to say. A prompt is refused as early as can be told: by its characters before it is
tokenized, by the number of its ids before they are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sglrouter._fast.prompt_ids import largest_id
from sglrouter.errors import BadRequest

# The largest number of tokens that the wire can say.
INT_MAX = 2**31 - 1
# How much longer the context is than the longest prompt, and than prompt and answer.
_PROMPT_RESERVE = 7
_ANSWER_RESERVE = 2


class Limits(msgspec.Struct, frozen=True):
    """What bounds a request for one model.

    Attributes:
        vocab_size: Ids from here on kill an engine.
        context_length: Prompt and answer together, in tokens; 0 if unknown.
        max_prompt_tokens: The longest prompt the engine takes; 0 if unknown.
        max_n: Most choices of one request.
        max_logprobs: Most log probabilities of one answer that is not streamed.
        max_grammar: Longest grammar, in characters.
    """

    vocab_size: int
    context_length: int
    max_prompt_tokens: int
    max_n: int
    max_logprobs: int = 16_000_000
    max_grammar: int = 1_000_000

    @property
    def context(self) -> int | None:
        """The context in tokens as model and engine together have it; None if unknown."""
        length, longest = self.context_length, self.max_prompt_tokens
        if not longest:
            return length or None
        return min(length or INT_MAX, longest + _PROMPT_RESERVE)

    @property
    def longest_prompt(self) -> int | None:
        """The longest prompt that an engine takes, in tokens; None if unknown."""
        context = self.context
        return None if context is None else max(0, context - _PROMPT_RESERVE)

    def room(self, prompt_tokens: int) -> int | None:
        """How many tokens an engine would add to such a prompt; None if unknown."""
        context = self.context
        return None if context is None else max(0, context - _ANSWER_RESERVE - prompt_tokens)


def check_prompt(ids: Sequence[int], limits: Limits, field: str = "messages") -> None:
    """Refuses a prompt that the engine cannot take.

    Args:
        ids: The prompt.
        limits: Bounds of the model.
        field: The request's field that the prompt comes from.

    Raises:
        BadRequest: It is empty, too long, or holds ids outside the vocabulary.
    """
    if not ids:
        # The engine dies of a prompt without tokens.
        raise BadRequest("The prompt has no tokens", code="empty_prompt", param=field)
    check_size(ids, limits, field)
    largest = largest_id(ids)
    if largest >= limits.vocab_size:
        raise BadRequest(
            f"The prompt holds the token id {largest}, but the model has only {limits.vocab_size}",
            code="token_out_of_vocabulary",
            param=field,
        )


def check_size(ids: Sequence[int], limits: Limits, field: str = "messages") -> None:
    """Refuses more tokens than the engine can take, before anybody looks at them.

    Raises:
        BadRequest: There are more.
    """
    longest = limits.longest_prompt
    if longest is not None and len(ids) > longest:
        raise _too_long(str(len(ids)), limits, field)


def check_length(
    text: str, longest_token: int | None, limits: Limits, field: str = "messages"
) -> None:
    """Refuses a prompt that cannot fit, before time and memory go into its ids.

    Args:
        text: The prompt.
        longest_token: The most characters that a token can stand for; None if unknown.
        limits: Bounds of the model.
        field: The request's field that the prompt comes from.

    Raises:
        BadRequest: It is too long, whatever its tokens are.
    """
    longest = limits.longest_prompt
    if longest is None or longest_token is None or len(text) <= longest * longest_token:
        return
    raise _too_long(f"at least {-(-len(text) // longest_token)}", limits, field)


def _too_long(tokens: str, limits: Limits, field: str) -> BadRequest:
    # Agents look for OpenAI's words to know that they must shorten their history.
    return BadRequest(
        f"This model's maximum context length is {limits.context} tokens. However, your {field} "
        f"resulted in {tokens} tokens, and a prompt may take up to "
        f"{limits.longest_prompt}. Please reduce the length of the {field}.",
        code="context_length_exceeded",
        param=field,
    )
