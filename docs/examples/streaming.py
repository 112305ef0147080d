"""A streamed chat completion that Ctrl-C, or a watchdog in another thread, cancels.

python docs/examples/streaming.py grpc://localhost:20000 [--tokenizer FOLDER] [--within SECONDS]
"""

from __future__ import annotations

import argparse
import sys
import threading

from sglrouter import Cancelled, Client, Timeouts
from sglrouter.errors import RouterError


def main() -> int:
    """Prints an answer as it comes; returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", help="such as grpc://localhost:20000")
    parser.add_argument("--tokenizer", default="", help="the model's folder")
    parser.add_argument("--within", type=float, default=30.0, help="the most seconds it may take")
    options = parser.parse_args()
    request = {"messages": [{"role": "user", "content": "Tell me about the weather in Paris."}]}
    with (
        Client(
            options.engine, options.tokenizer, timeouts=Timeouts(first_token=60.0, idle=30.0)
        ) as client,
        client.create_chat_completion_stream(request) as stream,
    ):
        # Any thread may cancel, also while this one waits for a chunk.
        watchdog = threading.Timer(options.within, stream.cancel)
        watchdog.start()
        try:
            for chunk in stream:
                for choice in chunk["choices"]:
                    print(choice["delta"].get("content") or "", end="", flush=True)
        except Cancelled:
            print(f"\nThat took longer than {options.within:g} s.", file=sys.stderr)
            return 1
        except RouterError as exc:
            print(f"\n{exc.status} {exc.code}: {exc.message}", file=sys.stderr)
            return 1
        finally:
            watchdog.cancel()
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
