"""Reading a text as a model's output, without a model: calls and reasoning in it.

The same parsers read completions. Each answer has the shape of the server whose path it
is: SGLang's own, or its Rust gateways'. A text is no longer than answers are, and is read
in small pieces, as an answer would come: others go on in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import falcon
import msgspec

from sglrouter.errors import BadRequest, ConfigError
from sglrouter.families.formats.program import Format, Tools
from sglrouter.families.reading import Reading
from sglrouter.families.registry import ModelFormats, choose_formats, tool_format
from sglrouter.http.bodies import read_body
from sglrouter.output.json_array import JsonArray
from sglrouter.schema.parse import ParseRequest, decode_parse_request
from sglrouter.serving.service import Service
from sglrouter.turns import Pause, in_slices, taking_turns

_encode = msgspec.json.Encoder().encode


# In characters: far beyond any answer.
MAX_TEXT = 1_000_000

# Bytes of a text that every parser reads within a few milliseconds.
_PIECE = 4096


class _Call(NamedTuple):
    id: str
    name: str
    arguments: bytes


class _Text(NamedTuple):
    content: str
    reasoning: str
    calls: list[_Call]


class ParseCalls:
    """POST /parse/function_call, /parse_function_call."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """As the gateways answer."""
        text = self._read(req)
        _answer(
            resp,
            {
                "remaining_text": text.content,
                "tool_calls": _array(text.calls, _openai_call, self._service.pause),
                "success": True,
            },
        )

    def on_post_sglang(self, req: falcon.Request, resp: falcon.Response) -> None:
        """As SGLang's own server answers."""
        text = self._read(req)
        _answer(
            resp,
            {
                "normal_text": text.content,
                "calls": _array(text.calls, _sglang_call, self._service.pause),
            },
        )

    def _read(self, req: falcon.Request) -> _Text:
        request = _request(req, self._service)
        name = request.tool_call_parser or request.parser
        calls = _named_format(name) if name else self._service.model.formats.calls
        if calls is None:
            raise BadRequest("Name a tool_call_parser", param="tool_call_parser")
        reading = Reading(calls=calls, tools=_tools(request.tools))
        return _read(reading, request.text, self._service.pause)


class ParseReasoning:
    """POST /parse/reasoning, /separate_reasoning."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """As the gateways answer."""
        text = self._read(req)
        _answer(
            resp,
            {"normal_text": text.content, "reasoning_text": text.reasoning, "success": True},
        )

    def on_post_sglang(self, req: falcon.Request, resp: falcon.Response) -> None:
        """As SGLang's own server answers."""
        text = self._read(req)
        _answer(resp, {"reasoning_text": text.reasoning, "text": text.content})

    def _read(self, req: falcon.Request) -> _Text:
        request = _request(req, self._service)
        name = request.reasoning_parser or request.parser
        formats = _named_reasoning(name) if name else self._service.model.formats
        reasoning = formats.reasoning
        # Some formats split off calls and reasoning in one.
        calls = formats.calls
        if calls is not None and not calls.every_answer:
            calls = None
        if reasoning is None and calls is None:
            raise BadRequest("Name a reasoning_parser", param="reasoning_parser")
        inside = reasoning is not None and reasoning.always
        reading = Reading(reasoning=reasoning, calls=calls, inside=inside)
        return _read(reading, request.text, self._service.pause)


def _request(req: falcon.Request, service: Service) -> ParseRequest:
    body = read_body(req, service.settings.max_body)
    request = service.read(decode_parse_request, body)
    if len(request.text) > MAX_TEXT:
        raise BadRequest(
            f"text must have at most {MAX_TEXT} characters, not {len(request.text)}",
            code="invalid_value",
            param="text",
        )
    return request


def _named_format(name: str) -> Format | None:
    try:
        return tool_format(name)
    except ConfigError as exc:
        raise BadRequest(str(exc), param="tool_call_parser") from exc


def _named_reasoning(name: str) -> ModelFormats:
    try:
        return choose_formats("", name, "", ())
    except ConfigError as exc:
        raise BadRequest(str(exc), param="reasoning_parser") from exc


def _tools(tools: Sequence[Mapping[str, Any]]) -> Tools:
    for i, tool in enumerate(tools):
        function = tool.get("function", tool)
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            where = f"tools[{i}].function.name"
            raise BadRequest(f"{where} must be a string", param=where)
    return Tools(tools)


def _read(reading: Reading, text: str, pause: Pause) -> _Text:
    parser = reading.parser()
    assert parser is not None
    encoded = text.encode("utf-8", "replace")
    contents: list[bytes] = []
    reasonings: list[bytes] = []
    calls: list[tuple[str, str, list[bytes]]] = []

    def take() -> None:
        content, reasoning, deltas = parser.take()
        contents.append(content)
        reasonings.append(reasoning)
        for _, call_id, name, arguments in deltas:
            if call_id is not None and name is not None:
                calls.append((call_id, name, [arguments]))
            else:
                calls[-1][2].append(arguments)

    for start in taking_turns(range(0, len(encoded), _PIECE), pause):
        parser.feed(encoded[start : start + _PIECE])
        take()
    parser.finish()
    take()
    return _Text(
        b"".join(contents).decode(),
        b"".join(reasonings).decode(),
        [
            _Call(call_id, name, b"".join(arguments))
            for call_id, name, arguments in taking_turns(calls, pause)
        ],
    )


def _openai_call(_index: int, call: _Call) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments.decode()},
    }


def _sglang_call(index: int, call: _Call) -> dict[str, Any]:
    return {"tool_index": index, "name": call.name, "parameters": call.arguments.decode()}


def _array(
    calls: Sequence[_Call], render: Callable[[int, _Call], dict[str, Any]], pause: Pause
) -> msgspec.Raw:
    array = JsonArray()
    for some in in_slices(calls, pause):
        array.extend([render(i, call) for i, call in enumerate(some, array.size)])
    return array.json()


def _answer(resp: falcon.Response, body: dict[str, Any]) -> None:
    resp.content_type = falcon.MEDIA_JSON
    resp.data = _encode(body)
