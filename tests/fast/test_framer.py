"""The port of an API to the path of a token: order, and framers that are not ours."""

from __future__ import annotations

from itertools import product

import pytest

from sglrouter._fast.framer import CallDelta, Framer

FIRST: CallDelta = (0, "call_1", "f", b"{")
REST: CallDelta = (0, None, None, b"}")


class Written(Framer):
    """A framer that writes down what it is given."""

    def content(self, text: bytes, logprobs: bytes | None = None) -> bytes:
        return b"C(%b)%b " % (text, logprobs or b"")

    def reasoning(self, text: bytes, logprobs: bytes | None = None) -> bytes:
        return b"R(%b)%b " % (text, logprobs or b"")

    def call(self, delta: CallDelta, logprobs: bytes | None = None) -> bytes:
        return b"T(%b)%b " % (delta[3], logprobs or b"")


@pytest.mark.parametrize(
    ("content", "reasoning", "calls"), list(product([b"", b"c"], [b"", b"r"], [[], [FIRST, REST]]))
)
def test_a_delta_has_one_order_and_its_logprobs_once(
    content: bytes, reasoning: bytes, calls: list[CallDelta]
) -> None:
    parts = [b"R(r)"] * bool(reasoning) + [b"C(c)"] * bool(content)
    parts += [b"T(%b)" % call[3] for call in calls]
    plain = b"".join(part + b" " for part in parts)
    assert Written().delta(content, reasoning, calls) == plain
    # Tokens that have come to nothing yet go with an empty text.
    first, *others = parts or [b"C()"]
    scored = first + b"[] " + b"".join(part + b" " for part in others)
    assert Written().delta(content, reasoning, calls, b"[]") == scored


def test_the_port_itself_writes_nothing() -> None:
    port = Framer()
    assert port.delta(b"", b"", []) == b""
    with pytest.raises(NotImplementedError):
        port.content(b"a")
    with pytest.raises(NotImplementedError):
        port.reasoning(b"a")
    with pytest.raises(NotImplementedError):
        port.call(FIRST)
    with pytest.raises(NotImplementedError):
        port.finish("stop")
