"""An engine that sends all of a long answer at once: nobody waits for credit for ever."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sglrouter.engines.channel.connect import http2_is_built
from tests.conftest import StartRouter
from tests.engines.burst import Burst
from tests.fast.messages import chunk, complete
from tests.processes import RouterProcess

TOKENS = 20_000
STREAMS = 63
AT_A_TIME = 4


@pytest.mark.skipif(not http2_is_built(), reason="there is no libnghttp2")
def test_long_answers_that_come_at_once_get_through(
    start_router: StartRouter, tiny_model: Path
) -> None:
    messages = [chunk([7], number) for number in range(1, TOKENS + 1)]
    # More than the window of a stream, which is all that this is about.
    assert sum(map(len, messages)) > 256 * 1024
    with Burst([*messages, complete([7], TOKENS)]) as engine:
        router = start_router(
            engine=f"grpc://{engine.address}",
            tokenizer=tiny_model,
            channel="native",
            idle_timeout=10.0,
        )

        def ended(router: RouterProcess) -> str:
            answer = router.chat(stream=True, max_tokens=TOKENS)
            return "ok" if '"finish_reason":"length"' in answer.text else answer.text[-200:]

        with ThreadPoolExecutor(AT_A_TIME) as threads:
            assert Counter(threads.map(ended, [router] * STREAMS)) == {"ok": STREAMS}
