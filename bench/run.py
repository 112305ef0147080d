"""What a token costs the router: the whole system, with each kind of channel.

A simulated engine, a router for each kind of channel and a load generator run on this
machine, the router on a core of its own where there are two. The channels take turns,
round by round, so that both see the same noise, and the medians are printed. A wrong
text or an error makes the run fail; a slow one does not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

import msgspec
import tokenizers
from load import Load, WrongAnswer, check_responses, run_load
from servers import Engine, Router, split_cores

from sglrouter.engines.channel.connect import HOW_TO_GET_HTTP2, http2_is_built
from sglrouter.sim.options import TINY_MODEL

TOKENS = 128
TARGET = 0.2

ANSWER = (
    "A router stands between those who ask and the machines that answer. It takes a question, "
    "makes numbers of it, and sends them on; what comes back it turns into words again, piece by "
    "piece, as soon as each piece is there. None of that is hard once. It has to be done for every "
    "token of every answer, a few thousand times a second, and that is what is measured here. "
    "Whoever waits for an answer should see its first word at once and its last one no later than "
    "the machine that wrote it; whoever pays for the router should hardly notice that it is there. "
)


class Scenario(NamedTuple):
    """One way of asking, and how the engine answers."""

    meaning: str
    clients: int
    stream: bool
    engine: tuple[str, ...] = ()


SCENARIOS = {
    "stream": Scenario("one token a message, back to back", 64, True),
    "paced": Scenario("one token a message, 10 ms between them", 128, True, ("--delay-ms", "10")),
    "whole": Scenario("not streamed", 64, False),
    "chunks": Scenario("eight tokens a message", 64, True, ("--tokens-per-chunk", "8")),
}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What one run shows; times in the unit of their names, CPU as shares of one core."""

    cpu_us_per_token: float
    cpu_us_per_request: float
    requests_per_second: float
    first_token_ms_p50: float
    first_token_ms_p99: float
    router_cpu: float
    engine_cpu: float
    requests: int


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One channel in one scenario: the median of the rounds, and each of them."""

    scenario: str
    channel: str
    median: Figures
    rounds: list[Figures]


def main() -> int:
    """Runs what the command line asks for; returns the exit status."""
    args = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    channels = ["native", "grpcio"]
    if not http2_is_built():
        print(f"grpcio alone: {HOW_TO_GET_HTTP2}\n")
        channels = ["grpcio"]
    router_cores, other_cores = split_cores()
    os.sched_setaffinity(0, other_cores)
    if router_cores & other_cores:
        print("There is only one core here: router, engine and load share it.\n")
    results: list[Result] = []
    try:
        for name in args.scenario or SCENARIOS:
            results += _run_scenario(name, channels, args, router_cores, other_cores)
    except (WrongAnswer, RuntimeError, OSError) as exc:
        print(f"FAILED: {exc}", file=sys.stderr)
        return 1
    _print_results(results)
    if args.json:
        args.json.write_bytes(msgspec.json.format(msgspec.json.encode(_document(results))) + b"\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--secs", type=float, default=1.5, help="seconds of each run (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs of each channel (default: %(default)s)"
    )
    parser.add_argument(
        "--scenario",
        action="append",
        choices=list(SCENARIOS),
        help="may be given several times (default: all)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, too")
    args = parser.parse_args()
    if args.secs <= 0 or args.rounds < 1:
        parser.error("--secs must be above 0 and --rounds at least 1")
    return args


def _run_scenario(
    name: str,
    channels: Sequence[str],
    args: argparse.Namespace,
    router_cores: set[int],
    other_cores: set[int],
) -> list[Result]:
    scenario = SCENARIOS[name]
    ids, text = _script()
    figures: dict[str, list[Figures]] = {channel: [] for channel in channels}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        script = folder / "script.json"
        script.write_text(json.dumps(ids))
        engine = stack.enter_context(Engine(script, scenario.engine, other_cores))
        address = engine.address()
        routers = {
            channel: stack.enter_context(Router(address, channel, router_cores))
            for channel in channels
        }
        for router in routers.values():
            router.wait_until_ready()
            _measure(scenario, text, engine, router, clients=8, seconds=0.0)
        for turn in range(args.rounds):
            # Whoever goes first in one round goes last in the next.
            for channel in channels if turn % 2 == 0 else reversed(channels):
                _say(f"{name}: round {turn + 1} of {args.rounds}, {channel}")
                figures[channel].append(
                    _measure(
                        scenario,
                        text,
                        engine,
                        routers[channel],
                        clients=scenario.clients,
                        seconds=args.secs,
                    )
                )
    return [
        Result(scenario=name, channel=channel, median=_median(runs), rounds=runs)
        for channel, runs in figures.items()
    ]


def _measure(
    scenario: Scenario, text: str, engine: Engine, router: Router, *, clients: int, seconds: float
) -> Figures:
    body = json.dumps(
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "What does a router do?"}],
            "max_tokens": TOKENS,
            "stream": scenario.stream,
        }
    ).encode()
    router_before, engine_before = router.cpu(), engine.cpu()
    load = run_load(router.port, body, clients=clients, seconds=seconds)
    router_cpu, engine_cpu = router.cpu() - router_before, engine.cpu() - engine_before
    check_responses(load.responses, text, TOKENS, stream=scenario.stream)
    return _figures(load, router_cpu, engine_cpu)


def _figures(load: Load, router_cpu: float, engine_cpu: float) -> Figures:
    requests = len(load.responses)
    waits = sorted(response.first_token for response in load.responses)
    return Figures(
        cpu_us_per_token=router_cpu * 1e6 / (requests * TOKENS),
        cpu_us_per_request=router_cpu * 1e6 / requests,
        requests_per_second=requests / load.seconds,
        first_token_ms_p50=waits[requests // 2] * 1e3,
        first_token_ms_p99=waits[requests * 99 // 100] * 1e3,
        router_cpu=router_cpu / load.seconds,
        engine_cpu=engine_cpu / load.seconds,
        requests=requests,
    )


def _median(runs: Sequence[Figures]) -> Figures:
    rows = [msgspec.structs.asdict(run) for run in runs]
    return msgspec.convert(
        {name: median_low(row[name] for row in rows) for name in rows[0]}, Figures, strict=False
    )


def _script() -> tuple[list[int], str]:
    """The answer's ids, and their text."""
    tokenizer = tokenizers.Tokenizer.from_file(str(TINY_MODEL / "tokenizer.json"))
    ids: list[int] = tokenizer.encode(ANSWER, add_special_tokens=False).ids[:TOKENS]
    assert len(ids) == TOKENS, "the answer is too short"
    return ids, tokenizer.decode(ids)


