# cython: boundscheck=False, wraparound=False, cdivision=True
"""Frames the chunks of chat and text completions as server-sent events.

Strategy: all that a stream's chunks have in common is rendered once; a content
chunk is then a prefix, the text escaped for JSON, and a suffix, in one allocation.

U+0085, U+2028 and U+2029 are escaped although JSON allows them: clients that split
the stream with a Unicode-aware line reader would break the event there.
"""

import json

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

cdef const char* HEX = b"0123456789abcdef"


cdef inline Py_ssize_t _escaped_size(const uint8_t* data, Py_ssize_t size) noexcept:
    cdef Py_ssize_t total = size
    cdef Py_ssize_t i
    cdef uint8_t byte
    for i in range(size):
        byte = data[i]
        if byte >= 0x20:
            if byte == 0x22 or byte == 0x5C:
                total += 1
            elif byte == 0xC2:
                if i + 1 < size and data[i + 1] == 0x85:
                    total += 4
            elif byte == 0xE2:
                if i + 2 < size and data[i + 1] == 0x80 and (data[i + 2] | 1) == 0xA9:
                    total += 3
        elif byte == 0x0A or byte == 0x0D or byte == 0x09 or byte == 0x08 or byte == 0x0C:
            total += 1
        else:
            total += 5
    return total


cdef inline uint8_t* _put_unicode(uint8_t* out, int code) noexcept:
    out[0] = 0x5C
    out[1] = 0x75
    out[2] = HEX[(code >> 12) & 15]
    out[3] = HEX[(code >> 8) & 15]
    out[4] = HEX[(code >> 4) & 15]
    out[5] = HEX[code & 15]
    return out + 6


cdef uint8_t* _escape(const uint8_t* data, Py_ssize_t size, uint8_t* out) noexcept:
    cdef Py_ssize_t i = 0
    cdef uint8_t byte
    while i < size:
        byte = data[i]
        if byte >= 0x20:
            if byte == 0x22 or byte == 0x5C:
                out[0] = 0x5C
                out += 1
            elif byte == 0xC2 and i + 1 < size and data[i + 1] == 0x85:
                out = _put_unicode(out, 0x85)
                i += 2
                continue
            elif (
                byte == 0xE2
                and i + 2 < size
                and data[i + 1] == 0x80
                and (data[i + 2] | 1) == 0xA9
            ):
                out = _put_unicode(out, 0x2000 | (data[i + 2] - 0x80))
                i += 3
                continue
            out[0] = byte
            out += 1
        elif byte == 0x0A:
            out[0], out[1] = 0x5C, 0x6E
            out += 2
        elif byte == 0x0D:
            out[0], out[1] = 0x5C, 0x72
            out += 2
        elif byte == 0x09:
            out[0], out[1] = 0x5C, 0x74
            out += 2
        elif byte == 0x08:
            out[0], out[1] = 0x5C, 0x62
            out += 2
        elif byte == 0x0C:
            out[0], out[1] = 0x5C, 0x66
            out += 2
        else:
            out = _put_unicode(out, byte)
        i += 1
    return out


cdef bytes _wrap(bytes prefix, bytes text, bytes suffix):
    """prefix + text escaped for a JSON string + suffix."""
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
    cdef Py_ssize_t before = PyBytes_GET_SIZE(prefix)
    cdef Py_ssize_t after = PyBytes_GET_SIZE(suffix)
    cdef bytes frame = PyBytes_FromStringAndSize(
        NULL, before + _escaped_size(data, size) + after
    )
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(frame)
    memcpy(out, PyBytes_AS_STRING(prefix), before)
    out = _escape(data, size, out + before)
    memcpy(out, PyBytes_AS_STRING(suffix), after)
    return frame


def json_string(bytes text not None):
    """Returns UTF-8 text as a JSON string, quotes included."""
    return _wrap(b'"', text, b'"')


def escape_line_ends(bytes document not None):
    """Returns a JSON document with U+0085, U+2028 and U+2029 in its strings escaped."""
    if b"\xc2\x85" in document:
        document = document.replace(b"\xc2\x85", b"\\u0085")
    if b"\xe2\x80\xa8" in document:
        document = document.replace(b"\xe2\x80\xa8", b"\\u2028")
    if b"\xe2\x80\xa9" in document:
        document = document.replace(b"\xe2\x80\xa9", b"\\u2029")
    return document


cdef bytes CLOSING = b"}]}\n\n"
cdef bytes CLOSING_WITHOUT_USAGE = b'}],"usage":null}\n\n'


