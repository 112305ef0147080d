"""Answers that are rendered a few messages at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from sglrouter.engines.channel.channel import Status
from sglrouter.errors import EngineError
from sglrouter.serving.answer import Answer, _cut
from tests.engines.placed import exchange_of


class Sample:
    """Ends with the message b"end", for this reason; whatever follows is not for it."""

    failure = None

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.engine_goes_on = False


class Renderer:
    """Events that are the messages themselves."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self.fed: list[tuple[int, list[bytes]]] = []

    def feed(self, index: int, messages: Sequence[bytes]) -> bytes:
        assert self._samples[index].finish_reason is None, "fed after its end"
        self.fed.append((index, list(messages)))
        if b"end" in messages:
            self._samples[index].finish_reason = "stop"
        return b" ".join(messages) + b"\n"

    def end(self) -> bytes:
        return b"done\n"


class FullCall:
    """A call whose messages are there, and its end."""

    def __init__(self, *messages: bytes, code: str = "OK") -> None:
        self._messages = list(messages)
        self.status = Status(code, "")

    def take(self) -> list[bytes]:
        messages, self._messages = self._messages, []
        return messages

    def cancel(self) -> None:
        raise AssertionError("it has ended")


def answer_of(*calls: FullCall) -> tuple[Answer, Renderer]:
    samples = [Sample() for _ in calls]
    renderer = Renderer(samples)
    answer = Answer(cast(Any, samples), exchange_of(*calls), events=cast(Any, renderer))
    return answer, renderer


def test_messages_are_rendered_a_few_at_a_time() -> None:
    answer, renderer = answer_of(FullCall(b"1", b"2", b"3", b"4", b"end"), FullCall(b"a", b"end"))
    events = [answer.wait(most=2) for _ in range(4)]
    assert answer.ended
    assert [each for each, _ in events] == [b"1 2\n", b"3 4\n", b"end\na\n", b"end\ndone\n"]
    assert renderer.fed[2:] == [(0, [b"end"]), (1, [b"a"]), (1, [b"end"])]
    assert not any(error for _, error in events)


def test_without_a_bound_all_are() -> None:
    answer, _ = answer_of(FullCall(b"1", b"2", b"3", b"end"))
    assert answer.wait() == (b"1 2 3 end\ndone\n", None)


def test_a_bound_may_be_lifted_on_the_way() -> None:
    answer, _ = answer_of(FullCall(b"1", b"2", b"3", b"end"))
    assert answer.wait(most=1) == (b"1\n", None)
    assert answer.wait() == (b"2 3 end\ndone\n", None)


def test_what_follows_a_sample_s_end_is_nobody_s() -> None:
    answer, _ = answer_of(FullCall(b"1", b"end", b"more", b"and more"), FullCall(b"a", b"end"))
    assert [answer.wait(most=2)[0] for _ in range(2)] == [b"1 end\n", b"a end\ndone\n"]
    assert answer.ended


def test_a_failure_comes_after_what_arrived_before_it() -> None:
    answer, _ = answer_of(FullCall(b"1", b"2", b"3", code="INTERNAL"))
    assert answer.wait(most=2) == (b"1 2\n", None)
    assert answer.wait(most=2) == (b"3\n", None)
    events, error = answer.wait(most=2)
    assert events == b""
    assert isinstance(error, EngineError)


def test_news_are_cut_between_messages() -> None:
    news = [(0, [b"1", b"2"]), (1, []), (2, [b"a", b"b"])]
    assert _cut(news, None) == (news, [])
    assert _cut(news, 4) == (news, [])
    assert _cut(news, 3) == ([(0, [b"1", b"2"]), (1, []), (2, [b"a"])], [(2, [b"b"])])
    assert _cut(news, 2) == (news[:2], news[2:])
    assert _cut(news, 1) == ([(0, [b"1"])], [(0, [b"2"]), *news[1:]])
