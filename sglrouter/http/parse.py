"""Reading a text as a model's output, without a model: calls and reasoning in it.

The same parsers read completions. Each answer has the shape of the server whose path it
is: SGLang's own, or its Rust gateways'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import falcon
import msgspec

from sglrouter.errors import BadRequest, ConfigError
from sglrouter.http.bodies import read_body
from sglrouter.output.formats.program import Format, Tools
from sglrouter.output.formats.registry import ModelFormats, choose_formats, tool_format
from sglrouter.output.reading import Reading
from sglrouter.schema.parse import ParseRequest, decode_parse_request
from sglrouter.serving.service import Service

_encode = msgspec.json.Encoder().encode


class _Call(NamedTuple):
    id: str
    name: str
    arguments: str


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
                "tool_calls": [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in text.calls
                ],
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
                "calls": [
                    {"tool_index": index, "name": call.name, "parameters": call.arguments}
                    for index, call in enumerate(text.calls)
                ],
            },
        )

    def _read(self, req: falcon.Request) -> _Text:
        request = _request(req, self._service)
        name = request.tool_call_parser or request.parser
        calls = _named_format(name) if name else self._service.model.formats.calls
        if calls is None:
            raise BadRequest("Name a tool_call_parser", param="tool_call_parser")
        return _read(Reading(calls=calls, tools=_tools(request.tools)), request.text)


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
        return _read(Reading(reasoning=reasoning, calls=calls, inside=inside), request.text)


def _request(req: falcon.Request, service: Service) -> ParseRequest:
    return decode_parse_request(read_body(req, service.settings.max_body), service.bounds)


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


def _read(reading: Reading, text: str) -> _Text:
    parser = reading.parser()
    assert parser is not None
    parser.feed(text.encode("utf-8", "replace"))
    parser.finish()
    content, reasoning, deltas = parser.take()
    calls: list[_Call] = []
    for _, call_id, name, arguments in deltas:
        if call_id is not None and name is not None:
            calls.append(_Call(call_id, name, arguments.decode()))
        else:
            calls[-1] = calls[-1]._replace(arguments=calls[-1].arguments + arguments.decode())
    return _Text(content.decode(), reasoning.decode(), calls)


def _answer(resp: falcon.Response, body: dict[str, Any]) -> None:
    resp.content_type = falcon.MEDIA_JSON
    resp.data = _encode(body)
