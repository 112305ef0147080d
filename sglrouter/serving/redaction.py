"""Taking secrets out of what an engine says of its arguments.

Strategy: an argument is known by its name, since nothing else tells a password from a
word. Then the same text is taken out wherever else it stands: engines also tell the
command line that they were started with, and JSON inside of strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

REDACTED = "<redacted>"

# Names of arguments, by their words: api_key, hf_token, sslKeyfilePassword. Many
# arguments count tokens, and tokenizers are no secret.
_SECRET = re.compile(
    r"key|passw(or)?d|passphrase|secret|credential|(^|[_.-])(auth|token|pwd)$|Token$|Auth$"
)
# Of these the names say something else: where a file is, what is looked up.
_HARMLESS = re.compile(r"key(s|words?|files?|_?paths?|_?names?)$")
# A flag and its value, of a command line.
_FLAG = re.compile(r"--([\w-]+)(=|\s+)(\"[^\"]*\"|'[^']*'|[^\s\"']+)")
# A shorter text would be found in words that have nothing to do with it.
_SHORTEST = 4
# The password of a URL.
_USERINFO = re.compile(r"(://[^/@\s:]*:)[^/@\s]+@")


def redacted(info: dict[str, Any]) -> dict[str, Any]:
    """The same without secrets.

    Args:
        info: Values by names, as deep as they go; plain JSON.
    """
    known = sorted({each for each in _secrets(info) if len(each) >= _SHORTEST}, key=len)
    shown: dict[str, Any] = _without(info, known[::-1])
    return shown


def is_secret(name: str) -> bool:
    """Whether an argument of this name is nobody's business."""
    return bool(_SECRET.search(name)) and not _HARMLESS.search(name)


def _secrets(value: Any, *, hidden: bool = False) -> Iterator[str]:
    """The texts that have the name of a secret."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _secrets(each, hidden=hidden or is_secret(name))
    elif isinstance(value, list):
        for each in value:
            yield from _secrets(each, hidden=hidden)
    elif isinstance(value, str) and value:
        if hidden:
            yield value
        elif isinstance(inner := _json(value), dict | list):
            yield from _secrets(inner)
        else:
            for flag, _, text in _FLAG.findall(value):
                if is_secret(flag):
                    yield text.strip("\"'")


def _without(value: Any, secrets: list[str], *, hidden: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            name: _without(each, secrets, hidden=hidden or is_secret(name))
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_without(each, secrets, hidden=hidden) for each in value]
    if not isinstance(value, str) or not value:
        return value
    if hidden:
        return REDACTED
    inner = _json(value)
    if isinstance(inner, dict | list):
        shown = _without(inner, secrets)
        # Other spaces would be no secret either, but it was the engine's own text.
        return value if shown == inner else msgspec.json.encode(shown).decode()
    for secret in secrets:
        value = value.replace(secret, REDACTED)
    return _USERINFO.sub(rf"\1{REDACTED}@", _FLAG.sub(_without_value, value))


def _without_value(flag: re.Match[str]) -> str:
    name, separator, _ = flag.groups()
    return f"--{name}{separator}{REDACTED}" if is_secret(name) else flag[0]


def _json(text: str) -> Any:
    if text[:1] in "{[":
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return None
    return None
