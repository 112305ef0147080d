"""OLMo: calls as Python."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.pythonic_calls import calls

FAMILIES = (
    Family(
        names=("olmo3",),
        calls=marked((b"<function_calls>",), (b"</function_calls>",), body=calls),
        call_signatures=(Signature(("<function_calls>",)),),
    ),
)
