"""What a request costs before it is sent: from its JSON to the engine's message.

A chat of three messages and a prompt of 2,000 tokens go through the router's own steps:
decoding, template, tokens, sampling parameters, message. Beside it, the same with
transformers (its template and its tokenizer, with json and protobuf at the ends), if it
can be imported or --transformers names a Python that can. CPU of the best of many runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
ROOT = Path(__file__).parents[1]
TINY_MODEL = ROOT / "sglrouter" / "sim" / "tiny"
TOKENS = 2_000

Make = Callable[[bytes], bytes]


def main() -> int:
    """Runs what the command line asks for; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    add = parser.add_argument
    add("--model", type=Path, default=TINY_MODEL, help="model folder (default: the tiny model)")
    add("--template", type=Path, help="a chat template for it (default: its own)")
    add("--repeat", type=int, default=300, help="runs, of which the best counts (default: 300)")
    add("--transformers", metavar="PYTHON", help="a Python that has transformers")
    add("--only-transformers", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only_transformers:
        print(json.dumps(_costs(_with_transformers(args.model, args.template), args.repeat)))
        return 0
    columns = {
        "sglrouter": _costs(_ours(args.model, args.template, fast=True), args.repeat),
        "with tokenizers only": _costs(_ours(args.model, args.template, fast=False), args.repeat),
    }
    done = subprocess.run(
        [args.transformers or sys.executable, __file__, "--only-transformers",
         "--model", args.model, "--repeat", str(args.repeat),
         *(["--template", args.template] if args.template else [])],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        columns["transformers"] = json.loads(done.stdout.splitlines()[-1])
    else:
        reason = (done.stderr.strip() or "no output").splitlines()[-1]
        print(f"No column for transformers: {reason}\n")
    header = f"| {'us of CPU':20} |" + "".join(f" {name:>20} |" for name in columns)
    print(header)
    print("|" + "|".join("-" * len(cell) for cell in header.split("|")[1:-1]) + "|")
    for name in _bodies():
        cells = "".join(f" {costs[name]:20.0f} |" for costs in columns.values())
        print(f"| {name:20} |{cells}")
    return 0


def _bodies() -> dict[str, Callable[[int], bytes]]:
    """Makes the request of each scenario; no two runs post the same text."""
    corpus = (TINY_MODEL / "corpus.txt").read_text("utf-8").split()

    def body(*contents: str) -> bytes:
        roles = ("system", "user", "assistant", "user")[-len(contents) :]
        messages = [
            {"role": role, "content": text} for role, text in zip(roles, contents, strict=True)
        ]
        sampling = {"temperature": 0.7, "max_tokens": 256, "stream": True}
        return json.dumps({"model": "m", "messages": messages, **sampling}).encode()

    def chat(run: int) -> bytes:
        return body(
            f"What is the capital of country {run}?",
            "It has none. Do you mean another one?",
            "Yes, the one next to it.",
        )

    def long(run: int) -> bytes:
        start = run * 37 % (len(corpus) - TOKENS)
        return body(f"{run} " + " ".join(corpus[start : start + TOKENS * 2 // 3]))

    return {"three messages": chat, f"about {TOKENS:,} tokens": long}


def _costs(make: Make, repeat: int) -> dict[str, float]:
    """Microseconds of the best run of each scenario."""
    runs = count()
    costs = {}
    for name, body in _bodies().items():
        best = float("inf")
        for _ in range(repeat if "three" in name else max(20, repeat // 10)):
            request = body(next(runs))
            since = time.process_time_ns()
            make(request)
            best = min(best, (time.process_time_ns() - since) / 1e3)
        costs[name] = best
    return costs


def _ours(model: Path, template: Path | None, *, fast: bool) -> Make:
    from sglrouter.config import Settings
    from sglrouter.engines.wire.scheduler import generate_request, new_request_id
    from sglrouter.model import load_model
    from sglrouter.request.limits import Limits, check_prompt
    from sglrouter.request.sampling import sampling
    from sglrouter.schema.chat import decode_chat_request

    if not fast:
        sys.modules["fastokens"] = None  # type: ignore[assignment]  # not to be imported
    settings = Settings(tokenizer=str(model), chat_template=str(template or ""))
    loaded = load_model(settings, model)
    limits = Limits(
        vocab_size=loaded.vocab_size, context_length=100_000, max_prompt_tokens=0, max_n=1
    )

    def make(body: bytes) -> bytes:
        request = decode_chat_request(body)
        prompt = loaded.prompts.build(request.messages)
        check_prompt(prompt.ids, limits)
        params = sampling(
            request,
            prompt_tokens=len(prompt.ids),
            defaults=loaded.files.sampling_defaults,
            limits=limits,
            constraint=None,
        )
        return generate_request(
            request_id=new_request_id(),
            text=prompt.text,
            ids=prompt.ids,
            sampling=params,
            stream=bool(request.stream),
        )

    return make


def _with_transformers(model: Path, template: Path | None) -> Make:
    """As a server in Python does it; what stands for protobuf is a list of the ids."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AutoTokenizer  # type: ignore[import-not-found,unused-ignore]

    tokenizer = AutoTokenizer.from_pretrained(str(model))
    if template is not None:
        tokenizer.chat_template = template.read_text("utf-8")

    def make(body: bytes) -> bytes:
        request = json.loads(body)
        text = tokenizer.apply_chat_template(
            request["messages"], tokenize=False, add_generation_prompt=True
        )
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return json.dumps([text, ids]).encode()

    return make


if __name__ == "__main__":
    sys.exit(main())
