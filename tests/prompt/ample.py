"""A budget that no test of something else uses up."""

from __future__ import annotations

from sglrouter.prompt.budget import Budget


def ample() -> Budget:
    return Budget(60.0, 64 * 1024 * 1024)
