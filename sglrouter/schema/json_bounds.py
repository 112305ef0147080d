"""Reading JSON of bounded shape, and saying what is wrong with it.

A small body can be made to cost a lot: each pair of brackets becomes an object of some
60 bytes, and what is nested deeply makes every later recursion fail, in templates as in
engines. So values and depth are counted before anything is made, in one compiled pass
over the bytes. A number in a list counts as little: a prompt may be a million ids. So does
an escape in a text, ten times as dear to decode as a letter.

Decoding is lax about numbers, as SGLang's own server is: "0.5" is 0.5, "true" is true
and 40.0 is 40. A boolean is no number, and a number is no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from sglrouter._fast.json_shape import json_shape
from sglrouter.errors import BadRequest

T = TypeVar("T", bound=msgspec.Struct)

# Some tools for Windows write it before what they send.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Escapes that count as one value, in a body of so many bytes at least: a smaller one cannot
# hold enough of them.
_ESCAPES = 32
_LONG_BODY = 1024 * 1024

# What JSON's objects and arrays become; never a subclass.
_HOLDERS = frozenset((dict, list))

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonBounds(msgspec.Struct, frozen=True):
    """What a body may hold.

    Attributes:
        depth: Most objects and arrays inside each other, the body itself included.
        values: About how many values, at most.
    """

    depth: int = 100
    values: int = 65_536


def decode_bounded(decoder: msgspec.json.Decoder[T], body: bytes, bounds: JsonBounds) -> T:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, too large in shape, or a field has the wrong type.
    """
    body = body.removeprefix(_BYTE_ORDER_MARK)
    values, deepest = json_shape(body)
    if len(body) > _LONG_BODY:
        values += body.count(b"\\") // _ESCAPES
    if values > bounds.values:
        raise BadRequest(
            f"The body holds more than {bounds.values} values", code="request_too_large"
        )
    try:
        request = decoder.decode(body)
    except msgspec.ValidationError as exc:
        raise _wrong_type(exc) from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise _not_json(body, exc) from exc
    except RecursionError as exc:
        raise BadRequest(_too_deep("The body", bounds), code="invalid_json") from exc
    # What is skipped may be as deep as it likes.
    if deepest > bounds.depth and _is_deeper(msgspec.structs.astuple(request), bounds.depth - 1):
        raise BadRequest(_too_deep("The body", bounds), code="invalid_json")
    return request


def text_shape(text: str) -> tuple[int, int]:
    """How many values there are in JSON, as bounds count them, and how deep they are."""
    return json_shape(text.encode("utf-8", "replace"))


def check_text_shape(text: str, where: str, bounds: JsonBounds) -> None:
    """Checks JSON that is a text within a body, before it is decoded.

    Args:
        text: The JSON.
        where: The field that it is in.
        bounds: Those of a body.

    Raises:
        BadRequest: It holds more values than a whole body may, or is too deep.
    """
    values, deepest = text_shape(text)
    if values > bounds.values:
        raise BadRequest(
            f"{where} holds more than {bounds.values} values", code="invalid_value", param=where
        )
    if deepest > bounds.depth:
        raise BadRequest(_too_deep(where, bounds), code="invalid_json", param=where)


def _is_deeper(roots: Iterable[object], most: int) -> bool:
    """Whether objects and arrays are nested deeper than that; walks level by level."""
    level: list[Any] = [root for root in roots if type(root) in _HOLDERS]
    while level:
        if most <= 0:
            return True
        most -= 1
        level = [
            child
            for holder in level
            for child in (holder.values() if type(holder) is dict else holder)
            if type(child) in _HOLDERS
        ]
    return False


def _too_deep(what: str, bounds: JsonBounds) -> str:
    return (
        f"{what} is nested too deeply: at most {bounds.depth} objects and arrays may be inside "
        "each other"
    )


def _wrong_type(exc: msgspec.ValidationError) -> BadRequest:
    message, _, path = str(exc).partition(" - at `")
    field = path.rstrip("`").removeprefix("$").removeprefix(".")
    if not field and message.startswith("Object missing required field"):
        field = message.split("`")[1]
    return BadRequest(
        f"{field}: {message}" if field else message, code="invalid_type", param=field or None
    )


def _not_json(body: bytes, exc: Exception) -> BadRequest:
    hint = ""
    if not body.strip():
        return BadRequest("The body is empty, but must be a JSON object", code="invalid_json")
    if _SURROGATE.search(body):
        hint = " (a \\u escape may be one half of a surrogate pair)"
    elif b"\0" in body[:4]:
        hint = " (it must be UTF-8)"
    return BadRequest(f"The body is not valid JSON: {exc}{hint}", code="invalid_json")
