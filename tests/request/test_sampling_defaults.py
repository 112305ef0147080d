"""Defaults of a model and of its engines, sane and otherwise."""

from __future__ import annotations

import logging
import math

import pytest

from sglrouter.request.sampling_defaults import SamplingDefaults, usable


def test_the_engine_goes_before_the_model() -> None:
    defaults = SamplingDefaults({"temperature": 0.6, "top_p": 0.9})
    assert defaults.on_engine({"top_p": 0.5}) == {"temperature": 0.6, "top_p": 0.5}
    assert defaults.on_engine({}) == {"temperature": 0.6, "top_p": 0.9}


def test_numbers_get_their_parameters_type() -> None:
    values = usable({"temperature": 1, "top_k": 20.0}, "x")
    assert values == {"temperature": 1.0, "top_k": 20}
    assert type(values["temperature"]) is float
    assert type(values["top_k"]) is int


@pytest.mark.parametrize(
    "name", ["max_new_tokens", "min_new_tokens", "n", "stop", "temperature_last", "do_sample"]
)
def test_what_is_no_parameter_of_the_sampler_is_left_out(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert usable({name: 1}, "x") == {}
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 1e39),
        ("temperature", 10**400),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_k", -2),
        ("top_k", 0.5),
        ("top_k", 2**31),
        ("top_k", 10**400),
        ("top_k", math.inf),
        ("top_k", math.nan),
        ("min_p", 1.5),
        ("min_p", math.nan),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1.0),
        ("repetition_penalty", 2.5),
        ("presence_penalty", 3.0),
        ("frequency_penalty", -2.5),
    ],
)
def test_an_odd_one_is_left_out_with_a_warning(
    name: str, value: float, caplog: pytest.LogCaptureFixture
) -> None:
    assert usable({name: value, "min_p" if name != "min_p" else "top_p": 0.5}, "the maker") == {
        "min_p" if name != "min_p" else "top_p": 0.5
    }
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert name in record.getMessage()
    assert "the maker" in record.getMessage()
    assert len(record.getMessage()) < 200


def test_a_models_odd_default_does_not_hide_the_engines_or_the_other_way_round() -> None:
    defaults = SamplingDefaults({"top_p": 7.0, "min_p": 0.1})
    assert defaults.on_engine({"top_p": 0.5, "min_p": 7.0}) == {"top_p": 0.5, "min_p": 0.1}


def test_there_is_one_warning_however_many_requests(caplog: pytest.LogCaptureFixture) -> None:
    defaults = SamplingDefaults({"min_p": 2.0})
    assert len(caplog.records) == 1
    for _ in range(5):
        # A new object each time, as for an engine that does not answer.
        assert defaults.on_engine({"top_k": -5}) == {}
    assert len(caplog.records) == 2


def test_what_is_remembered_of_engines_is_bounded() -> None:
    defaults = SamplingDefaults({})
    for i in range(1000):
        assert defaults.on_engine({"temperature": i / 10}) == {"temperature": i / 10}
    assert len(defaults._merged) <= 64
