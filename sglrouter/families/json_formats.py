"""The families that write calls as JSON, and what each puts around them."""

from __future__ import annotations

import secrets
import string

from sglrouter._fast.operations import REASONING, Match, Pass, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.json_calls import Calls, call, calls, drop_strays, keyed_object
from sglrouter.families.marked_calls import Bare, marked
from sglrouter.families.program import PEEK, PYTHON, Format, Outcome, Program, Tools

_CALL, _CALL_END = b"<tool_call>", b"</tool_call>"
_THINK, _THINK_END = b"<think>", b"</think>"

HERMES = marked((_CALL,), (_CALL_END,))

# Calls are among the thoughts, too, so there is no telling these from the answer.
TRINITY = marked((_CALL,), (_CALL_END,), noise=(_THINK, _THINK_END))

PLAIN_JSON = marked(bare=Bare.ANYWHERE)

LLAMA3 = marked((b"<|python_tag|>",), bare=Bare.AT_START, ends=(b"<|eom_id|>", b"<|eot_id|>"))

INTERNLM = marked(
    (b"<|action_start|> <|plugin|>", b"<|action_start|><|plugin|>"), (b"<|action_end|>",)
)

COHERE = marked(
    (b"<|START_ACTION|>",),
    (b"<|END_ACTION|>",),
    noise=(
        b"<|START_RESPONSE|>",
        b"<|END_RESPONSE|>",
        b"<|START_TEXT|>",
        b"<|END_TEXT|>",
    ),
    ends=(b"<|END_OF_TURN_TOKEN|>",),
)

GRANITE3 = marked((b"<|tool_call|>", _CALL), (b"<|/tool_call|>", _CALL_END))

GRANITE_20B = marked((b"<function_call>",), (b"</function_call>",))

PHI4_MINI = marked((b"functools[", b"<|tool_call|>"), (b"<|/tool_call|>",))

JAMBA = marked((b"<tool_calls>",), (b"</tool_calls>",))

NEMOTRON = marked((b"<TOOLCALL>",), (b"</TOOLCALL>",))

GIGACHAT3 = marked(
    (b"function call<|role_sep|>", b"<|function_call|>"), ends=(b"<|message_sep|>", b"</s>")
)


def _apertus_calls(parser: OutputParser, tools: Tools | None) -> Calls:
    return calls(parser, tools, read=keyed_object)


APERTUS = marked((b"<|tools_prefix|>",), (b"<|tools_suffix|>",), body=_apertus_calls)


def _python_calls(parser: OutputParser, tools: Tools | None) -> Calls:
    return calls(parser, tools, PYTHON)


SARASHINA = marked(
    (b"<|tool_calls|>",), (b"<|/tool_calls|>",), body=_python_calls, bare=Bare.AT_START
)

# Mistral: a JSON array, or since the eleventh tokenizer NAME[CALL_ID]ID[ARGS]{...}, with or
# without the two markers, once for each call.

_MISTRAL_CALLS, _CALL_ID, _ARGS = b"[TOOL_CALLS]", b"[CALL_ID]", b"[ARGS]"
_MISTRAL_NAME = Read((_ARGS, b"{", _CALL_ID, _MISTRAL_CALLS), limit=256, peek=True)
_MISTRAL_ID = Read((_ARGS, b"{", _MISTRAL_CALLS), limit=256, peek=True)
_AT_ID, _AT_NEXT_CALL = 2, 3
_SKIP_ID, _SKIP_ARGS = Match((_CALL_ID,)), Match((_ARGS,))


def _mistral_calls(parser: OutputParser, tools: Tools | None) -> Calls:
    if (yield PEEK) in (b"[", b"{"):
        return (yield from calls(parser, tools))
    header = yield _MISTRAL_NAME
    name = header[0].decode().strip() if header is not None else ""
    if not name or header[1] == _AT_NEXT_CALL or len(name.split()) > 1:
        return Outcome.CUT if parser.ended else Outcome.BROKEN, False
    if header[1] == _AT_ID:
        yield _SKIP_ID
        if (yield _MISTRAL_ID) is None:
            return Outcome.CUT if parser.ended else Outcome.BROKEN, False
    yield _SKIP_ARGS
    outcome = yield from call(parser, name)
    if outcome is Outcome.DONE:
        yield from drop_strays(parser)
    return outcome, True


_ALPHANUMERIC = string.ascii_letters + string.digits


def _mistral_id(_name: str, _number: int) -> str:
    """Nine letters and digits: Mistral's templates refuse all else in the history."""
    return "".join(secrets.choice(_ALPHANUMERIC) for _ in range(9))


MISTRAL = marked(
    (_MISTRAL_CALLS,),
    (b"[/TOOL_CALLS]",),
    body=_mistral_calls,
    ends=(b"</s>",),
    call_id=_mistral_id,
).showing(_CALL_ID, _ARGS)

# xLAM: bare, in a code fence, or after a marker of another family; thoughts may come first.

_XLAM_CALLS = marked((_MISTRAL_CALLS, _CALL), (_CALL_END,), bare=Bare.ANYWHERE)
_THOUGHTS = Match((_THINK,), skip_space=True)
_TO_THOUGHTS_END = Pass(REASONING, (_THINK_END,))


def _xlam(parser: OutputParser, tools: Tools) -> Program:
    parser.mark()
    if (yield _THOUGHTS) >= 0:
        parser.accept()
        yield _TO_THOUGHTS_END
    else:
        parser.reject()
    yield from _XLAM_CALLS.program(parser, tools)


XLAM = Format(_xlam, (*_XLAM_CALLS.markers, _THINK.decode(), _THINK_END.decode()), reasons=True)

FORMATS = {
    "hermes": HERMES,
    "qwen": HERMES,
    "qwen25": HERMES,
    "trinity": TRINITY,
    "json": PLAIN_JSON,
    "llama": LLAMA3,
    "llama3": LLAMA3,
    "mistral": MISTRAL,
    "interns1": INTERNLM,
    "internlm": INTERNLM,
    "cohere": COHERE,
    "cohere_command4": COHERE,
    "granite3": GRANITE3,
    "granite_20b_fc": GRANITE_20B,
    "phi4_mini": PHI4_MINI,
    "xlam": XLAM,
    "jamba": JAMBA,
    "nemotron_json": NEMOTRON,
    "apertus2509": APERTUS,
    "apertus": APERTUS,
    "gigachat3": GIGACHAT3,
    "sarashina": SARASHINA,
}
