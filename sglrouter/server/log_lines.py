"""Log lines that stay one line, whatever is in them.

Engines, clients and their addresses get into messages. A line end there would begin a
line of its own that looks like the router's, and other control characters may hide text
from a terminal.
"""

from __future__ import annotations

import logging

from sglrouter.errors import clean_words

# Characters of a message; a stack trace comes after it and is not cut.
_LONGEST = 16 * 1024


class OneLine(logging.Formatter):
    """A formatter whose messages have no control characters and an end."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        """Formats the message; what is traced stays on lines of its own."""
        return clean_words(super().formatMessage(record), _LONGEST)
