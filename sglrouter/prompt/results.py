"""Results of calls: each behind the call that it answers, with its name and id.

Strategy: clients run calls side by side and send the results as they come, which ids
allow. Most templates show no ids, and a model then reads results by their order. So the
results that follow a message with calls are put in the order of the calls, where those
whose call is unknown keep their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]


def put_results_in_order(messages: list[Message]) -> None:
    """Sorts the results behind each message with calls, and names them.

    Args:
        messages: Normalised messages; the list is changed, and the results in it.
    """
    names: dict[str, str] = {}
    i = 0
    while i < len(messages):
        message = messages[i]
        i += 1
        calls = message.get("tool_calls")
        if calls:
            start = i
            while i < len(messages) and messages[i]["role"] == "tool":
                i += 1
            names.update((call["id"], call["function"]["name"]) for call in calls)
            if i > start:
                messages[start:i] = _in_order(calls, messages[start:i])
        elif message["role"] == "tool":
            _name(message, names.get(_id(message), ""))


def pair(calls: Sequence[Message], results: Sequence[Message]) -> list[int | None]:
    """Finds the call of each result: its index, None if there is none.

    Results without an id, or with one of no call, are taken for those of the calls that
    are left: by name, then by position. So are unknown ids only where they are as many
    as the calls that are left.
    """
    waiting: dict[str, list[int]] = {}
    for k, call in enumerate(calls):
        waiting.setdefault(call["id"], []).append(k)
    for indices in waiting.values():
        indices.reverse()
    pairs: list[int | None] = []
    for result in results:
        indices = waiting.get(_id(result), [])
        pairs.append(indices.pop() if indices else None)
    left = sorted(k for indices in waiting.values() for k in indices)
    open_results = [j for j, k in enumerate(pairs) if k is None]
    if not left or not open_results:
        return pairs
    if len(left) != len(open_results):
        open_results = [j for j in open_results if not _id(results[j])]
    for j in open_results:
        name = results[j].get("name")
        same_name = [k for k in left if calls[k]["function"]["name"] == name]
        if same_name:
            pairs[j] = same_name[0]
            left.remove(same_name[0])
    for j in open_results:
        if pairs[j] is None and left:
            pairs[j] = left.pop(0)
    return pairs


def _in_order(calls: Sequence[Message], results: list[Message]) -> list[Message]:
    pairs = pair(calls, results)
    for result, k in zip(results, pairs, strict=True):
        if k is not None:
            _name(result, calls[k]["function"]["name"])
            if not _id(result):
                result["tool_call_id"] = calls[k]["id"]
    known = sorted((k, j) for j, k in enumerate(pairs) if k is not None)
    in_order = iter([results[j] for _, j in known])
    return [
        result if k is None else next(in_order) for k, result in zip(pairs, results, strict=True)
    ]


def _id(message: Message) -> str:
    call_id = message.get("tool_call_id")
    return call_id if isinstance(call_id, str) else "" if call_id is None else str(call_id)


def _name(result: Message, name: str) -> None:
    if name and not result.get("name"):
        result["name"] = name