def _print_results(results: Sequence[Result]) -> None:
    header = (
        f"| {'scenario':8} | {'channel':7} | {'us/token':>8} | {'us/request':>10} "
        f"| {'requests/s':>10} | {'first token p50, p99 ms':>23} | {'router':>6} | {'engine':>6} |"
    )
    print(header)
    print("|" + "|".join("-" * len(cell) for cell in header.split("|")[1:-1]) + "|")
    for result in results:
        row = result.median
        waits = f"{row.first_token_ms_p50:.1f}, {row.first_token_ms_p99:.1f}"
        print(
            f"| {result.scenario:8} | {result.channel:7} | {row.cpu_us_per_token:8.2f} "
            f"| {row.cpu_us_per_request:10.0f} | {row.requests_per_second:10.1f} | {waits:>23} "
            f"| {row.router_cpu:6.0%} | {row.engine_cpu:6.0%} |"
        )
    print()
    for name in dict.fromkeys(result.scenario for result in results):
        scenario = SCENARIOS[name]
        print(f"{name}: {scenario.clients} clients, {TOKENS} tokens, {scenario.meaning}")
    print("us are of the router's CPU; router and engine are their shares of one core.")
    checked = sum(run.requests for result in results for run in result.rounds)
    print(f"{checked} texts checked, all right.")
    ratios = _ratios(results)
    if ratios:
        print(f"\nCPU per token, native / grpcio (target in streams: at most {TARGET}):")
        for name, ratio in ratios.items():
            print(f"  {name:8} {ratio:.2f}")


def _ratios(results: Sequence[Result]) -> dict[str, float]:
    """CPU per token with the native channel, as a share of grpcio's."""
    cost = {(result.scenario, result.channel): result.median.cpu_us_per_token for result in results}
    return {
        name: cost[name, "native"] / cost[name, "grpcio"]
        for name in SCENARIOS
        if (name, "native") in cost
    }


def _document(results: Sequence[Result]) -> dict[str, object]:
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "results": results,
        "native_to_grpcio": _ratios(results),
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
