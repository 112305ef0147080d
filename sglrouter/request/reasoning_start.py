"""Whether the model begins its answer inside its reasoning.

Strategy: the prompt's end tells, and nothing else does: a template that opens the
reasoning writes the opening marker last, and one that skips it writes the closing one
after. So a marker counts only with nothing but white space behind it, and whatever
history and users write is followed by the template's own words. The text of a message
that is being continued is the model's own: in it the last marker counts.
"""

from __future__ import annotations

# More white space than any template writes behind a marker.
_SPACE = 64


def starts_in_reasoning(prompt: str, opener: str, closer: str, *, continued: int = 0) -> bool:
    """Tells from the prompt's end whether reasoning is open.

    Args:
        prompt: The rendered prompt.
        opener: The marker that begins reasoning, such as <think>.
        closer: The marker that ends it.
        continued: How many characters at the prompt's end are the text of an
            assistant's message that is being continued.
    """
    opener, closer = opener.strip(), closer.strip()
    if not opener:
        return False
    end = len(prompt) - continued
    if continued:
        opened = prompt.rfind(opener, end)
        closed = prompt.rfind(closer, end) if closer else -1
        if opened >= 0 or closed >= 0:
            return opened > closed
    return prompt[max(0, end - len(opener) - _SPACE) : end].rstrip().endswith(opener)
