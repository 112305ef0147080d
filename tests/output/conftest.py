"""Loads the Hypothesis profile before the tests are read."""

from __future__ import annotations

import tests.fast.profile  # noqa: F401
