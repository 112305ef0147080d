"""The fuzz targets themselves, on random inputs: they run, they reach what they are for.

Without atheris nothing guides the inputs, so this finds few bugs; it finds targets that no
longer fit what they test. What an input reaches is counted, and each count has to show up:
a target that has stopped at its first action would pass anything.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz import fuzz_request_reader, fuzz_wire
from tests.fuzz.run import Script, Target

pytestmark = pytest.mark.fuzz

ROOT = Path(__file__).parents[2]
# More of them in a long run without atheris.
INPUTS = int(os.environ.get("SGLROUTER_FUZZ_INPUTS", "2000"))


def play(target: Target) -> Counter[str]:
    """Runs a target on inputs that are the same every time."""
    dice = random.Random(1)
    reached: Counter[str] = Counter()
    for number in range(INPUTS):
        data = dice.randbytes(dice.choice((10, 50, 200, 1000)))
        try:
            reached += target(data)
        except BaseException as exc:
            exc.add_note(f"input {number}: {data.hex()}")
            raise
    return reached


def test_any_bytes_for_the_session() -> None:
    pytest.importorskip("sglrouter._fast.h2", reason="there is no libnghttp2")
    from tests.fuzz import fuzz_session

    reached = play(fuzz_session.one_input)
    # Some plays go well to their end, some connections fail; in both kinds much has happened.
    assert reached["in order"] > INPUTS // 10
    assert reached["failures"] > INPUTS // 10
    assert reached["gone on"] > INPUTS // 20
    assert reached["calls"] > INPUTS
    assert reached["news"] > INPUTS
    assert reached["messages"] > 10 * INPUTS
    assert reached["credited"] > 100 * INPUTS


def test_a_call_that_is_cancelled_inside_its_headers_is_no_news() -> None:
    pytest.importorskip("sglrouter._fast.h2", reason="there is no libnghttp2")
    from tests.fuzz import fuzz_session

    # Cancelled, and then more headers than are kept: a guided run has found this.
    fuzz_session.one_input(bytes.fromhex("011e2f0000010004ffff1f64210014"))


def test_any_bytes_for_the_wire_reader() -> None:
    reached = play(fuzz_wire.one_input)
    assert reached["messages"] > INPUTS
    assert reached["malformed"] > INPUTS // 10
    assert reached["ids"] > INPUTS // 2
    assert reached["logprobs"] > INPUTS // 100
    assert reached["rows"] > INPUTS // 1000
    assert reached["prompts"] > INPUTS // 1000
    assert reached["ends"] > INPUTS // 10


def test_any_bytes_for_the_request_reader() -> None:
    reached = play(fuzz_request_reader.one_input)
    assert reached["requests"] == INPUTS
    assert INPUTS // 100 < reached["plain"] < INPUTS
    assert reached["bodies"] > INPUTS // 200


def test_a_script_that_has_run_out_draws_zeros() -> None:
    script = Script(b"\x01\x02\x03")
    assert script.number(2) == 0x0102
    assert script
    assert script.take(5) == b"\x03"
    assert not script
    assert (script.number(4), script.blob(), script.length(9), script.choice("ab")) == (
        0,
        b"",
        0,
        "a",
    )


@pytest.mark.parametrize("name", ["request_reader", "session", "wire"])
def test_without_atheris_a_target_says_so(name: str) -> None:
    if name == "session":
        pytest.importorskip("sglrouter._fast.h2", reason="there is no libnghttp2")
    # As if it were not installed, whether it is or not.
    program = (
        "import runpy, sys; sys.modules['atheris'] = None\n"
        f"runpy.run_module('tests.fuzz.fuzz_{name}', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "atheris is not installed: see docs/development.md\n"
