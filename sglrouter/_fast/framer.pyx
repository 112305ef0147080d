"""What an API is to the path of a token: how the pieces of one choice become events.

Strategy: the path knows text, reasoning, calls and an end. A framer makes an API's events
of them, and may keep state between them, such as an item that is open. The compiled path
and the Python one hand their pieces to the same method, which alone decides the order.
"""

# (number, id, name, arguments), with id and name None but for the first piece of a call.
CallDelta = tuple[int, str | None, str | None, bytes]


cdef class Framer:
    """The events of one choice; an API's framer extends it.

    Every method returns complete events in bytes, maybe none.
    """

    cpdef bytes content(self, bytes text, bytes logprobs=None):
        """A piece of the answer's text.

        Args:
            text: UTF-8, complete characters.
            logprobs: The log probabilities of its tokens, as JSON of the API; or None.
        """
        raise NotImplementedError

    cpdef bytes reasoning(self, bytes text, bytes logprobs=None):
        """A piece of reasoning; see content()."""
        raise NotImplementedError

    cpdef bytes call(self, tuple delta, bytes logprobs=None):
        """A piece of a tool call.

        Args:
            delta: (number, id, name, arguments), with id and name None but for the first
                piece of a call.
            logprobs: See content().
        """
        raise NotImplementedError

    cpdef bytes finish(self, str reason, object matched_stop=None):
        """The end of the choice.

        Args:
            reason: Why it ended, in OpenAI's words.
            matched_stop: The stop token or string that ended it, or None.
        """
        raise NotImplementedError

    cpdef bytes delta(self, bytes content, bytes reasoning, list calls, bytes logprobs=None):
        """All that is new at one time, in order: reasoning, text, calls.

        Args:
            content: See content(); may be empty.
            reasoning: See reasoning(); may be empty.
            calls: See call().
            logprobs: Those of all its tokens. They go with whatever comes first, or with an
                empty text, as their tokens may have come to nothing yet.
        """
        cdef bytes events = b""
        if reasoning:
            events = self.reasoning(reasoning, logprobs)
            logprobs = None
        if content or (logprobs is not None and not calls):
            events += self.content(content, logprobs)
            logprobs = None
        for call in calls:
            events += self.call(call, logprobs)
            logprobs = None
        return events
