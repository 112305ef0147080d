"""Whole answers that callbacks gather and write, step by step."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import gevent
import pytest

from sglrouter.engines.channel.channel import Status
from sglrouter.errors import ClientGone, RouterError
from sglrouter.http.whole import WholeDelivery
from sglrouter.output.chat import ChatCompletion
from sglrouter.output.choice import Choice
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.head import Head
from sglrouter.output.sample import Sample
from sglrouter.prompt.tokenizer import load_tokenizer
from sglrouter.serving.answer import Answer
from tests.engines.placed import exchange_of
from tests.http.test_event_stream import STOPPING, FakeCall, FakeClient, complete, no_failure
from tests.patience import LONG, PATIENCE


@pytest.fixture(scope="module")
def detokenizers(tiny_model: Path) -> DetokenizerFactory:
    return DetokenizerFactory(load_tokenizer(tiny_model))


class PlainClient(FakeClient):
    """A client that is written to by callbacks."""

    def __init__(self) -> None:
        super().__init__(has_greenlet=False)

    def send_whole(self, body: bytes) -> bool:
        return self.send(body, last=True)


class Asker:
    """Who has asked, and starts what may start, as a connection does."""

    def __init__(self) -> None:
        self.delivery: WholeDelivery
        self.told: list[str] = []
        self.error: Exception | None = None

    def opened(self) -> None:
        self.told.append("opened")
        self.delivery.start()

    def refused(self, error: Exception) -> None:
        self.told.append("refused")
        self.error = error

    def over(self, trouble: Exception | None) -> None:
        self.told.append("over")
        self.error = trouble


Begin = Callable[..., tuple[Asker, PlainClient]]


@pytest.fixture
def begin(detokenizers: DetokenizerFactory) -> Begin:
    """Begins the delivery of what a call will bring."""

    def begin(call: FakeCall, *, first: float = LONG) -> tuple[Asker, PlainClient]:
        choice = Choice(Sample(detokenizers))
        body = ChatCompletion(Head("id", 1, "m"), [choice], detokenizers.piece)
        answer = Answer([choice.sample], exchange_of(call, first=first, idle=LONG), body=body)
        client, asker = PlainClient(), Asker()
        asker.delivery = WholeDelivery(answer, client, no_failure)
        asker.delivery.begin(asker)
        return asker, client

    return begin


def test_the_answer_is_sent_when_its_message_comes(begin: Begin) -> None:
    call = FakeCall(calls_back=True)
    asker, client = begin(call)
    assert asker.told == []
    call.deliver(complete([40, 41], 2), status=Status("OK", ""))
    assert asker.told == ["opened", "over"]
    assert asker.error is None
    assert json.loads(client.body)["usage"]["completion_tokens"] == 2
    # Nobody knows of it any more.
    assert client.on_end is None
    assert call.cancelled == 0


def test_one_that_has_come_already_is_sent_at_once(begin: Begin) -> None:
    call = FakeCall(calls_back=True)
    call.deliver(complete([40], 1), status=Status("OK", ""))
    asker, client = begin(call)
    assert asker.told == ["opened", "over"]
    assert client.ended


def test_a_long_one_is_read_in_a_greenlet(begin: Begin) -> None:
    call = FakeCall(calls_back=True)
    asker, client = begin(call)
    call.deliver(complete([40] * 30_000, 30_000), status=Status("OK", ""))
    assert asker.told == []
    with gevent.Timeout(PATIENCE):
        while not asker.told:
            gevent.sleep(0)
    assert asker.told == ["opened", "over"]
    assert json.loads(client.body)["usage"]["completion_tokens"] == 30_000


def test_a_client_that_does_not_take_it_is_waited_for(begin: Begin) -> None:
    call = FakeCall(calls_back=True)
    asker, client = begin(call)
    client.takes = False
    call.deliver(complete([40], 1), status=Status("OK", ""))
    assert asker.told == ["opened"]
    gevent.sleep(0.01)
    assert asker.told == ["opened", "over"]
    assert client.waits == 1


@pytest.mark.parametrize(
    ("status", "code"), [("UNAVAILABLE", 503), ("INVALID_ARGUMENT", 400), ("OK", 502)]
)
def test_a_failure_is_the_answer(begin: Begin, status: str, code: int) -> None:
    call = FakeCall(calls_back=True)
    asker, client = begin(call)
    call.deliver(status=Status(status, "down"))
    assert asker.told == ["refused"]
    assert isinstance(asker.error, RouterError)
    assert asker.error.status == code
    assert client.body == b""
    assert client.on_end is None


def test_an_engine_that_does_not_answer_is_given_up(begin: Begin) -> None:
    call = FakeCall(calls_back=True)
    asker, _ = begin(call, first=0.05)
    with gevent.Timeout(PATIENCE):
        while not asker.told:
            gevent.sleep(0.01)
    assert asker.told == ["refused"]
    assert isinstance(asker.error, RouterError)
    assert asker.error.status == 504
    assert call.cancelled == 1


def test_a_client_that_leaves_ends_the_call(begin: Begin) -> None:
    call = FakeCall(calls_back=True)
    asker, client = begin(call)
    assert client.on_end is not None
    client.on_end(ClientGone())
    assert asker.told == ["over"]
    assert isinstance(asker.error, BrokenPipeError)
    assert call.cancelled == 1
    # What comes after that is nobody's.
    call.deliver(complete([40], 1), status=Status("OK", ""))
    assert client.body == b""


def test_a_server_that_stops_is_the_answer(begin: Begin) -> None:
    call = FakeCall(calls_back=True)
    asker, client = begin(call)
    assert client.on_end is not None
    client.on_end(STOPPING)
    assert asker.told == ["refused"]
    assert asker.error is STOPPING
    assert call.cancelled == 1


def test_one_that_is_given_up_says_nothing_more(begin: Begin) -> None:
    call = FakeCall(calls_back=True)
    asker, client = begin(call)
    asker.delivery.close()
    call.deliver(complete([40], 1), status=Status("OK", ""))
    assert (asker.told, client.body) == ([], b"")
    assert call.cancelled == 1
