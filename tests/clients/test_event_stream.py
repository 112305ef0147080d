"""The reader that judges our streams, against what the standard says of streams."""

from __future__ import annotations

import pytest

from tests.clients.event_stream import Event, EventStreamReader


def read(body: bytes) -> list[Event]:
    """The blocks of a body, the same at once and byte by byte."""
    whole = EventStreamReader().feed(body)
    reader = EventStreamReader()
    pieces = [event for byte in body for event in reader.feed(bytes([byte]))]
    assert pieces == whole
    return whole


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_in_three_ways(end: bytes) -> None:
    body = end.join([b"data: one", b"data:two", b"", b": note", b"", b"data", b"", b""])
    assert [event.data for event in read(body)] == ["one\ntwo", None, ""]
    assert read(body)[1].comments == [" note"]


def test_other_line_ends_are_text() -> None:
    (event,) = read("data: a\u2028b\x85c\u2029d\x0ce\n\n".encode())
    assert event.data == "a\u2028b\x85c\u2029d\x0ce"


def test_a_mark_is_skipped_once() -> None:
    events = read(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n")
    assert [event.data for event in events] == ["a", None]
    assert events[1].fields == ["\ufeffdata"]


def test_one_space_is_taken_off() -> None:
    assert [event.data for event in read(b"data:  a\n\ndata:a: b\n\n")] == [" a", "a: b"]


def test_fields_besides_data_are_told() -> None:
    (event,) = read(b"event: error\nretry: 5\nid: 7\ndata: x\n\n")
    assert (event.type, event.data) == ("error", "x")
    assert event.fields == ["event", "retry", "id", "data"]


@pytest.mark.parametrize("body", [b"data: x", b"data: x\n", b": x\n"])
def test_what_no_empty_line_ends_is_no_event(body: bytes) -> None:
    reader = EventStreamReader()
    assert reader.feed(body) == []
    assert reader.rest
    assert len(reader.feed(b"\n\n")) == 1
    assert not reader.rest


def test_what_is_not_utf_8_is_found() -> None:
    with pytest.raises(UnicodeDecodeError):
        read(b"data: \xff\n\n")
