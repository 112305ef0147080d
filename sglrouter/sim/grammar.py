"""Whether a request's constraint compiles, and the engine's words when it does not.

A plausible check, not a grammar compiler: JSON must parse, a regular expression must be
one for Python, an EBNF grammar must have a root rule and closed brackets. Output is not
constrained.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sglrouter._proto import scheduler as pb

_RULE = re.compile(r"^\s*[A-Za-z_][\w.-]*\s*::=", re.MULTILINE)
_ROOT = re.compile(r"^\s*root\s*::=", re.MULTILINE)
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|\[(?:\\.|[^\]\\\n])*\]|#[^\n]*')


def grammar_error(params: pb.SamplingParams) -> str | None:
    """The engine's message for a constraint that does not compile."""
    match params.WhichOneof("constraint"):
        case "json_schema":
            return _json_error("json", params.json_schema)
        case "structural_tag":
            return _json_error("structural_tag", params.structural_tag)
        case "regex":
            return _regex_error(params.regex)
        case "ebnf_grammar":
            return _ebnf_error(params.ebnf_grammar)
    return None


def _json_error(kind: str, text: str) -> str | None:
    # "$$ANY$$" is the engine's own way to ask for any JSON.
    if kind == "json" and text == "$$ANY$$":
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"Failed to compile {kind} grammar: {error}"
    if not isinstance(value, (dict, bool)):
        return f"Failed to compile {kind} grammar: Schema should be an object or bool"
    return None


def _regex_error(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        if "unterminated subpattern" in error.msg:
            where, what = len(pattern) + 1, "The parenthesis is not closed."
        else:
            where, what = (error.pos or 0) + 1, f"{error.msg.capitalize()}."
        return (
            f"Failed to compile regex grammar: {_place('regex_converter.cc:83')}: "
            f"Regex parsing error at position {where}: {what}\n"
        )
    return None


def _ebnf_error(grammar: str) -> str | None:
    # A comment is nothing, a literal something that no rule or bracket is made of.
    bare = _QUOTED.sub(lambda match: (" " if match[0][0] == "#" else "?") * len(match[0]), grammar)
    if not _RULE.match(bare):
        return _ebnf_message(1, 1, "Expect rule name")
    if not _ROOT.search(bare):
        return _ebnf_message(1, 1, "The root rule with name `root` is not found")
    if bare.count("(") != bare.count(")") or '"' in bare or bare.rstrip().endswith("::="):
        lines = grammar.split("\n")
        return _ebnf_message(len(lines), len(lines[-1]) + 1, "Expect element, but got ")
    return None


def _ebnf_message(line: int, column: int, what: str) -> str:
    return (
        f"Failed to compile ebnf grammar: {_place('grammar_parser.cc:820')}: "
        f"EBNF parser error at line {line}, column {column}: {what}\n"
    )


def _place(source: str) -> str:
    return f"[{time.strftime('%H:%M:%S')}] /project/cpp/{source}"
