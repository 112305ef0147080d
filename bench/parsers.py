"""What the output parsers do with a megabyte: work in proportion, whatever the text is.

    python bench/parsers.py                  # CPU seconds of each format
    python bench/parsers.py --instructions   # instructions for one and two lengths (valgrind)

Three texts for each format: a string argument that goes on and on, its markers repeated, and
a marker that is left open before junk. The argument comes one byte at a time. Time depends
on the machine; instructions do not, so that twice the text taking about twice of them
shows that the work is linear.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable

from sglrouter.families.formats.program import Format, Tools
from sglrouter.families.reading import Reading
from sglrouter.families.registry import TOOL_FORMATS

TOOLS = Tools(
    [
        {
            "type": "function",
            "function": {
                "name": "f",
                "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
            },
        }
    ]
)

# How a call of f begins whose argument a is a string.
OPEN_ARGUMENT = {
    "deepseekv31": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": "',
    "deepseekv32": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
    '<｜DSML｜parameter name="a" string="true">',
    "glm45": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>",
    "gpt-oss": '<|channel|>commentary to=functions.f<|message|>{"a": "',
    "hermes": '<tool_call>\n{"name": "f", "arguments": {"a": "',
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
    '<|tool_call_argument_begin|>{"a": "',
    "llama3": '{"name": "f", "parameters": {"a": "',
    "minimax-m2": '<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">',
    "mistral": '[TOOL_CALLS]f[ARGS]{"a": "',
    "pythonic": "[f(a='",
    "qwen3_coder": "<tool_call>\n<function=f>\n<parameter=a>\n",
}


def _feed(form: Format, data: bytes, step: int) -> None:
    parser = Reading(calls=form, tools=TOOLS).parser()
    assert parser is not None
    for at in range(0, len(data), step):
        parser.feed(data[at : at + step])
    parser.finish()
    parser.take()


def _argument(name: str, size: int) -> None:
    _feed(TOOL_FORMATS[name], OPEN_ARGUMENT[name].encode() + b"x < y " * (size // 6), 1)


def _repeated(name: str, size: int) -> None:
    for marker in TOOL_FORMATS[name].markers:
        _feed(TOOL_FORMATS[name], marker.encode() * (size // len(marker.encode())), 7)


def _left_open(name: str, size: int) -> None:
    for marker in TOOL_FORMATS[name].markers:
        _feed(TOOL_FORMATS[name], marker.encode() + b"{['\"<a " * (size // 7), 7)


TEXTS: dict[str, Callable[[str, int], None]] = {
    "argument": _argument,
    "repeated": _repeated,
    "left open": _left_open,
}


def _instructions(name: str, text: str, size: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    command += [__file__, "--format", name, "--text", text, "--size", str(size)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1])


def main() -> None:
    """Prints a table, or reads one text once."""
    options = argparse.ArgumentParser(
        description="What the output parsers do with long and hostile texts."
    )
    options.add_argument("--format", action="append", choices=sorted(OPEN_ARGUMENT))
    options.add_argument("--text", choices=list(TEXTS), help="read this one once, and no more")
    options.add_argument("--size", type=int, default=1_000_000, help="bytes of it")
    options.add_argument("--instructions", action="store_true", help="count them with valgrind")
    chosen = options.parse_args()
    names = chosen.format or sorted(OPEN_ARGUMENT)
    if chosen.text:
        TEXTS[chosen.text](names[0], chosen.size)
        return
    print(f"| {'format':<12} | " + " | ".join(f"{text:>10}" for text in TEXTS) + " |")
    print("|" + "-" * 14 + "|" + ("-" * 12 + "|") * len(TEXTS))
    for name in names:
        cells = []
        for text, read in TEXTS.items():
            if chosen.instructions:
                size = min(chosen.size, 50_000)
                nothing, once, twice = (_instructions(name, text, n) for n in (0, size, 2 * size))
                cells.append(f"{(twice - nothing) / (once - nothing):10.2f}")
            else:
                start = time.process_time()
                read(name, chosen.size)
                cells.append(f"{time.process_time() - start:10.2f}")
        print(f"| {name:<12} | " + " | ".join(cells) + " |", flush=True)
    what = "instructions for twice the text" if chosen.instructions else "CPU seconds a megabyte"
    print(f"\n{what}")


if __name__ == "__main__":
    main()
