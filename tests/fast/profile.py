"""How Hypothesis runs here: the same examples every time, and more of them on demand."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Examples of each property; --quick tries fewer.
EXAMPLES = int(os.environ.get("SGLROUTER_TEST_EXAMPLES", "60"))
# Examples of each test marked `soak`.
SOAK = int(os.environ.get("SGLROUTER_TEST_SOAK", "150"))

settings.register_profile(
    "sglrouter",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("sglrouter")

soak = settings(max_examples=SOAK)
