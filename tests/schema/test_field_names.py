"""Fields in an API's own words."""

from __future__ import annotations

from sglrouter.errors import Invalid
from sglrouter.schema.field_names import renaming

NAMES = renaming({"a": "x.a", "a.b": "x.c", "top": "y"})


def test_the_longest_path_counts_and_what_is_inside_goes_with_it() -> None:
    assert NAMES("a") == "x.a"
    assert NAMES("a.b") == "x.c"
    assert NAMES("a.b.c[1]") == "x.c.c[1]"
    assert NAMES("a[2].b") == "x.a[2].b"
    assert NAMES("ab") == "ab"
    assert NAMES("top_k") == "top_k"


def test_an_error_is_written_anew_and_not_edited() -> None:
    error = Invalid("a", "must be above %s, and a is not", "a_code", others=("a.b",))
    assert error.message == "a must be above a.b, and a is not"
    told = error.called(NAMES)
    assert (told.message, told.param, told.code) == (
        "x.a must be above x.c, and a is not", "x.a", "a_code",
    )  # fmt: skip
    assert told.status == 400


def test_percent_signs_of_a_client_are_text() -> None:
    assert Invalid("a", "must not be '%s%d'").called(NAMES).message == "x.a must not be '%s%d'"
