"""An event-stream reader as the WHATWG's HTML standard describes it, and nothing more lenient.

Bytes in, in any pieces; events and comments out. A line ends with LF, CR or CRLF; a byte order
mark is skipped at the very beginning; an event is what stands before an empty line, and one
that no such line follows is none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_CR, _LF = 0x0D, 0x0A
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Event:
    """What one block of lines comes to.

    Attributes:
        data: The `data` lines, joined; None if there was none: browsers drop such a block.
        type: The `event` field, if any.
        fields: The names of all fields, in order.
        comments: The comments in the block, without their colon.
    """

    data: str | None = None
    type: str | None = None
    fields: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)


class EventStreamReader:
    """Takes a body apart.

    Attributes:
        rest: Whether bytes are left that no empty line has ended.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._event = Event()
        self._after_cr = False
        self._first = True

    @property
    def rest(self) -> bool:
        return bool(self._line or self._event.fields or self._event.comments)

    def feed(self, data: bytes) -> list[Event]:
        """Reads more bytes; returns the blocks that they complete, comments' among them.

        Raises:
            UnicodeDecodeError: A line is not UTF-8; a browser would replace what is not.
        """
        events: list[Event] = []
        for byte in data:
            if self._after_cr:
                self._after_cr = False
                if byte == _LF:
                    continue
            if byte in (_CR, _LF):
                self._after_cr = byte == _CR
                self._end_line(events)
            else:
                self._line.append(byte)
        return events

    def _end_line(self, events: list[Event]) -> None:
        raw = bytes(self._line)
        self._line.clear()
        if self._first:
            raw = raw.removeprefix(_BOM)
            self._first = False
        line = raw.decode()
        if not line:
            if self.rest:
                events.append(self._event)
            self._event = Event()
        elif line[0] == ":":
            self._event.comments.append(line[1:])
        else:
            name, _, value = line.partition(":")
            self._field(name, value.removeprefix(" "))

    def _field(self, name: str, value: str) -> None:
        self._event.fields.append(name)
        if name == "data":
            before = self._event.data
            self._event.data = value if before is None else f"{before}\n{value}"
        elif name == "event":
            self._event.type = value
