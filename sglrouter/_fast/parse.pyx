# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads a model's output piece by piece: reasoning, content and tool calls.

Strategy: a format is a *program*, a generator that yields one operation after another
("pass text on up to this marker", "read a name", "pass a JSON value on") and reads like
a parser of the whole text. The operations run in compiled code (operations.pyx): each takes
what has arrived, keeps where it is, and wakes the program only when it is done. So a long
argument in one-byte pieces costs no Python at all, the time is linear in the text, and
what is held back is never more than could still be part of a marker.

The text's cutting cannot matter, because no operation looks at where a piece ends: it
holds back what it cannot decide yet. What has gone out is never taken back; a program
that is not sure yet marks where it stands, and either accepts what followed as markup
or rejects it, which makes it content.

The parts are modules of their own: text waits in an Inbox, operations (with a JsonValue
for values) move it on, and what has become certain collects in an Answer.
"""

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from sglrouter._fast.answer cimport Answer
from sglrouter._fast.inbox cimport MORE, Inbox
from sglrouter._fast.json_value cimport JsonValue
from sglrouter._fast.operations cimport TO_CONTENT, TO_REASONING, Pass

cdef enum:
    # A program at the end of the text is given that end by every operation, and returns.
    MOST_STEPS_AFTER_END = 1000


@final
cdef class OutputParser:
    """Runs a program over text that arrives in pieces.

    Args:
        program: Called with this parser; returns the generator.
        new_id: Makes the id of a call from its name and number.
        accepts: Says whether calls of a function are passed on; the others are dropped.

    Attributes:
        called: How many calls have begun.
        completed: How many of them are complete.
        ended: Whether the text is over.
        marker: What the last loose Pass has stopped at.
        settled: Whether no more of the text can be reasoning.
    """

    def __cinit__(self, program, new_id, accepts=None):
        self.inbox = Inbox()
        self.answer = Answer(new_id, accepts)
        self.value = JsonValue(self.inbox, self.answer)
        self.program = program(self)
        self._advance(None)

    @property
    def called(self):
        return self.answer.called

    @property
    def completed(self):
        return self.answer.completed

    @property
    def ended(self):
        return self.inbox.ended

    @property
    def settled(self):
        return self._settled

    @property
    def marker(self):
        return self.inbox.marker

    # What the owner calls.

    cpdef int feed(self, bytes text) except -1:
        """Takes more text, whole characters of UTF-8."""
        if text is None:
            raise TypeError("text is None")
        self.inbox.feed(text)
        return self._run()

    cpdef int finish(self) except -1:
        """Says that the text is over; what was held back is decided now.

        Returns whether it has ended in reasoning.
        """
        cdef bint reasons = self._in_reasoning()
        cdef Py_ssize_t before = self.answer.reasoning.size
        if self.inbox.ended:
            return 0
        self.inbox.ended = True
        self._run()
        self.answer.finish()
        self.program.close()
        return reasons or self.answer.reasoning.size > before

    def close(self):
        """Ends it without a last word: what it holds and what holds it are let go."""
        self.operation = None
        self.program.close()

    cdef bint feed_token(self, bytes text) except -1:
        """Takes the text of one more token; returns whether any of it is reasoning.

        The marker that ends the reasoning counts as such.
        """
        cdef bint reasons = self._in_reasoning()
        cdef Py_ssize_t before = self.answer.reasoning.size
        self.feed(text)
        return reasons or self._in_reasoning() or self.answer.reasoning.size > before

    cpdef Py_ssize_t feed_tokens(self, list texts) except -1:
        """Takes more text, that of each of several tokens.

        Returns:
            How many tokens there are up to the last one of reasoning.
        """
        cdef Py_ssize_t i
        cdef Py_ssize_t last = 0
        for i in range(len(texts)):
            if self.feed_token(<bytes?>texts[i]):
                last = i + 1
        return last

    def take(self):
        """Returns (content, reasoning, call deltas) since the last take.

        Content and reasoning are bytes, the deltas (number, id, name, arguments), with
        id and name None but for the first of a call.
        """
        return self.answer.take()

    @property
    def in_reasoning(self):
        """Whether what comes next is reasoning."""
        return self._in_reasoning()

    cdef bint _in_reasoning(self) noexcept:
        return type(self.operation) is Pass and (<Pass>self.operation).to == TO_REASONING

    cdef int passes(self, bytes text) noexcept:
        """Whether all of `text` would simply be passed on now: TO_CONTENT, TO_REASONING or -1.

        Then the owner may do so itself, and need not feed it.
        """
        cdef Pass operation
        cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
        if self.inbox.size > self.inbox.at or type(self.operation) is not Pass:
            return -1
        operation = <Pass>self.operation
        if operation.to > TO_REASONING or operation.recorded:
            return -1
        if operation.to == TO_CONTENT and self.answer.holding_space:
            return -1
        if operation.markers.next_start(<const uint8_t*>PyBytes_AS_STRING(text), size) < size:
            return -1
        return operation.to

    # What programs call.

    def begin_call(self, str name not None):
        """Begins a call; arguments that came before the name go with it."""
        self.answer.begin_call(name)
        self.inbox.forget()

    def argue(self, bytes json not None):
        """Adds to the arguments of the call."""
        self.answer.argue_bytes(json)

    def skip(self, bint on):
        """Says whether what is added to the arguments from here on is dropped.

        Returns whether it was so far.
        """
        was = self.answer.skipping
        self.answer.skipping = on
        return was

    def end_call(self):
        """Completes the call; one without arguments gets an empty object."""
        self.answer.end_call()

    def leave_call(self):
        """Leaves the call as it is: what was to be its arguments is something else."""
        self.answer.leave_call()

    def mark(self, bytes seen not None=b""):
        """From here on, what is consumed may turn out to be content; so may `seen`."""
        self.inbox.mark(seen)
        self.answer.forget_early()

    def accept(self):
        """What was consumed since mark() is markup."""
        self.inbox.forget()
        self.answer.hold_space()

    def reject(self):
        """What was consumed since mark() is content."""
        self.say(self.inbox.take_record())
        self.answer.forget_early()

    def rewind(self):
        """What was consumed since mark() is read again."""
        self.inbox.push(self.inbox.take_record())
        self.answer.forget_early()

    def say(self, bytes text not None):
        """Passes text on as content."""
        self.answer.pass_content(<const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))

    def reason(self):
        """What was consumed since mark() is reasoning; reject() makes it content as well."""
        cdef bytes text = self.inbox.record.data[: self.inbox.record.size]
        self.answer.reasoning.add(<const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))

    def settle(self):
        """Says that no more of the text can be reasoning."""
        self._settled = True

    def push(self, bytes text not None):
        """Puts text before what comes next: it stands for text that was consumed already."""
        self.inbox.push(text)

    def close_value(self):
        """Closes what a value that could not go on has left open.

        Returns whether there is anything of a value.
        """
        return self.value.close()

    # The program.

    cdef int _run(self) except -1:
        """Runs operations until one needs more text."""
        while self.operation is not None:
            result = self.operation.run(self.inbox, self.answer, self.value)
            if result is MORE:
                return 0
            self._advance(result)
        # The program is over: what follows is content.
        self.answer.pass_content(self.inbox.data + self.inbox.at, self.inbox.size - self.inbox.at)
        self.inbox.at = self.inbox.size
        return 0

    cdef int _advance(self, result) except -1:
        """Lets the program go on to its next operation."""
        if self.inbox.ended:
            self.steps_after_end += 1
            if self.steps_after_end > MOST_STEPS_AFTER_END:
                raise RuntimeError("a program does not stop at the end of the text")
        try:
            self.operation = self.program.send(result)
        except StopIteration:
            self.operation = None
        self.inbox.progress = 0
        self.inbox.depth = 0
        self.inbox.previous = 0x0A
        return 0
