"""One chat completion, without a server in between.

    python docs/examples/simple.py grpc://localhost:20000 [--tokenizer FOLDER]

Without a folder the model's files come from the engine.
"""

from __future__ import annotations

import argparse
import sys

from sglrouter import Client
from sglrouter.errors import RouterError


def main() -> int:
    """Asks a question and prints the answer; returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", help="such as grpc://localhost:20000")
    parser.add_argument("--tokenizer", default="", help="the model's folder")
    options = parser.parse_args()
    request = {
        "messages": [
            {"role": "system", "content": "Answer in one sentence."},
            {"role": "user", "content": "What is the capital of France?"},
        ],
        "max_tokens": 100,
    }
    with Client(options.engine, options.tokenizer) as client:
        try:
            completion = client.create_chat_completion(request)
        except RouterError as exc:
            print(f"{exc.status} {exc.code}: {exc.message}", file=sys.stderr)
            return 1
    choice, usage = completion["choices"][0], completion["usage"]
    print(choice["message"]["content"])
    print(f"({choice['finish_reason']}, {usage['completion_tokens']} tokens)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
