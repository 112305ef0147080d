"""What a simulated engine is told: options, and the dialects of engine versions.

Options are plain attributes read at the moment they matter, so that a test may change
a delay or a limit of a running engine. A dialect is the list of ways in which an engine
version differs on the wire; the code asks for the difference, never for the version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

TINY_MODEL = Path(__file__).parent / "tiny"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine version speaks; every default is the current version's way."""

    name: str
    sglang_version: str
    # Errors inside the response message, with status OK.
    in_band_errors: bool = False
    # The finished step has no chunk of its own: its ids come in `complete` only.
    last_delta_in_complete_only: bool = False
    # A refusal by the scheduler is a `complete` with "abort", no ids and status OK.
    refusal_is_abort: bool = False
    # top_p, top_k and repetition_penalty of zero are used as they are.
    literal_zeros: bool = False
    refuses_hidden_states: bool = True
    sends_selected_logprobs: bool = True
    # The server allows keepalive pings every 10 s, not only every 300 s.
    allows_keepalive: bool = True
    missing_methods: frozenset[str] = frozenset()


DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect("current", "0.5.23"),
        Dialect(
            "0.13",
            "0.5.19",
            refusal_is_abort=True,
            literal_zeros=True,
            refuses_hidden_states=False,
            sends_selected_logprobs=False,
        ),
        Dialect(
            "0.5.9",
            "0.5.9",
            in_band_errors=True,
            last_delta_in_complete_only=True,
            literal_zeros=True,
            refuses_hidden_states=False,
            sends_selected_logprobs=False,
            allows_keepalive=False,
            missing_methods=frozenset(
                {"GetTokenizer", "FlushCache", "StartProfile", "StopProfile"}
            ),
        ),
    )
}

ANSWERS = ("model", "echo", "script")


@dataclass(slots=True)
class SimOptions:
    """Everything that can be set on a simulated engine.

    Times are in seconds. Every option but host, port, model, script and dialect may be
    changed while the engine runs.
    """

    host: str = "127.0.0.1"
    # 0: a free port, kept over restarts.
    port: int = 0
    # A model folder: config.json, tokenizer.json and what else there is.
    model: Path = TINY_MODEL
    # Where the tokens come from: "model", "echo" or "script".
    answer: str = "model"
    # A file for answer "script": JSON ids, JSON lists of ids (one a chunk), or text.
    script: Path | None = None
    first_delay: float = 0.0
    token_delay: float = 0.0
    # Tokens made in one step, as speculative decoding does.
    tokens_per_chunk: int = 1
    # Tokens a chunk for requests that do not say it themselves.
    stream_interval: int = 1
    # A name of DIALECTS.
    dialect: str = "current"
    max_running_requests: int = 4096
    # None: no limit. Beyond it a request is never answered.
    max_queued_requests: int | None = None
    # None: max_position_embeddings of config.json.
    context_length: int | None = None
    embedding: bool = False
    served_model_name: str = ""
    seed: int = 0
    # Put over the server_args that GetServerInfo reports.
    server_args: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ValueError for a value that no engine could run with."""
        if self.dialect not in DIALECTS:
            raise ValueError(f"unknown dialect {self.dialect!r}; known: {', '.join(DIALECTS)}")
        if self.answer not in ANSWERS:
            raise ValueError(f"unknown answer {self.answer!r}; known: {', '.join(ANSWERS)}")
        if self.answer == "script" and self.script is None:
            raise ValueError("answer 'script' needs a script file")
        if self.tokens_per_chunk < 1 or self.stream_interval < 1:
            raise ValueError("tokens_per_chunk and stream_interval start at 1")
        if self.max_running_requests < 1:
            raise ValueError("max_running_requests starts at 1")
