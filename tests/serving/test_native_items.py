"""Native requests taken apart: prompts, values for each, names."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sglrouter.errors import BadRequest
from sglrouter.schema.generate import NativeSamplingParams, decode_generate_request
from sglrouter.schema.json_bounds import JsonBounds
from sglrouter.serving.in_flight import MAX_RID
from sglrouter.serving.native_items import Items, Scoring, items_of


def samples(params: NativeSamplingParams, _place: str) -> int:
    return 1 if params.n is None else params.n


def items(most: int = 8, **fields: Any) -> Items:
    request = decode_generate_request(msgspec.json.encode(fields), JsonBounds())
    return items_of(request, samples, most)


def refusal(**fields: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        items(**fields)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("fields", "prompts", "places", "several"),
    [
        ({"text": "a"}, ["a"], ["text"], False),
        ({"text": ["a"]}, ["a"], ["text[0]"], True),
        ({"text": ["a", "b"]}, ["a", "b"], ["text[0]", "text[1]"], True),
        ({"input_ids": [1, 2]}, [[1, 2]], ["input_ids"], False),
        ({"input_ids": [[1, 2], [3]]}, [[1, 2], [3]], ["input_ids[0]", "input_ids[1]"], True),
        ({"text": "a", "sampling_params": {"n": 2}}, ["a"], ["text"], True),
    ],
)
def test_prompts_come_in_four_shapes(
    fields: dict[str, Any], prompts: list[Any], places: list[str], several: bool
) -> None:
    found = items(**fields)
    assert [item.prompt for item in found.each] == prompts
    assert [item.field for item in found.each] == places
    assert found.several == several


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({}, "missing_prompt", "text"),
        ({"text": None}, "missing_prompt", "text"),
        ({"text": "a", "input_ids": [1]}, "invalid_value", "text"),
        ({"text": []}, "empty_prompt", "text"),
        ({"input_ids": []}, "empty_prompt", "input_ids"),
        ({"input_ids": [1, [2]]}, "invalid_type", "input_ids"),
        ({"text": ["a"] * 9}, "too_many_prompts", "text"),
        ({"input_ids": [[1]] * 9}, "too_many_prompts", "input_ids"),
        ({"text": "a", "image_data": "x"}, "unsupported_input", "image_data"),
        ({"text": "a", "audio_data": ["x"]}, "unsupported_input", "audio_data"),
        ({"text": "a", "video_data": "x"}, "unsupported_input", "video_data"),
        ({"input_embeds": [[0.5]]}, "unsupported_input", "input_embeds"),
        ({"text": "a", "sampling_params": []}, "invalid_value", "sampling_params"),
        ({"text": ["a", "b"], "sampling_params": [{}]}, "invalid_value", "sampling_params"),
        ({"text": "a", "return_logprob": [True, True]}, "invalid_value", "return_logprob"),
        ({"text": ["a", "b"], "lora_path": ["x"]}, "invalid_value", "lora_path"),
        ({"text": ["a", "b"], "rid": ["x"]}, "invalid_value", "rid"),
        ({"text": ["a", "b"], "rid": ["x", "x"]}, "invalid_value", "rid"),
        ({"text": "a", "rid": "x" * (MAX_RID + 1)}, "invalid_value", "rid"),
        ({"text": ["a"], "rid": [""]}, "invalid_value", "rid"),
        (
            {"text": ["a", "b"], "return_logprob": True, "token_ids_logprob": [[1], 2]},
            "invalid_type",
            "token_ids_logprob",
        ),
        (
            {"text": ["a", "b"], "return_logprob": True, "token_ids_logprob": [[1]]},
            "invalid_value",
            "token_ids_logprob",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], code: str, param: str) -> None:
    error = refusal(**fields)
    assert (error.code, error.param) == (code, param)


def test_media_that_is_empty_is_none() -> None:
    assert items(text="a", image_data=[], audio_data=None, video_data="").each


def test_a_value_is_for_all_prompts_or_for_each() -> None:
    both = items(
        text=["a", "b"],
        sampling_params=[{"top_k": 1}, {"top_k": 2}],
        return_logprob=True,
        logprob_start_len=[0, None],
        top_logprobs_num=[3, 4],
        token_ids_logprob=[[5], None],
        lora_path=["x", None],
    )
    assert [item.params.top_k for item in both.each] == [1, 2]
    assert [item.place for item in both.each] == ["sampling_params[0]", "sampling_params[1]"]
    assert [item.lora_path for item in both.each] == ["x", None]
    assert [item.scoring for item in both.each] == [
        Scoring(wanted=True, start=0, top=3, selected=(5,)),
        Scoring(wanted=True, start=-1, top=4),
    ]
    one = items(
        text=["a", "b"],
        sampling_params={"top_k": 1},
        return_logprob=True,
        logprob_start_len=2,
        top_logprobs_num=3,
        token_ids_logprob=[5, 6],
        lora_path="x",
    )
    assert {item.params.top_k for item in one.each} == {1}
    assert {item.place for item in one.each} == {"sampling_params"}
    assert {item.lora_path for item in one.each} == {"x"}
    scoring = Scoring(wanted=True, start=2, top=3, selected=(5, 6))
    assert [item.scoring for item in one.each] == [scoring] * 2


def test_nothing_is_scored_unless_return_logprob_says_so() -> None:
    found = items(
        text=["a", "b"], return_logprob=[False, True], top_logprobs_num=3, logprob_start_len=0
    )
    assert [item.scoring for item in found.each] == [
        Scoring(),
        Scoring(wanted=True, start=0, top=3),
    ]
    assert items(text="a", top_logprobs_num=3).each[0].scoring == Scoring()


@pytest.mark.parametrize(
    ("fields", "names", "group"),
    [
        ({"text": "a", "rid": "r"}, [("r",)], None),
        ({"text": "a", "rid": ["r"]}, [("r",)], None),
        ({"text": ["a"], "rid": "r"}, [("r_0",)], "r"),
        ({"text": ["a", "b"], "rid": "r"}, [("r_0",), ("r_1",)], "r"),
        ({"text": ["a", "b"], "rid": ["r", "s"]}, [("r",), ("s",)], None),
        ({"text": "a", "rid": "r", "sampling_params": {"n": 2}}, [("r_0", "r_1")], "r"),
        (
            {"text": ["a", "b"], "rid": "r", "sampling_params": {"n": 2}},
            [("r_0", "r_1"), ("r_2", "r_3")],
            "r",
        ),
        (
            {"text": ["a", "b"], "rid": ["r", "s"], "sampling_params": {"n": 2}},
            [("r_0", "r_1"), ("s_0", "s_1")],
            None,
        ),
    ],
)
def test_names_are_the_clients(
    fields: dict[str, Any], names: list[tuple[str, ...]], group: str | None
) -> None:
    found = items(**fields)
    assert [item.ids for item in found.each] == names
    assert found.group == group


@pytest.mark.parametrize("rid", [None, ""])
def test_who_gives_no_names_gets_new_ones(rid: str | None) -> None:
    found = items(text=["a", "b"], sampling_params={"n": 2}, rid=rid)
    assert found.group is None
    names = [name for item in found.each for name in item.ids]
    assert len(set(names)) == 4
    assert {len(name) for name in names} == {32}


def test_names_that_become_the_same_are_refused() -> None:
    error = refusal(text=["a", "b"], rid=["r", "r_0"], sampling_params=[{"n": 2}, {}])
    assert error.param == "rid"
