"""Other forms of a conversation, for templates that refuse or lose something of the first.

Strategy: templates differ in what they take for granted: arguments as text, no content
beside calls, one call a turn, one system message. Each form changes one such thing, and
leaves alone what has it already. Forms add up; they are applied in the order of `FORMS`
whichever are chosen, so that one finds what another has made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from operator import is_
from typing import Any, NamedTuple

from sglrouter.prompt.messages import Message
from sglrouter.prompt.past_calls import text_of_arguments
from sglrouter.prompt.results import pair

Tools = Sequence[Mapping[str, Any]] | None
Conversation = tuple[Sequence[Message], Tools]

_INSTRUCTIONS = ("system", "developer")
# Deeper schemas stay as they are.
_SCHEMA_DEPTH = 40
_THOUGHTS = ("reasoning_content", "thinking", "reasoning", "thought")


class Form(NamedTuple):
    """One thing that templates want otherwise.

    `change` returns the conversation in this form; the very same objects where there
    is nothing to change. A form that is the `last_resort` shows less than the first, or
    shows it as what it is not: it is for conversations that are refused without it. One that
    is to be `probed` is used only where probes have seen that it shows what it changes: a
    template that refuses text may write parts as Python writes lists.
    """

    name: str
    change: Callable[[Sequence[Message], Tools], Conversation]
    last_resort: bool = False
    probed: bool = False


def in_forms(forms: Iterable[Form], messages: Sequence[Message], tools: Tools) -> Conversation:
    """Applies forms, one after another."""
    for form in forms:
        messages, tools = form.change(messages, tools)
    return messages, tools


def other_forms(
    chosen: Sequence[Form],
    messages: Sequence[Message],
    tools: Tools,
    *,
    knows_thinking: bool = False,
    probing: bool = False,
) -> Iterator[tuple[Form, ...]]:
    """Yields what else to try, forms that are last resorts last.

    Forms that change nothing of the conversation are left out.

    Args:
        chosen: The forms that did not do.
        messages: Normalised messages.
        tools: The client's tools, or None.
        knows_thinking: Whether parts of type thinking may be among the content.
        probing: Whether it is seen what each shows; then two are tried together, too.
    """
    now = in_forms(chosen, messages, tools)
    more = [
        form
        for form in FORMS
        if form not in chosen
        and (knows_thinking or form is not _THINKING_PART)
        and (probing or not form.probed)
        # Before or after those that were chosen.
        and (_changes(form, messages, tools) or _changes(form, *now))
    ]
    extras = [extra for count in (1, 2)[: 1 + probing] for extra in combinations(more, count)]
    last_resorts = tuple(form for form in more if form.last_resort)
    if len(last_resorts) > 1:
        extras.append(last_resorts)
    # Stable: all that shows the conversation as it is comes first.
    extras.sort(key=has_last_resort)
    for extra in extras:
        yield tuple(form for form in FORMS if form in chosen or form in extra)


def _changes(form: Form, messages: Sequence[Message], tools: Tools) -> bool:
    new_messages, new_tools = form.change(messages, tools)
    return new_messages is not messages or new_tools is not tools


def has_last_resort(forms: Iterable[Form]) -> bool:
    """Whether a form among these is for conversations that are refused without it."""
    return any(form.last_resort for form in forms)


def _bare_tools(messages: Sequence[Message], tools: Tools) -> Conversation:
    """The functions without OpenAI's wrapping, as old templates want them."""
    functions = [tool.get("function") for tool in tools or ()]
    bare = [function for function in functions if isinstance(function, Mapping)]
    return messages, bare or tools


def _filled_tools(messages: Sequence[Message], tools: Tools) -> Conversation:
    """An empty description where there is none: templates add text to it."""
    filled = [_filled_tool(tool) for tool in tools or ()]
    same = all(new is old for new, old in zip(filled, tools or (), strict=True))
    return messages, tools if same else filled


def _filled_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool.get("function", tool)
    if not isinstance(function, Mapping):
        return tool
    filled = dict(function)
    if filled.get("description") is None:
        filled["description"] = ""
    if not isinstance(filled.get("parameters"), Mapping):
        filled["parameters"] = {"type": "object", "properties": {}}
    if filled == function:
        return tool
    return {**tool, "function": filled} if "function" in tool else filled


def _plain_tools(messages: Sequence[Message], tools: Tools) -> Conversation:
    """Schemas without null, lists of types and booleans, which templates add to text."""
    plain = [_plain_schema(tool, _SCHEMA_DEPTH) for tool in tools or ()]
    same = all(new is old for new, old in zip(plain, tools or (), strict=True))
    return messages, tools if same else plain


