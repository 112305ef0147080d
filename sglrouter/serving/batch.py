"""An answer that is made of many short calls: embeddings, scores, rankings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sglrouter.engines.exchange import Exchange
from sglrouter.errors import BadRequest, RouterError
from sglrouter.turns import taking_turns


class BatchAnswer:
    """The calls of one request under way; they begin when it is collected.

    Args:
        exchange: The calls.
        read: Takes the number of a call and its answer; may raise RouterError.
        body: Makes the body, once all have been read.
        pause: Called now and then where reading takes long, to let others go on.
        explain: Makes of an engine's failure what the client shall be told.
        ignored: The request's fields that nothing is done about.
    """

    def __init__(
        self,
        exchange: Exchange,
        read: Callable[[int, bytes], None],
        body: Callable[[], bytes],
        *,
        pause: Callable[[], object],
        explain: Callable[[RouterError], RouterError] = lambda error: error,
        ignored: Sequence[str] = (),
    ) -> None:
        self._exchange = exchange
        self._read = read
        self._body = body
        self._pause = pause
        self._explain = explain
        self.ignored = ignored

    def collect(self) -> bytes:
        """Makes the calls and waits for all of them; returns the body.

        Raises:
            RouterError: The engine failed, or the client is gone.
        """
        answers = self._exchange.answers()
        try:
            for number, message in taking_turns(answers, self._pause):
                self._read(number, message)
        except RouterError as error:
            self._exchange.fail(error)
            explained = self._explain(error)
            if explained is error:
                raise
            raise explained from error
        finally:
            answers.close()
            # It may not have begun.
            self._exchange.cancel()
        return self._body()

    def end_early(self, reason: RouterError) -> None:
        """Ends it: nothing goes on, and whoever collects it gets the reason."""
        self._exchange.end_early(reason)


def refuse_given(request: object, fields: Sequence[str], why: str) -> None:
    """Refuses fields that would change the answer, but that nothing can be done about.

    Raises:
        BadRequest: One of them asks for something.
    """
    for field in fields:
        value = getattr(request, field)
        if value is not None and value is not False:
            raise BadRequest(
                f"{field} cannot be served: {why}", code="unsupported_parameter", param=field
            )
