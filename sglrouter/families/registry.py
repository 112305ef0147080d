"""All families, by the names of SGLang's and of smg's parsers.

Every module beside this one declares its FAMILIES and is found by being there. Names are
unique: a second family of one name stops the start.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple, TypeVar

from sglrouter import families as package
from sglrouter.errors import ConfigError
from sglrouter.families.detection import Signature, detect
from sglrouter.families.family import Family
from sglrouter.families.formats.program import Format
from sglrouter.families.formats.reasoning import ReasoningFormat

T = TypeVar("T")

# The name that leaves the choice to the model's own files.
AUTO = "auto"

# The modules that are no family's.
_MACHINERY = frozenset(("detection", "family", "formats", "reading", "registry"))


class ModelFormats(NamedTuple):
    """How one model writes.

    Attributes:
        tool_parser, reasoning_parser: The parsers' names; empty for none.
        family: Whose tool calls it writes; None if it does not, or that is not known.
        reasoning: How it writes its reasoning, likewise.
    """

    tool_parser: str = ""
    reasoning_parser: str = ""
    family: Family | None = None
    reasoning: ReasoningFormat | None = None

    @property
    def calls(self) -> Format | None:
        """How it writes tool calls."""
        return None if self.family is None else self.family.calls


class Registry:
    """Families by their names.

    Attributes:
        families: All of them.
        writers: Those that write calls, by the names of their parsers.
        tool_formats, reasoning_formats: The formats, by the names of the parsers.
        call_signatures, reasoning_signatures: In the order in which they are tried, each with
            the name of the parser that it tells.

    Args:
        families: In the order in which signatures of the same rank are tried.

    Raises:
        ValueError: Two of them have one name.
    """

    def __init__(self, families: Iterable[Family]) -> None:
        self.families = tuple(families)
        self.writers: dict[str, Family] = {}
        self.tool_formats: dict[str, Format] = {}
        self.reasoning_formats: dict[str, ReasoningFormat] = {}
        owners: dict[str, Family] = {}
        for family in self.families:
            for name in (*family.names, *family.reasoning_names):
                if owners.setdefault(name, family) is not family:
                    raise ValueError(f"two families are called {name!r}")
            if family.calls is not None:
                self.writers |= dict.fromkeys(family.names, family)
                self.tool_formats |= dict.fromkeys(family.names, family.calls)
            if family.reasoning is not None:
                names = family.reasoning_parsers
                self.reasoning_formats |= dict.fromkeys(names, family.reasoning)
        self.call_signatures = _by_rank(
            (signature, family.names[0])
            for family in self.families
            for signature in family.call_signatures
        )
        self.reasoning_signatures = _by_rank(
            (signature, family.reasoning_parsers[0])
            for family in self.families
            for signature in family.reasoning_signatures
        )

    def choose(
        self, tool_parser: str, reasoning_parser: str, template: str, vocabulary: Container[str]
    ) -> ModelFormats:
        """Chooses a model's formats.

        Args:
            tool_parser: A name; empty for none, "auto" to be told by the model itself.
            reasoning_parser: Likewise.
            template: Its chat templates.
            vocabulary: The texts of its tokens.

        Raises:
            ConfigError: There is no parser of that name.
        """
        if tool_parser == AUTO:
            tool_parser = self.detect_tool_parser(template, vocabulary) or ""
        if reasoning_parser == AUTO:
            reasoning_parser = self.detect_reasoning_parser(template, vocabulary) or ""
        if not tool_parser and reasoning_parser in self.tool_formats:
            # It is read by the same program as the calls.
            tool_parser = reasoning_parser
        return ModelFormats(
            tool_parser,
            reasoning_parser,
            self.family(tool_parser),
            self.reasoning_format(reasoning_parser),
        )

    def detect_tool_parser(self, template: str, vocabulary: Container[str]) -> str | None:
        """The parser of a model's tool calls; None if nothing tells, or it has no calls.

        Args:
            template: Its chat template; "" if it has none.
            vocabulary: The texts of its tokens.
        """
        return detect(self.call_signatures, template, vocabulary)

    def detect_reasoning_parser(self, template: str, vocabulary: Container[str]) -> str | None:
        """The parser of a model's reasoning; None if nothing tells, or it does not reason.

        Args:
            template: Its chat template; "" if it has none.
            vocabulary: The texts of its tokens.
        """
        return detect(self.reasoning_signatures, template, vocabulary)

    def family(self, name: str) -> Family | None:
        """The family whose calls a --tool-call-parser reads; None for an empty name.

        Raises:
            ConfigError: There is no such parser.
        """
        return _named("tool_call_parser", name, self.writers)

    def tool_format(self, name: str) -> Format | None:
        """The format that a --tool-call-parser reads, as family()."""
        return _named("tool_call_parser", name, self.tool_formats)

    def reasoning_format(self, name: str) -> ReasoningFormat | None:
        """The format of a --reasoning-parser; None for an empty name.

        None, too, for one whose calls and reasoning are one format.

        Raises:
            ConfigError: There is no such format.
        """
        calls = self.tool_formats.get(name)
        if name not in self.reasoning_formats and calls is not None and calls.every_answer:
            return None
        return _named("reasoning_parser", name, self.reasoning_formats)


def _by_rank(signatures: Iterable[tuple[Signature, str]]) -> list[tuple[Signature, str]]:
    return sorted(signatures, key=lambda entry: entry[0].rank)


def _named(setting: str, name: str, known: Mapping[str, T]) -> T | None:
    if not name or name == "passthrough":
        return None
    for spelling in (name, name.lower(), name.lower().replace("-", "_")):
        if spelling in known:
            return known[spelling]
    close = get_close_matches(name.lower(), known, n=3)
    names = ", ".join(close or sorted(known))
    hint = f"did you mean {names}?" if close else f"there are {names}"
    raise ConfigError(f"{setting}: there is no parser {name!r}; {hint}")


def _declared() -> Iterator[Family]:
    """The families of all modules in this folder, in the order of the modules' names."""
    names = sorted(module.name for module in iter_modules(package.__path__))
    for name in names:
        if name not in _MACHINERY:
            yield from import_module(f"{package.__name__}.{name}").FAMILIES


KNOWN = Registry(_declared())

TOOL_FORMATS = KNOWN.tool_formats
REASONING_FORMATS = KNOWN.reasoning_formats

choose_formats = KNOWN.choose
tool_format = KNOWN.tool_format
