"""Full load: an engine that has more to do than it can is slow, and loses no call.

The engine is a process of its own, as it is for whoever measures against it, and all its
streams go at full speed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.processes import free_port
from tests.sim.wire import EngineClient, request

pytestmark = pytest.mark.soak

# SGLROUTER_TEST_SOAK_STREAMS=10000 makes it the full form.
STREAMS = int(os.environ.get("SGLROUTER_TEST_SOAK_STREAMS", "600"))
AT_A_TIME = 120
TOKENS = 30


def test_no_call_is_lost(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(str([[7]] * TOKENS))
    port = free_port()
    command = [sys.executable, "-m", "sglrouter", "sim", "--port", str(port)]
    with subprocess.Popen(
        [*command, "--script", str(script)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as engine:
        assert engine.stderr is not None
        # It says where it listens.
        engine.stderr.readline()
        client = EngineClient(f"127.0.0.1:{port}")

        def end(number: int) -> tuple[str, str, int]:
            asked = request(rid=f"r{number}", max_new_tokens=TOKENS)
            reply = client.generate(asked, timeout=300.0)
            return reply.code, reply.details, sum(map(len, reply.deltas))

        try:
            with ThreadPoolExecutor(AT_A_TIME) as threads:
                ends = Counter(threads.map(end, range(STREAMS)))
        finally:
            client.close()
            engine.terminate()
    assert ends == {("OK", "", TOKENS): STREAMS}
