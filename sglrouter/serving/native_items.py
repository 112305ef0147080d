"""One native request as what it asks for each of its prompts.

SGLang lets nearly every field be one value for all prompts or a list with one for each.
Here the lists are taken apart and names given to the answers; nothing is checked that
needs the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sglrouter.engines.wire.scheduler import new_request_id
from sglrouter.errors import BadRequest
from sglrouter.schema.generate import (
    REFUSED_IN_GENERATE,
    GenerateRequest,
    NativeSamplingParams,
)
from sglrouter.serving.in_flight import check_rid

_NO_PARAMS = NativeSamplingParams()


class Scoring(msgspec.Struct, frozen=True):
    """Which log probabilities are asked for.

    Attributes:
        wanted: Whether any are.
        start: From where on the prompt's own tokens are scored; -1 for not at all.
        top: How many of the likeliest tokens in each place.
        selected: Tokens that are scored in each place of the answer.
    """

    wanted: bool = False
    start: int = -1
    top: int = 0
    selected: tuple[int, ...] = ()

    @property
    def entries(self) -> int:
        """Log probabilities in each place."""
        return 1 + self.top + len(self.selected)


class Item(msgspec.Struct, frozen=True):
    """One prompt of a request.

    Attributes:
        field: Where it is in the body.
        prompt: Text or token ids.
        params: How to sample.
        place: Where its sampling_params are in the body.
        scoring: Its log probabilities.
        lora_path: The name of its adapter, if any.
        ids: The client's names of its samples.
    """

    field: str
    prompt: str | list[int]
    params: NativeSamplingParams
    place: str
    scoring: Scoring
    lora_path: str | None
    ids: tuple[str, ...]


class Items(msgspec.Struct, frozen=True):
    """All prompts of a request.

    Attributes:
        each: The prompts, one at least.
        several: Whether the answer is a list.
        group: The client's name of the whole, where the samples have others.
    """

    each: tuple[Item, ...]
    several: bool
    group: str | None


def items_of(
    request: GenerateRequest, samples: Callable[[NativeSamplingParams, str], int], most: int
) -> Items:
    """Takes a request apart.

    Args:
        request: The request.
        samples: How many samples sampling_params ask for, given their place.
        most: Most prompts.

    Raises:
        BadRequest: There is no prompt, or too many, or a list has another length, or names
            are no names or the same.
    """
    for name in REFUSED_IN_GENERATE:
        if getattr(request, name):
            raise BadRequest(
                f"{name} cannot be served: engines are sent token ids only",
                code="unsupported_input",
                param=name,
            )
    field, prompts, is_list = _prompts(request)
    count = len(prompts)
    if count > most:
        raise BadRequest(
            f"{field} holds {count} prompts, but a request may have {most}: send several requests",
            code="too_many_prompts",
            param=field,
        )
    if isinstance(request.sampling_params, list):
        params: list[NativeSamplingParams] = _each(
            request.sampling_params, count, "sampling_params"
        )
        places = [f"sampling_params[{i}]" for i in range(count)]
    else:
        params = [request.sampling_params or _NO_PARAMS] * count
        places = ["sampling_params"] * count
    numbers = [samples(each, place) for each, place in zip(params, places, strict=True)]
    names = _names(request.rid, numbers, is_list)
    scorings = _scorings(request, count)
    adapters = _each(request.lora_path, count, "lora_path")
    items = tuple(
        Item(
            field=f"{field}[{i}]" if is_list else field,
            prompt=prompts[i],
            params=params[i],
            place=places[i],
            scoring=scorings[i],
            lora_path=adapters[i],
            ids=names[i],
        )
        for i in range(count)
    )
    several = is_list or numbers[0] > 1
    group = request.rid if several and request.rid and isinstance(request.rid, str) else None
    return Items(items, several, group)


def _prompts(request: GenerateRequest) -> tuple[str, Sequence[str | list[int]], bool]:
    """The field that the prompts are in, the prompts, and whether they are a list."""
    text, ids = request.text, request.input_ids
    if (text is None) == (ids is None):
        raise BadRequest(
            "Give the prompt as text or as input_ids" + (", not as both" if text else ""),
            code="missing_prompt" if text is None else "invalid_value",
            param="text",
        )
    if text is not None:
        if not text and not isinstance(text, str):
            raise BadRequest("text must have a prompt at least", code="empty_prompt", param="text")
        return ("text", [text], False) if isinstance(text, str) else ("text", text, True)
    assert ids is not None
    if not ids:
        raise BadRequest("input_ids must not be empty", code="empty_prompt", param="input_ids")
    kinds = set(map(type, ids))  # there may be a million
    if len(kinds) > 1:
        raise BadRequest(
            "input_ids must be a list of ids, or a list of such lists, and no mixture",
            code="invalid_type",
            param="input_ids",
        )
    prompts: Any = ids if list in kinds else [ids]
    return "input_ids", prompts, list in kinds


def _each(value: object, count: int, name: str) -> list[Any]:
    """A field's value for each prompt."""
    if not isinstance(value, list):
        return [value] * count
    if len(value) != count:
        raise BadRequest(
            f"{name} must have one value for each prompt, that is {count}, not {len(value)}",
            code="invalid_value",
            param=name,
        )
    return value


def _scorings(request: GenerateRequest, count: int) -> list[Scoring]:
    wanted = _each(request.return_logprob, count, "return_logprob")
    starts = _each(request.logprob_start_len, count, "logprob_start_len")
    tops = _each(request.top_logprobs_num, count, "top_logprobs_num")
    selected = _selected(request.token_ids_logprob or [], count)
    return [
        Scoring(
            wanted=True,
            start=-1 if starts[i] is None else starts[i],
            top=tops[i] or 0,
            selected=selected[i],
        )
        if wanted[i]
        else Scoring()
        for i in range(count)
    ]


def _selected(ids: Sequence[int | list[int] | None], count: int) -> list[tuple[int, ...]]:
    """token_ids_logprob for each prompt: a list of ids is for all of them."""
    kinds = set(map(type, ids))  # there may be a million
    if kinds <= {int}:
        return [tuple(ids)] * count  # type: ignore[arg-type]
    if int in kinds:
        raise BadRequest(
            "token_ids_logprob must be a list of ids, or one such list for each prompt",
            code="invalid_type",
            param="token_ids_logprob",
        )
    lists = _each(list(ids), count, "token_ids_logprob")
    return [tuple(each or ()) for each in lists]


def _names(
    rid: str | list[str] | None, numbers: Sequence[int], is_list: bool
) -> list[tuple[str, ...]]:
    """The names of each prompt's samples.

    One name for several samples becomes theirs with a number after it.
    """
    total = sum(numbers)
    if not rid and not isinstance(rid, list):
        return [tuple(new_request_id() for _ in range(number)) for number in numbers]
    if isinstance(rid, str):
        check_rid(rid)
        if not is_list and total == 1:
            return [(rid,)]
        numbered = iter(range(total))
        return [tuple(f"{rid}_{next(numbered)}" for _ in range(number)) for number in numbers]
    for name in _each(rid, len(numbers), "rid"):
        check_rid(name)
    names = [
        (name,) if number == 1 else tuple(f"{name}_{k}" for k in range(number))
        for name, number in zip(rid, numbers, strict=True)
    ]
    if len({name for each in names for name in each}) != total:
        raise BadRequest("rid must not hold a name twice", code="invalid_value", param="rid")
    return names
