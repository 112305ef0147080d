"""MiniCPM: calls as XML in earnest, with entities and CDATA."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.tagged_calls import TaggedCalls

_CALLS = TaggedCalls(
    call=b"<function ",
    call_end=b"</function>",
    parameter=b"<param ",
    parameter_end=b"</param>",
    literals={
        b"&amp;": b"&",
        b"&lt;": b"<",
        b"&gt;": b">",
        b"&quot;": b'"',
        b"&apos;": b"'",
        b"&#39;": b"'",
        b"&#34;": b'"',
    },
    verbatim=(b"<![CDATA[", b"]]>"),
    unwrapped=True,
)

FAMILIES = (
    Family(
        names=("minicpm5",),
        calls=_CALLS.format(),
        call_signatures=(Signature(("<function name=", "<param name="), rank=2),),
    ),
)
