"""A whole answer for a request without a greenlet: gathered and written by callbacks.

Strategy: messages are read in the callback that brings them; usually there is one, with all
of the answer. Where that would take long, it is done in a greenlet, which lets others go on
meanwhile.
"""

from __future__ import annotations

import errno
from time import monotonic

import gevent

from sglrouter.engines.exchange import News
from sglrouter.errors import ClientGone, RouterError
from sglrouter.http.client import Failure, PlainClient, Recipient
from sglrouter.serving.answer import Answer

# Bytes of messages whose answer is made in a fraction of a millisecond.
_QUICK = 16 * 1024


class WholeDelivery:
    """One answer as one body.

    Args:
        answer: The answer, just started.
        client: Who it is for.
        failure: Makes the response to an error.

    Attributes:
        failure: As given; see Delivery.
        due: When the clock is to look at it.
    """

    def __init__(self, answer: Answer, client: PlainClient, failure: Failure) -> None:
        self._answer = answer
        self._exchange = answer.exchange
        self._client = client
        self.failure: Failure | None = failure
        self._recipient: Recipient | None = None
        self._busy = False
        self._body = b""
        self.due = 0.0

    def begin(self, recipient: Recipient) -> None:
        """Waits for the answer, in callbacks."""
        self._recipient = recipient
        self._client.watch(self._on_end)
        self._exchange.listen(self._on_news)
        self._client.clock.watch(self)
        self._look_at_deadlines()
        # What has come by now was told to nobody.
        self._on_news()

    def start(self) -> None:
        """Sends the body."""
        try:
            taken = self._client.send_whole(self._body)
        except OSError as exc:
            self._finish(exc)
            return
        if taken:
            self._finish(None)
        else:
            self._client.when_taken(self._finish)

    def on_time(self, _now: float) -> None:
        """The clock: a deadline is over."""
        self._look_at_deadlines()

    def _look_at_deadlines(self) -> None:
        if not self._exchange.running:
            self._client.clock.forget(self)
            return
        try:
            self.due = monotonic() + self._exchange.time_left()
        except RouterError as error:
            self._refuse(error)

    def _on_end(self, reason: RouterError) -> None:
        """The client has closed its connection, or the server stops."""
        self._exchange.end_early(reason)
        if isinstance(reason, ClientGone):
            self._finish(BrokenPipeError(errno.EPIPE, reason.message))
        else:
            self._on_news()

    def _on_news(self) -> None:
        """Something has arrived from the engine."""
        while not self._busy and self._exchange.running:
            try:
                news = self._exchange.take()
            except RouterError as error:
                self._refuse(error)
                return
            if not news:
                return
            self._busy = True
            if sum(len(message) for _, messages in news for message in messages) <= _QUICK:
                self._read(news)
            else:
                gevent.spawn(self._read, news)

    def _read(self, news: News) -> None:
        """Reads messages; after the last of them the body is there."""
        try:
            self._answer.gather(news)
            if not self._exchange.running:
                self._body = self._answer.body()
        except Exception as exc:
            self._refuse(exc)
            return
        self._busy = False
        recipient = self._recipient
        if recipient is None:
            return
        if self._exchange.running:
            if gevent.getcurrent() is not gevent.get_hub():
                # A callback goes on by itself.
                self._on_news()
        else:
            recipient.opened()

    def _refuse(self, error: Exception) -> None:
        recipient = self._recipient
        if isinstance(error, RouterError):
            error = self._answer.blamed(error)
            self._exchange.fail(error)
        self.close()
        if recipient is not None:
            recipient.refused(error)

    def _finish(self, trouble: Exception | None) -> None:
        recipient = self._recipient
        self.close()
        if recipient is not None:
            recipient.over(trouble)

    def close(self) -> None:
        """See Delivery."""
        self._recipient = None
        self._client.clock.forget(self)
        self._exchange.listen(None)
        self._answer.close()
        self._client.unwatch()