def _plain_schema(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping) and depth:
        plain: dict[str, Any] = {}
        for key, item in value.items():
            if item is None or (key == "type" and item == "null"):
                continue
            if key == "type" and isinstance(item, list):
                item = next((kind for kind in item if kind != "null"), "string")
            elif key == "properties" and isinstance(item, Mapping) and True in item.values():
                item = {name: {} if of is True else of for name, of in item.items()}
            plain[key] = _plain_schema(item, depth - 1)
        same = len(plain) == len(value) and all(plain[key] is value[key] for key in plain)
        return value if same else plain
    if isinstance(value, list) and depth:
        items = [_plain_schema(item, depth - 1) for item in value if item is not None]
        same = len(items) == len(value) and all(map(is_, items, value))
        return value if same else items
    return value


def _merged_instructions(messages: Sequence[Message], tools: Tools) -> Conversation:
    """All instructions in one leading message.

    A later one loses its place, but not its words. As the user's message it would keep
    the place, and lose its authority.
    """
    if all(message["role"] not in _INSTRUCTIONS for message in messages[1:]):
        return messages, tools
    instructions = [message for message in messages if message["role"] in _INSTRUCTIONS]
    others = [message for message in messages if message["role"] not in _INSTRUCTIONS]
    first = messages[0] if messages[0] is instructions[0] else {"role": "system"}
    text = "\n\n".join(filter(None, (_text(message["content"]) for message in instructions)))
    return [{**first, "content": text}, *others], tools


def _instructions_to_user(messages: Sequence[Message], tools: Tools) -> Conversation:
    """Instructions at the head of the user's first message, for models that know no others."""
    merged, _ = _merged_instructions(messages, tools)
    if merged[0]["role"] not in _INSTRUCTIONS:
        return messages, tools
    for i, message in enumerate(merged):
        if message["role"] == "user":
            texts = _text(merged[0]["content"]), _text(message["content"])
            user = {**message, "content": "\n\n".join(filter(None, texts))}
            return [*merged[1:i], user, *merged[i + 1 :]], tools
    return messages, tools


def _results_to_user(messages: Sequence[Message], tools: Tools) -> Conversation:
    """Results as the user's messages, one for those that follow each other."""
    if all(message["role"] != "tool" for message in messages):
        return messages, tools
    out: list[Message] = []
    results: list[str] = []
    for message in [*messages, None]:
        if message is not None and message["role"] == "tool":
            results.append(_text(message["content"]))
            continue
        if results:
            if message is not None and message["role"] == "user":
                text = "\n".join([*results, _text(message["content"])])
                message = {**message, "content": text}
            else:
                out.append({"role": "user", "content": "\n".join(results)})
            results = []
        if message is not None:
            out.append(message)
    return out, tools


def _single_calls(messages: Sequence[Message], tools: Tools) -> Conversation:
    """Calls of one turn as turns of one call, each with its result."""
    if all(len(message.get("tool_calls", ())) < 2 for message in messages):
        return messages, tools
    single: list[Message] = []
    i = 0
    while i < len(messages):
        message = messages[i]
        i += 1
        calls = message.get("tool_calls", ())
        if len(calls) < 2:
            single.append(message)
            continue
        start = i
        while i < len(messages) and messages[i]["role"] == "tool":
            i += 1
        results = messages[start:i]
        pairs = pair(calls, results)
        for k, call in enumerate(calls):
            # Thoughts and content come before the first call.
            turn = message if k == 0 else {"role": message["role"], "content": ""}
            single.append({**turn, "tool_calls": [call]})
            single += [result for j, result in zip(pairs, results, strict=True) if j == k]
        single += [result for j, result in zip(pairs, results, strict=True) if j is None]
    return single, tools


def _each(
    change: Callable[[Message], list[Message] | None],
) -> Callable[[Sequence[Message], Tools], Conversation]:
    """A form that looks at one message at a time; None where one stays as it is."""

    def changed(messages: Sequence[Message], tools: Tools) -> Conversation:
        out: list[Message] = []
        same = True
        for message in messages:
            new = change(message)
            if new is None:
                out.append(message)
            else:
                out += new
                same = False
        return messages if same else out, tools

    return changed


def _thinking_part(message: Message) -> list[Message] | None:
    """Thoughts as the first part of the content, as Mistral's templates want them."""
    thoughts = message.get("reasoning_content")
    if not thoughts:
        return None
    content = message["content"] or []
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [
        {
            **_without(message, _THOUGHTS),
            "content": [{"type": "thinking", "thinking": thoughts}, *content],
        }
    ]


