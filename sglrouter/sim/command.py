"""`sglrouter sim`: a simulated engine as a process.

A deadly request ends the process at once, as it ends a real engine: exit code 1, open
connections reset. SIGTERM and SIGINT end it in good order, five seconds later at most.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from sglrouter.sim.calls import CallLog
from sglrouter.sim.faults import ACTIONS, Fault, FaultQueue, parse_fault
from sglrouter.sim.options import ANSWERS, DIALECTS, TINY_MODEL, SimOptions
from sglrouter.sim.server import EngineServer

_DRAIN_SECONDS = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `sglrouter sim`."""
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=30000, help="port; 0 takes a free one (default: %(default)s)")
    add(
        "--model",
        type=Path,
        default=TINY_MODEL,
        metavar="DIR",
        help="model folder with tokenizer.json and config.json (default: the embedded tiny model)",
    )
    add(
        "--answer",
        choices=ANSWERS,
        help="who answers: the folder's small language model, an echo of the last user message, "
        "or the file of --script (default: script if one is given, else model)",
    )
    add(
        "--script",
        type=Path,
        metavar="FILE",
        help="the answer to everything: plain text, a JSON list of token ids, or a JSON list of "
        "lists of token ids (one list a chunk)",
    )
    add(
        "--first-delay-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="time before the first token (default: 0)",
    )
    add(
        "--delay-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="time between two steps of a sample (default: 0)",
    )
    add(
        "--tokens-per-chunk",
        type=int,
        default=1,
        metavar="N",
        help="tokens that a step makes, as with speculative decoding (default: 1)",
    )
    add(
        "--dialect",
        choices=tuple(DIALECTS),
        default="current",
        help="speak like this version of the engine (0.5.9) or its servicer (0.13); "
        "default: %(default)s",
    )
    add(
        "--fault",
        type=_fault,
        action="append",
        default=[],
        metavar="SPEC",
        help="what goes wrong with Generate calls: ACTION[,after=N][,times=N][,status=NAME]"
        "[,message=TEXT]. ACTION is one of "
        + "; ".join(f"{name} ({meaning})" for name, meaning in ACTIONS.items())
        + ". It strikes after N messages (default 0), in the next `times` calls (default: all). "
        "May be given several times, one after another",
    )
    add(
        "--max-running-requests",
        type=int,
        default=4096,
        metavar="N",
        help="samples that run at a time; others wait (default: %(default)s)",
    )
    add(
        "--max-queued-requests",
        type=int,
        metavar="N",
        help="samples that may wait; beyond that a request is never answered (default: no limit)",
    )
    add(
        "--context-length",
        type=int,
        metavar="N",
        help="tokens of prompt and answer together (default: as config.json says)",
    )
    add("--embedding", action="store_true", help="be an embedding engine")
    add("--served-model-name", default="", metavar="NAME", help="name that GetModelInfo reports")
    add("--seed", type=int, default=0, help="seed of everything drawn by chance (default: 0)")


def run(args: argparse.Namespace) -> int:
    """Serves until a signal comes; returns the exit code."""
    try:
        options = SimOptions(
            host=args.host,
            port=args.port,
            model=args.model,
            answer=args.answer or ("script" if args.script else "model"),
            script=args.script,
            first_delay=args.first_delay_ms / 1000.0,
            token_delay=args.delay_ms / 1000.0,
            tokens_per_chunk=args.tokens_per_chunk,
            dialect=args.dialect,
            max_running_requests=args.max_running_requests,
            max_queued_requests=args.max_queued_requests,
            context_length=args.context_length,
            embedding=args.embedding,
            served_model_name=args.served_model_name,
            seed=args.seed,
        )
        asyncio.run(_serve(options, args.fault))
    except (OSError, ValueError, RuntimeError) as error:
        _say(f"cannot start: {error}")
        return 1
    return 0


async def _serve(options: SimOptions, planned: list[Fault]) -> None:
    faults = FaultQueue()
    faults.set(planned)
    server = EngineServer(options, CallLog(), faults, _die)
    port = await server.start(options.port)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    _say(f"listening on {options.host}:{port} (model {options.model}, dialect {options.dialect})")
    await ended.wait()
    _say("stopping")
    await server.stop(_DRAIN_SECONDS)


def _die(reason: str) -> None:
    _say(f"died: {reason}")
    sys.stderr.flush()
    os._exit(1)


def _fault(text: str) -> Fault:
    try:
        return parse_fault(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _say(text: str) -> None:
    sys.stderr.write(f"simulated engine: {text}\n")
    sys.stderr.flush()
