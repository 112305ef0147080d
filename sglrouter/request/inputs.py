"""The inputs of a request that has many: texts or ids, checked, as ids.

All of them are read before anything is sent, so that a wrong one costs no engine
anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from sglrouter.errors import BadRequest
from sglrouter.prompt.encoder import Encoder
from sglrouter.request.ids import ANY_ID, check_ids
from sglrouter.request.limits import Limits, check_length, check_prompt, check_size
from sglrouter.turns import taking_turns

# OpenAI's bound for embeddings.
MAX_INPUTS = 2048

Inputs = Sequence[str] | Sequence[Sequence[int]]


def inputs_of(value: str | Sequence[Any], field: str) -> Inputs:
    """The inputs that a field holds: a text, texts, ids, or lists of ids.

    Raises:
        BadRequest: There are none or too many, or they are of several kinds or of a kind
            that is not served.
    """
    if isinstance(value, str):
        return [value]
    if not value:
        raise BadRequest(f"{field} must not be empty", code="invalid_value", param=field)
    kind = type(value[0])
    if set(map(type, value)) != {kind}:  # there may be a million
        i = next(i for i, each in enumerate(value) if type(each) is not kind)
        raise BadRequest(
            f"{field} must hold texts, or token ids, or lists of token ids, but not several "
            f"of these: {field}[{i}] is of another kind than those before it",
            code="invalid_type",
            param=f"{field}[{i}]",
        )
    if kind is dict:
        raise BadRequest(
            f"{field} must be text or token ids: engines take no images or videos for this over "
            "gRPC",
            code="unsupported_content",
            param=f"{field}[0]",
        )
    inputs: Any = [value] if kind is int else value
    check_count(inputs, field)
    return cast("Inputs", inputs)


def check_count(inputs: Sequence[object], field: str) -> None:
    """Refuses more inputs than one request may have.

    Raises:
        BadRequest: There are more.
    """
    if len(inputs) > MAX_INPUTS:
        raise BadRequest(
            f"{field} must hold at most {MAX_INPUTS} inputs, not {len(inputs)}. Please send "
            "several requests.",
            code="invalid_value",
            param=field,
        )


def ids_of(
    inputs: Inputs,
    field: str,
    *,
    encoder: Encoder,
    limits: Limits,
    pause: Callable[[], object],
    whole: Callable[[Any], Any] | None = None,
) -> list[Sequence[int]]:
    """The ids of each input, those of a text with the special tokens at its ends.

    Args:
        inputs: From inputs_of().
        field: The request's field that they come from.
        encoder: The model's.
        limits: Bounds of the model.
        pause: Called now and then, to let others go on.
        whole: Makes of each input all that is to be read, such as with a query before it. All
            of them at once could be a thousand times as large as the request.

    Raises:
        BadRequest: An input is empty, too long, or not of the vocabulary.
    """
    ids: list[Sequence[int]] = []
    for i, given in enumerate(taking_turns(inputs, pause)):
        each: Any = given if whole is None else whole(given)
        where = field if len(inputs) == 1 else f"{field}[{i}]"
        if isinstance(each, str):
            check_text(each, where)
            check_length(each, encoder.longest_token, limits, where)
            tokens: Sequence[int] = encoder.encode_raw(each)
        else:
            check_size(each, limits, where)
            check_ids(each, ANY_ID, where)
            tokens = each
        check_prompt(tokens, limits, where)
        ids.append(tokens)
    return ids


def check_text(text: str, where: str) -> None:
    """Refuses a text of nothing.

    Raises:
        BadRequest: It is empty or of white space only.
    """
    if not text or text.isspace():
        raise BadRequest(
            f"{where} must not be empty or of white space only", code="invalid_value", param=where
        )