def _preamble_in_thoughts(message: Message) -> list[Message] | None:
    """Thoughts and content beside calls as one text, for templates that show one of them."""
    thoughts, content = message.get("reasoning_content"), message["content"]
    if not (message.get("tool_calls") and thoughts and content):
        return None
    text = f"{thoughts}\n\n{_text(content)}"
    return [{**message, **dict.fromkeys(_THOUGHTS, text), "content": ""}]


def _preamble_apart(message: Message) -> list[Message] | None:
    """Content beside calls as a turn of its own, for templates that show one of them."""
    if not (message.get("tool_calls") and message["content"]):
        return None
    return [
        {"role": message["role"], "content": message["content"]},
        {**message, "content": ""},
    ]


def _no_preamble(message: Message) -> list[Message] | None:
    """No content beside calls, for templates that refuse it."""
    if not (message.get("tool_calls") and message["content"]):
        return None
    return [{**message, "content": ""}]


def _calls_in_text(message: Message) -> list[Message] | None:
    """Calls as JSON in the content, for templates that know none."""
    if not message.get("tool_calls"):
        return None
    calls = [
        json.dumps(
            {name: call["function"][name] for name in ("name", "arguments")}, ensure_ascii=False
        )
        for call in message["tool_calls"]
    ]
    text = "\n".join(filter(None, [_text(message["content"]), *calls]))
    return [{**_without(message, ("tool_calls",)), "content": text}]


def _content_parts(message: Message) -> list[Message] | None:
    """Text as a list of one part."""
    content = message["content"]
    if not content or not isinstance(content, str):
        return None
    return [{**message, "content": [{"type": "text", "text": content}]}]


def _null_content(message: Message) -> list[Message] | None:
    """No content beside calls as None, by which some templates know a turn with calls."""
    if message.get("tool_calls") and message["content"] in ("", []):
        return [{**message, "content": None}]
    return None


def _blank_answer(message: Message) -> list[Message] | None:
    """A space for an answer without anything, which a model may well give."""
    if message["role"] == "assistant" and not message["content"] and "tool_calls" not in message:
        return [{**message, "content": " "}]
    return None


def _text_arguments(message: Message) -> list[Message] | None:
    """Arguments as JSON text, for templates that add them to text."""
    if not message.get("tool_calls"):
        return None
    calls = []
    for call in message["tool_calls"]:
        function = call["function"]
        if not isinstance(function["arguments"], str):
            function = {**function, "arguments": text_of_arguments(function["arguments"])}
        calls.append({**call, "function": function})
    return [{**message, "tool_calls": calls}]


def _short_ids(message: Message) -> list[Message] | None:
    """Ids of nine letters and digits, the only ones that Mistral's templates take."""
    if calls := message.get("tool_calls"):
        if all(_is_short(call["id"]) for call in calls):
            return None
        return [{**message, "tool_calls": [{**call, "id": _short(call["id"])} for call in calls]}]
    call_id = message.get("tool_call_id")
    if isinstance(call_id, str) and not _is_short(call_id):
        return [{**message, "tool_call_id": _short(call_id)}]
    return None


def _is_short(call_id: str) -> bool:
    return len(call_id) == 9 and call_id.isascii() and call_id.isalnum()


def _short(call_id: str) -> str:
    if _is_short(call_id):
        return call_id
    # Ids are of any text, the stand-ins of control tokens included.
    return hashlib.blake2b(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def _without(message: Message, names: Iterable[str]) -> Message:
    return {key: value for key, value in message.items() if key not in names}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    return " ".join(part["text"] if "text" in part else part["thinking"] for part in content)


_THINKING_PART = Form("thinking part", _each(_thinking_part))

# In the order in which they are applied, and tried.
FORMS = (
    Form("bare tools", _bare_tools),
    Form("filled tools", _filled_tools),
    Form("plain tools", _plain_tools, last_resort=True),
    Form("merged instructions", _merged_instructions),
    Form("instructions to user", _instructions_to_user),
    Form("single calls", _single_calls),
    _THINKING_PART,
    Form("no preamble", _each(_no_preamble)),
    Form("preamble in thoughts", _each(_preamble_in_thoughts)),
    Form("preamble apart", _each(_preamble_apart)),
    Form("calls in text", _each(_calls_in_text), last_resort=True),
    Form("results to user", _results_to_user, last_resort=True),
    Form("content parts", _each(_content_parts), probed=True),
    Form("null content", _each(_null_content)),
    Form("blank answer", _each(_blank_answer), last_resort=True),
    Form("text arguments", _each(_text_arguments)),
    Form("short ids", _each(_short_ids)),
)
