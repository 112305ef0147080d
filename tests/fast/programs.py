"""Runs small programs over text that is cut in every way."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from sglrouter._fast.operations import Operation
from sglrouter._fast.parse import OutputParser

Program = Generator[Operation, Any]


class Output:
    """What came of a text."""

    def __init__(self, program: Callable[[OutputParser, list[Any]], Program]) -> None:
        self.results: list[Any] = []
        self.content, self.reasoning, self.arguments = b"", b"", b""
        self.names: list[str] = []
        self.parser = OutputParser(
            lambda parser: program(parser, self.results), lambda name, number: f"{name}-{number}"
        )

    def _take(self) -> None:
        content, reasoning, deltas = self.parser.take()
        self.content += content
        self.reasoning += reasoning
        for _, _, name, arguments in deltas:
            self.names += [name] if name else []
            self.arguments += arguments

    def read(self, parts: Sequence[str]) -> tuple[Any, ...]:
        for part in parts:
            self.parser.feed(part.encode())
            self._take()
        self.parser.finish()
        self._take()
        return (
            self.content.decode(),
            self.reasoning.decode(),
            self.names,
            self.arguments.decode(),
            self.results,
        )


def run(program: Callable[[OutputParser, list[Any]], Program], text: str) -> tuple[Any, ...]:
    """Reads the text whole, by characters and cut in two at every point: all the same."""
    whole = Output(program).read([text])
    assert Output(program).read(list(text)) == whole
    for cut in range(1, len(text)):
        assert Output(program).read([text[:cut], text[cut:]]) == whole
    return whole
