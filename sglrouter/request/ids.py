"""Token ids from clients: whether they are any, told in the same words everywhere.

An engine dies of an id that its vocabulary does not have. There may be a million, so the
place of a wrong one is looked for only once it is known that there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from sglrouter.errors import Invalid

# What four bytes hold, which is what an id is on the wire.
ANY_ID = 2**32


def check_ids(ids: Sequence[int], size: int, where: str) -> None:
    """Refuses what is no id of a vocabulary.

    Args:
        ids: The ids.
        size: The vocabulary's; ANY_ID if it is checked later.
        where: The field that they are in.

    Raises:
        Invalid: One is out of range; `param` has its place.
    """
    if not ids or (min(ids) >= 0 and max(ids) < size):
        return
    place = next(i for i, token in enumerate(ids) if not 0 <= token < size)
    text = str(ids[place])
    if len(text) > 32:
        text = f"{text[:32]}..."
    why = "which is no token id"
    if size != ANY_ID:
        why = f"but ids of this model are from 0 to {size - 1}"
    raise Invalid(f"{where}[{place}]", f"is {text}, {why}", code="token_out_of_vocabulary")