cdef class ChoiceFramer(Framer):
    """The events of one choice of one completion, as far as they are plain text.

    Args:
        completion_id: The completion's id.
        created: Unix time in seconds, the same in every chunk.
        model: The model name that the client asked for.
        index: The choice's index.
        usage: Whether each chunk says that it has no token counts, as OpenAI's do where
            the last has them.
    """

    def __cinit__(self):
        self.head = self.content_head = self.content_tail = self.content_end = b""
        self.closing = self.goes_on = b""

    cdef int _begin(
        self, bytes kind, str completion_id, object created, str model, object index, bint usage
    ) except -1:
        """Renders what all events have in common, up to the first field after the index."""
        self.head = (
            b'data: {"id":%b,"object":"%b","created":%d,"model":%b,"choices":[{"index":%d,'
        ) % (
            json_string(completion_id.encode()),
            kind,
            created,
            json_string(model.encode("utf-8", "replace")),
            index,
        )
        self.closing = CLOSING_WITHOUT_USAGE if usage else CLOSING
        self.goes_on = b'"logprobs":null,"finish_reason":null' + self.closing
        return 0

    cdef int _begin_content(self, bytes before, bytes after) except -1:
        """Renders what is around a text, but for the choice's logprobs."""
        self.content_head = self.head + before
        self.content_tail = after
        self.content_end = after + self.goes_on
        return 0

    cpdef bytes content(self, bytes text, bytes logprobs=None):
        """A chunk of text.

        Args:
            text: UTF-8, complete characters.
            logprobs: The choice's logprobs object as JSON, or None for null.
        """
        if text is None:
            raise TypeError("text is None")
        if logprobs is None:
            return _wrap(self.content_head, text, self.content_end)
        return _wrap(self.content_head, text, self.content_tail + self._tail(logprobs))

    cdef bytes _tail(self, bytes logprobs):
        """What follows the delta of a choice that goes on."""
        if logprobs is None:
            return self.goes_on
        return b'"logprobs":%b,"finish_reason":null%b' % (
            escape_line_ends(logprobs), self.closing
        )

    cdef bytes _end(self, str reason, object matched_stop):
        """What follows the delta of a choice that ends."""
        return b'"logprobs":null,"finish_reason":%b,"matched_stop":%b%b' % (
            json_string(reason.encode()),
            b"null" if matched_stop is None else json.dumps(matched_stop).encode(),
            self.closing,
        )


cdef class TextFramer(ChoiceFramer):
    """The text_completion events of one choice; see Framer."""

    def __cinit__(
        self, str completion_id not None, created, str model not None, index, bint usage=False
    ):
        self._begin(b"text_completion", completion_id, created, model, index, usage)
        self._begin_content(b'"text":"', b'",')

    cpdef bytes finish(self, str reason, object matched_stop=None):
        """The last chunk: why the sample ended, and at which stop token or string."""
        return self.head + b'"text":"",' + self._end(reason, matched_stop)


cdef class ChunkFramer(ChoiceFramer):
    """The chat.completion.chunk events of one choice; see Framer.

    Args:
        reasoning_fields: The names of delta's fields that reasoning goes into.
    """

    def __cinit__(
        self,
        str completion_id not None,
        created,
        str model not None,
        index,
        reasoning_fields=("reasoning_content",),
        bint usage=False,
    ):
        self._begin(b"chat.completion.chunk", completion_id, created, model, index, usage)
        self.head += b'"delta":{'
        self._begin_content(b'"content":"', b'"},')
        self.reasoning_heads = [b'"%b":"' % name.encode() for name in reasoning_fields]
        self.reasoning_heads[0] = self.head + self.reasoning_heads[0]

    def role(self):
        """The first chunk: who speaks."""
        return self.head + b'"role":"assistant","content":""},' + self.goes_on

    cpdef bytes reasoning(self, bytes text, bytes logprobs=None):
        """A chunk of reasoning; see Framer.content()."""
        cdef bytes event
        cdef Py_ssize_t i
        cdef Py_ssize_t last = len(self.reasoning_heads) - 1
        if text is None:
            raise TypeError("text is None")
        if last == 0:
            return _wrap(<bytes>self.reasoning_heads[0], text, b'"},' + self._tail(logprobs))
        event = b""
        for i in range(last):
            event += _wrap(<bytes>self.reasoning_heads[i], text, b'",')
        return event + _wrap(<bytes>self.reasoning_heads[last], text, b'"},' + self._tail(logprobs))

    cpdef bytes call(self, tuple delta, bytes logprobs=None):
        """A chunk with a piece of a tool call.

        Id, type and name come once, with the first piece: clients join the pieces.

        Args:
            delta: (number, id, name, arguments), with id and name None but for the
                first piece.
            logprobs: See Framer.content().
        """
        cdef bytes head
        if delta is None:
            raise TypeError("delta is None")
        number, call_id, name, arguments = delta
        if call_id is None:
            head = b'"tool_calls":[{"index":%d,"function":{"arguments":"' % number
        else:
            head = (
                b'"tool_calls":[{"index":%d,"id":%b,"type":"function",'
                b'"function":{"name":%b,"arguments":"'
            ) % (number, json_string(call_id.encode()), json_string(name.encode()))
        return _wrap(self.head + head, arguments, b'"}}]},' + self._tail(logprobs))

    cpdef bytes finish(self, str reason, object matched_stop=None):
        """The last chunk: why the sample ended, and at which stop token or string."""
        return self.head + b"}," + self._end(reason, matched_stop)
