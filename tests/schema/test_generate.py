"""Bodies of SGLang's native requests, and their fields by the names that all requests share."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sglrouter.errors import BadRequest
from sglrouter.schema.generate import (
    DEFAULT_MAX_NEW_TOKENS,
    IGNORED_IN_GENERATE,
    IGNORED_IN_SAMPLING_PARAMS,
    REFUSED_IN_GENERATE,
    GenerateRequest,
    NativeSamplingParams,
    decode_abort_request,
    decode_generate_request,
    decode_sampling_params,
    ignored_in,
    name_in_params,
    sampling_wishes,
    with_preferred,
)
from sglrouter.schema.json_bounds import JsonBounds

BOUNDS = JsonBounds()


def params(**fields: Any) -> NativeSamplingParams:
    return decode_sampling_params(msgspec.json.encode(fields).decode())


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"input_ids": [true]}', "input_ids[0]"),
        (b'{"input_ids": [[1], [1.5]]}', "input_ids[1][0]"),
        (b'{"input_ids": ["a"]}', "input_ids[0]"),
        (b'{"text": [1]}', "text[0]"),
        (b'{"sampling_params": {"top_k": [1]}}', "sampling_params.top_k"),
        (b'{"sampling_params": [{"stop": 1}]}', "sampling_params[0].stop"),
        (b'{"rid": 1}', "rid"),
    ],
)
def test_a_wrong_type_names_its_place(body: bytes, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode_generate_request(body, BOUNDS)
    assert (caught.value.code, caught.value.param) == ("invalid_type", param)


def test_numbers_are_read_as_laxly_as_sglang_does() -> None:
    request = decode_generate_request(
        b'{"input_ids": [1.0, "2"], "sampling_params": {"temperature": "0.5"}, "stream": 1}', BOUNDS
    )
    assert request.input_ids == [1, 2]
    assert request.sampling_params == NativeSamplingParams(temperature=0.5)
    assert request.stream is True


def test_each_field_has_the_name_that_all_requests_share() -> None:
    shared = sampling_wishes(
        params(
            max_new_tokens=1,
            min_new_tokens=2,
            stop="a",
            stop_token_ids=[3, None],
            temperature=0.4,
            top_p=0.5,
            top_k=6,
            min_p=0.7,
            frequency_penalty=0.8,
            presence_penalty=0.9,
            repetition_penalty=1.1,
            n=12,
            regex="b",
            ebnf="c",
            ignore_eos=True,
            skip_special_tokens=False,
            no_stop_trim=True,
            logit_bias={"5": 1},
        ),
        {"type": "text"},
        "adapter",
    )
    values = msgspec.structs.asdict(shared)
    assert {name: value for name, value in values.items() if value is not None} == {
        "max_tokens": 1,
        "min_tokens": 2,
        "stop": "a",
        "stop_token_ids": [3],
        "temperature": 0.4,
        "top_p": 0.5,
        "top_k": 6,
        "min_p": 0.7,
        "frequency_penalty": 0.8,
        "presence_penalty": 0.9,
        "repetition_penalty": 1.1,
        "n": 12,
        "regex": "b",
        "ebnf": "c",
        "ignore_eos": True,
        "skip_special_tokens": False,
        "no_stop_trim": True,
        "logit_bias": {"5": 1},
        "response_format": {"type": "text"},
        "lora_path": "adapter",
    }


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("max_tokens", "here.max_new_tokens"),
        ("min_tokens", "here.min_new_tokens"),
        ("top_k", "here.top_k"),
        ("stop_token_ids", "here.stop_token_ids"),
        ("response_format", "here.json_schema"),
        ("response_format.json_schema.schema", "here.json_schema"),
        ("lora_path", "lora_path"),
        ("model", "model"),
    ],
)
def test_errors_use_the_clients_names(field: str, name: str) -> None:
    assert name_in_params(params(), "here", field) == name


def test_a_grammar_is_called_by_the_field_that_it_came_in() -> None:
    tagged = params(structural_tag="{}")
    assert name_in_params(tagged, "here", "response_format") == "here.structural_tag"


@pytest.mark.parametrize(
    ("given", "preferred", "most"),
    [
        ({}, {}, DEFAULT_MAX_NEW_TOKENS),
        ({}, {"max_new_tokens": 7}, 7),
        ({"max_new_tokens": 3}, {"max_new_tokens": 7}, 3),
        ({"max_new_tokens": 0}, {"max_new_tokens": 7}, 0),
        # Null is no bound, and not left out.
        ({"max_new_tokens": None}, {"max_new_tokens": 7}, None),
    ],
)
def test_the_most_tokens_are_sglangs(
    given: dict[str, Any], preferred: dict[str, Any], most: int | None
) -> None:
    shared = sampling_wishes(with_preferred(params(**given), params(**preferred)), None, None)
    assert shared.max_tokens == most


def test_what_is_preferred_fills_what_is_left_out() -> None:
    filled = with_preferred(
        params(temperature=0, top_p=None, ignore_eos=False),
        params(temperature=1.5, top_p=0.5, ignore_eos=True, stop=["x"]),
    )
    assert filled == NativeSamplingParams(temperature=0, top_p=0.5, ignore_eos=False, stop=["x"])
    same = params(top_k=3)
    assert with_preferred(same, params()) is same


def test_what_is_asked_for_in_vain_is_told() -> None:
    asked = decode_generate_request(
        b'{"return_hidden_states": true, "priority": 0, "session_id": null, "watermark": false}',
        BOUNDS,
    )
    assert ignored_in(asked, IGNORED_IN_GENERATE) == ["return_hidden_states", "priority"]
    assert ignored_in(params(stop_regex="a"), IGNORED_IN_SAMPLING_PARAMS, "p.") == ["p.stop_regex"]
    empties: tuple[object, ...] = ("", [], {}, None, False)
    for empty in empties:
        assert ignored_in(params(stop_regex=empty), IGNORED_IN_SAMPLING_PARAMS, "p.") == []


def test_every_listed_field_exists() -> None:
    fields = set(GenerateRequest.__struct_fields__)
    assert set(IGNORED_IN_GENERATE) | set(REFUSED_IN_GENERATE) <= fields
    assert set(IGNORED_IN_SAMPLING_PARAMS) <= set(NativeSamplingParams.__struct_fields__)


def test_an_abort_may_say_null() -> None:
    request = decode_abort_request(b'{"rid": null, "abort_all": true}', BOUNDS)
    assert (request.rid, request.abort_all) == (None, True)
