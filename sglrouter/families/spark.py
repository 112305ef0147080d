"""Spark: calls as GLM writes them, and only undisturbed."""

from __future__ import annotations

from sglrouter.families.family import Family
from sglrouter.families.formats.paired_calls import GLM_CALLS

FAMILIES = (Family(names=("spark25",), calls=GLM_CALLS, by_training=True),)
