"""The benchmarks run, and check what they count. How fast anything is, is not asked here."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sglrouter.engines.channel.connect import http2_is_built
from tests.patience import PROGRAM_PATIENCE

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, f"bench/{script}", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(table: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("scenario", ["chunks", "whole"])
def test_the_whole_system(scenario: str, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    said = run(
        "run.py", "--secs", "0.5", "--rounds", "1", "--scenario", scenario, "--json", str(file)
    )
    channels = ["native", "grpcio"] if http2_is_built() else ["grpcio"]
    assert [row[:2] for row in rows(said)] == [[scenario, channel] for channel in channels]
    document = json.loads(file.read_text())
    counts = [each["requests"] for result in document["results"] for each in result["rounds"]]
    assert len(counts) == len(channels)
    assert min(counts) >= 64, "every client gets one answer at least"
    assert f"{sum(counts)} texts checked" in said
    assert list(document["native_to_grpcio"]) == ([scenario] if len(channels) == 2 else [])
    assert ("native / grpcio" in said) == (len(channels) == 2)


def test_a_wrong_answer_is_noticed() -> None:
    spec = importlib.util.spec_from_file_location("load", ROOT / "bench" / "load.py")
    assert spec is not None
    assert spec.loader is not None
    load = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(load)

    def check(body: bytes, text: str, *, stream: bool, status: bytes = b"200 OK") -> None:
        response = load.Response(b"HTTP/1.1 " + status, body, 0.1)
        load.check_responses([response], text, 3, stream=stream)

    choice: dict[str, object] = {"message": {"content": "abc"}, "finish_reason": "length"}
    whole = json.dumps({"choices": [choice], "usage": {"completion_tokens": 3}}).encode()
    check(whole, "abc", stream=False)
    events = [
        {"choices": [{"delta": {"content": text}, "finish_reason": reason}]}
        for text, reason in [("a", None), ("bc", None), ("", "length")]
    ]
    parts = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    parts.append(b"data: [DONE]\n\n")
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts] + [b"0\r\n\r\n"]
    check(b"".join(chunks), "abc", stream=True)
    for cut in range(len(chunks)):
        with pytest.raises(load.WrongAnswer):
            check(b"".join(chunks[:cut] + chunks[cut + 1 :]), "abc", stream=True)
    for body, text, status in [
        (whole, "abd", b"200 OK"),
        (whole, "abc", b"503 Service Unavailable"),
        (whole.replace(b": 3", b": 2"), "abc", b"200 OK"),
        (whole.replace(b"length", b"stop"), "abc", b"200 OK"),
        (b"{}", "abc", b"200 OK"),
    ]:
        with pytest.raises(load.WrongAnswer):
            check(body, text, stream=False, status=status)


def test_the_compiled_parts() -> None:
    table = rows(run("micro.py", "--repeat", "2"))
    assert [row[0] for row in table] == [
        "GenerateReader.feed",
        "Detokenizer.feed_ids",
        "StopMatcher.feed",
        "ChunkFramer.content",
        "Sample.feed",
        "ChatStream.feed",
    ]
    assert all(float(cell) > 0 for row in table for cell in row[1:])


def test_a_request_until_it_is_sent() -> None:
    table = rows(run("prompt.py", "--repeat", "2"))
    assert [row[0] for row in table] == ["three messages", "about 2,000 tokens"]
    assert all(float(cell) > 0 for row in table for cell in row[1:])
    assert all(len(row) >= 3 for row in table)


def test_streams_beside_long_prompts() -> None:
    arguments = ("--secs", "0.8", "--streams", "4", "--bytes", "200000", "--rounds", "1")
    table = rows(run("long_prompt.py", *arguments))
    assert [row[0] for row in table] == ["fastokens", "fastokens", "tokenizers", "tokenizers"]
    prompts = [int(row[1]) for row in table]
    assert prompts[0] == prompts[2] == 0
    assert min(prompts[1], prompts[3]) > 0
    assert all(0 < float(row[3]) <= float(row[4]) <= float(row[6]) for row in table)
