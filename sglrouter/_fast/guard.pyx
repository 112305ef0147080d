# cython: boundscheck=False, wraparound=False, cdivision=True
"""Tells a marker from text that looks like one, by what follows it.

Strategy: a value may quote the very markup that it stands in. A marker in it counts only if
it is followed, after white space, by what may follow it in the markup, and that by what may
follow that, until there is proof. So markers are a small graph of places: each has the
markers that may come next, and each of those leads to another place or is the proof.
What is looked at is bounded: where a proof takes longer, the marker counts if the text might
end after it, too.

A value may also quote a whole call. Its beginning and its end are counted, and no end in
it is the value's, but one that nothing follows.
"""

from cython cimport final
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t

from sglrouter._fast.ascii cimport is_space
from sglrouter._fast.inbox cimport Inbox
from sglrouter._fast.markers cimport Markers

cdef enum:
    ROLE_ENDS = 0
    ROLE_ENDS_ON_LINE = 1
    ROLE_OPENS = 2
    ROLE_CLOSES = 3
    ROLE_ENDS_OR_CLOSES = 4

    # What follows a marker, as _follow() gives it.
    WAIT = -2
    WRONG = -1
    RIGHT = 0
    RIGHT_AT_END = 1

    # Bytes after a marker that are looked at.
    MOST_AHEAD = 512

ENDS = ROLE_ENDS
ENDS_ON_LINE = ROLE_ENDS_ON_LINE
OPENS = ROLE_OPENS
CLOSES = ROLE_CLOSES
ENDS_OR_CLOSES = ROLE_ENDS_OR_CLOSES


@final
cdef class Guard:
    """What has to follow each of an operation's markers.

    Args:
        rules: For each of the markers, its role, the place after it, and that after one
            at a line's start if it is another; markers beyond these always count. The roles are ENDS, ENDS_ON_LINE (only at a line's start),
            OPENS and CLOSES (a quoted call, and never the value), and ENDS_OR_CLOSES
            (what a call was quoted in, else the value). A marker without a place has
            nothing to prove.
        places: By name, the markers that may follow and where each leads; None is a
            proof, and "" one of the contrary. Then whether other text may follow, whether the end of the text
            may, and whether the rest of a tag comes first.
    """

    def __cinit__(self, rules, places):
        numbers = {name: number for number, name in enumerate(places)}
        self.roles = [role for role, _, _ in rules]
        self.starts = [numbers.get(place, -1) for _, place, _ in rules]
        self.line_starts = [numbers.get(place or other, -1) for _, other, place in rules]
        self.places = [
            (
                Markers(following),
                tuple([numbers.get(to, -2 if to == "" else -1) for to in following.values()]),
                bool(text),
                bool(end),
                bool(tag),
            )
            for following, text, end, tag in places.values()
        ]

    cdef int judge(
        self, Inbox inbox, int marker, const uint8_t* data, Py_ssize_t at, Py_ssize_t size,
        bint at_line
    ) except -3:
        """The marker if it counts; -1 if it is text, -2 if more bytes are needed.

        Args:
            inbox: Has the depth of quoted calls, which is counted here.
            marker: The marker's number.
            data: The text.
            at: Where in it the marker ends.
            size: The text's.
            at_line: Whether the marker is at a line's start.
        """
        cdef int role
        cdef int follows = RIGHT
        cdef int place
        if marker >= len(self.roles):
            return marker
        role = self.roles[marker]
        if role == ROLE_CLOSES:
            inbox.depth = max(inbox.depth - 1, 0)
            return -1
        if role == ROLE_ENDS_ON_LINE and not at_line:
            return -1
        place = (self.line_starts if at_line else self.starts)[marker]
        if place >= 0:
            follows = self._follow(place, data, at, size, inbox.ended)
        if follows == WAIT:
            return -2
        if role == ROLE_OPENS:
            inbox.depth += follows == RIGHT
            return -1
        if inbox.depth == 0:
            return -1 if follows == WRONG else marker
        if follows == RIGHT_AT_END:
            return marker
        if role == ROLE_ENDS_OR_CLOSES:
            inbox.depth -= 1
        return -1

    cdef int _follow(
        self, int place, const uint8_t* data, Py_ssize_t at, Py_ssize_t size, bint ended
    ) except -3:
        cdef Py_ssize_t last = at + MOST_AHEAD
        cdef Markers markers
        cdef int found
        while True:
            following, leads, text, end, tag = <tuple>self.places[place]
            markers = following
            if tag:
                while at < size and at <= last and data[at] != 0x3E and data[at] != 0x3C:
                    at += 1
                if at < size and data[at] == 0x3C:
                    return WRONG
                at += at < size
            while at < size and is_space(data[at]):
                at += 1
            if at > last:
                return RIGHT if end else WRONG
            found = markers.match(data + at, size - at, False) if at < size else -2
            if found == -2:
                if not ended:
                    return WAIT
                if not end:
                    return WRONG
                if at == size:
                    return RIGHT_AT_END
                return self._cut_off(place, PyBytes_FromStringAndSize(<char*>data + at, size - at))
            if found == -1:
                return RIGHT if text else WRONG
            place = leads[found]
            if place < 0:
                return RIGHT if place == -1 else WRONG
            at += markers.matched

    cdef int _cut_off(self, int place, bytes rest) except -3:
        """What the beginning of a marker tells that the text ends in."""
        following, leads, _, _, _ = <tuple>self.places[place]
        for marker, to in zip((<Markers>following).markers, leads):
            if to != -2 and (<bytes>marker).startswith(rest):
                return RIGHT
        # One byte tells nothing.
        return RIGHT if len(rest) < 2 else WRONG
