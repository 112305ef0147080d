"""The same suite in a process that gevent has patched, with greenlets and both channels."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sglrouter.engines.channel.connect import http2_is_built
from tests.patience import PROGRAM_PATIENCE

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
# What must have run at the least of each file, over both kinds of channel.
LEAST = {
    "test_completions.py": 56,
    "test_cancelling.py": 28,
    "test_options.py": 58,
    "test_other_threads.py": 14,
}


@pytest.mark.skipif(not http2_is_built(), reason="there is no libnghttp2")
@pytest.mark.parametrize("name", LEAST)
def test_a_client_works_under_gevent(name: str) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.engines.channel.under_gevent",
        "-vv",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, f"tests/client/{name}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PROGRAM_PATIENCE,
    )
    assert done.returncode == 0, done.stdout
    passed = re.findall(rf"^tests/client/{name}::(.*) PASSED", done.stdout, re.MULTILINE)
    assert len(passed) >= LEAST[name]
    kinds = Counter(kind for test in passed for kind in ("grpcio", "native") if kind in test)
    assert kinds["native"] == kinds["grpcio"]
