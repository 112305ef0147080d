# cython: boundscheck=False, wraparound=False, cdivision=True
"""The short way of a stream: from the engine's messages to the client's socket.

Strategy: nearly every message of a stream is a chunk of plain text. Those go from the
channel's buffer through reader, detokenizer and framer into the client's socket without
a line of Python. A sink takes a batch of messages whole or leaves all of it: whatever is
not plain (an end, a failure, a stop string found) is then read by the Python code that
shares the sink's parts, and so goes on where the sink has stopped.
"""

from sglrouter._fast.chunked cimport BodyWriter, monotonic
from sglrouter._fast.detok cimport Detokenizer
from sglrouter._fast.framer cimport Framer
from sglrouter._fast.operations cimport TO_CONTENT, TO_REASONING
from sglrouter._fast.parse cimport OutputParser
from sglrouter._fast.scan cimport StopMatcher
from sglrouter._fast.wire cimport GenerateReader


cdef class Sink:
    """Takes a call's messages before anybody is told of them."""

    cdef bint accept(self, list messages) except -1:
        """Takes all of `messages`, or none and returns False."""
        return False

    cdef bint is_ready(self) noexcept:
        """Whether what it took is on its way, so that more may come."""
        return True


cdef class TextSink(Sink):
    """Writes the text of one choice to its client.

    Args:
        reader, decoder, matcher: The parts of the choice's Sample.
        parser: Splits its text; None if all of it is content.
        framer: Makes events of its text.
        writer: Writes to the client; other choices may use it, too.
        on_trouble: Called when the client does not take what was written, or `failure`
            is set: somebody else must go on.

    Attributes:
        heard_at: When it last took messages, by time.monotonic().
        failure: What went wrong; after that nothing is taken.
    """

    cdef GenerateReader reader
    cdef Detokenizer decoder
    cdef StopMatcher matcher
    cdef OutputParser parser
    cdef Framer framer
    cdef BodyWriter writer
    cdef object on_trouble
    cdef readonly double heard_at
    cdef readonly object failure

    def __cinit__(
        self,
        GenerateReader reader not None,
        Detokenizer decoder not None,
        StopMatcher matcher,
        OutputParser parser,
        Framer framer not None,
        BodyWriter writer not None,
        on_trouble,
    ):
        self.reader = reader
        self.decoder = decoder
        self.matcher = matcher
        self.parser = parser
        self.framer = framer
        self.writer = writer
        self.on_trouble = on_trouble

    cdef bint accept(self, list messages) except -1:
        cdef bytes text
        cdef bytes events
        cdef list texts = None
        if self.failure is not None or self.writer.kept:
            return False
        if self.matcher is not None and self.matcher.matched is not None:
            return False
        if not self.reader.feed_chunks(messages):
            return False
        self.heard_at = monotonic()
        try:
            if self.parser is None or self.parser._settled or self.reader.count == 1:
                text = self.decoder.feed(self.reader)
                if self.matcher is not None:
                    text = self.matcher.feed(text)
            else:
                # Which of them is the last one of the reasoning may have to be known.
                texts = self.decoder.feed_each(self.reader)
                if self.matcher is not None:
                    texts = [self.matcher.feed(text) for text in texts]
                text = b"".join(texts)
            if text:
                events = self._events(text, texts)
                if events and not self.writer.write(events):
                    self.on_trouble()
            elif self.parser is not None and self.parser._in_reasoning():
                self.reader.reasoning_seen = self.reader.received
        except Exception as exc:
            self.failure = exc
            self.on_trouble()
        return True

    cdef bint is_ready(self) noexcept:
        return self.failure is None and not self.writer.kept

    cdef bytes _events(self, bytes text, list texts):
        """What new text comes to; maybe nothing yet.

        Args:
            text: The text.
            texts: What each token has of it; None if there is but one.
        """
        cdef int kind = TO_CONTENT
        cdef Py_ssize_t reasons
        if self.parser is not None:
            kind = self.parser.passes(text)
        if kind == TO_CONTENT:
            return self.framer.content(text)
        if kind == TO_REASONING:
            self.reader.reasoning_seen = self.reader.received
            return self.framer.reasoning(text)
        if self.parser._settled:
            self.parser.feed(text)
        else:
            if texts is None:
                texts = [text]
            reasons = self.parser.feed_tokens(texts)
            if reasons:
                self.reader.reasoning_seen = self.reader.received - len(texts) + reasons
        content, reasoning, calls = self.parser.take()
        return self.framer.delta(content, reasoning, calls)

    def feed(self, list messages not None):
        """Takes all of `messages`, or none and returns False."""
        return self.accept(messages)
