"""What a model's maker and an engine's operator recommend where a request says nothing.

A recommendation that no engine could take is left out, with one warning: it is not the
fault of the clients, whose requests would all be refused for it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sglrouter.request.sampling import RANGES, is_top_k

logger = logging.getLogger(__name__)

# Engines come and go with restarts of theirs, not of ours.
_MOST_REMEMBERED = 64


class SamplingDefaults:
    """The defaults of one model on its engines."""

    def __init__(self, of_model: Mapping[str, float]) -> None:
        """Checks the model's own.

        Args:
            of_model: What generation_config.json says.
        """
        self._of_model = usable(of_model, "generation_config.json")
        self._merged: dict[tuple[tuple[str, float], ...], Mapping[str, float]] = {}

    def on_engine(self, of_engine: Mapping[str, float]) -> Mapping[str, float]:
        """The defaults on an engine; its own go before the model's.

        Args:
            of_engine: What the engine says; checked once for each set of values.
        """
        key = tuple(of_engine.items())
        merged = self._merged.get(key)
        if merged is None:
            if len(self._merged) >= _MOST_REMEMBERED:
                self._merged.clear()
            merged = {**self._of_model, **usable(of_engine, "the engine")}
            self._merged[key] = merged
        return merged


def usable(values: Mapping[str, float], source: str) -> dict[str, float]:
    """Those of the values that a request could have, with a warning for each other one.

    Args:
        values: Sampling parameters by name; other names are left out in silence.
        source: Whose they are, for the warning.
    """
    kept: dict[str, float] = {}
    for name, value in values.items():
        if name == "top_k":
            good = is_top_k(value)
        elif name in RANGES:
            good = RANGES[name].holds(value)
        else:
            continue
        if good:
            kept[name] = int(value) if name == "top_k" else float(value)
        else:
            logger.warning("the default %s = %s of %s is out of range: ignored",
                           name, str(value)[:32], source)  # fmt: skip
    return kept
