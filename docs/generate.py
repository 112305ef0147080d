"""Writes the parts of the documentation that come from the code."""

from __future__ import annotations

from pathlib import Path

from sglrouter.config import settings_table

INTRODUCTION = """\
# Configuration

Generated from `sglrouter/config.py` by `make docs`.

Each setting can be given, strongest first, as

1. a flag of `sglrouter serve` (for those that have one),
2. an environment variable: `SGLROUTER_` and the name in capitals, such as
   `SGLROUTER_PORT=8080`; lists are separated by commas,
3. the original Go router's variable, where the last column names one,
4. a line of the TOML file that `--config` or `SGLROUTER_CONFIG` names, such as `port = 8080`.

A setting that is wrong stops the start with one line that names its source. `sglrouter check`
tries all of it out. Times are in seconds, sizes in bytes.

"""


def configuration() -> str:
    """The text of docs/configuration.md."""
    return INTRODUCTION + settings_table()


if __name__ == "__main__":
    Path(__file__).with_name("configuration.md").write_text(configuration())
