"""Every setting once: name, type, bounds, default and meaning.

`Settings` is the single list; setting_sources.py tells where the values come from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta

# The original router's environment names; the first that is set wins.
ALIASES = {
    "SGL_TOKENIZER_PATH": "tokenizer",
    "SGL_GRPC_ENDPOINTS": "engine",
    "SGL_GRPC_ENDPOINT": "engine",
    "PORT": "port",
    "LOG_DIR": "log_dir",
    "LOG_LEVEL": "log_level",
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that can be set. Times are in seconds, sizes in bytes."""

    host: Annotated[str, Meta(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="TCP port to listen on.")] = 8080
    workers: Annotated[
        int, Meta(ge=0, le=512, description="Worker processes; 0 means one for each core.")
    ] = 0
    engine: Annotated[
        list[str],
        Meta(min_length=1, description="Engines, each as grpc://HOST:PORT, separated by commas."),
    ] = msgspec.field(default_factory=lambda: ["grpc://localhost:20000"])
    tokenizer: Annotated[
        str,
        Meta(
            description="Folder with tokenizer.json and the model's other files; empty means "
            "that they are fetched from the first engine."
        ),
    ] = ""
    chat_template: Annotated[
        str,
        Meta(
            description="File that replaces the model's own chat templates: Jinja, or JSON with "
            "the field `chat_template`."
        ),
    ] = ""
    chat_template_name: Annotated[
        str,
        Meta(
            description="Which of the model's chat templates to use; empty means `tool_use` where "
            "there are tools and it exists, else `default`."
        ),
    ] = ""
    default_chat_template_kwargs: Annotated[
        dict[str, Any],
        Meta(
            description="Variables for the chat template where a request leaves them out, as a "
            'JSON object or a TOML table, such as `{"enable_thinking": false}`.'
        ),
    ] = msgspec.field(default_factory=dict)
    chat_template_timeout: Annotated[
        float, Meta(gt=0, description="Longest time that the chat template may work on a request.")
    ] = 2.0
    max_prompt: Annotated[
        int, Meta(ge=1024, description="Longest prompt that is rendered, in characters.")
    ] = 64 * 1024 * 1024
    sort_tools: Annotated[
        bool,
        Meta(
            description="Whether tools are shown to the model with their keys sorted, so that "
            "clients that order them otherwise share an engine's prefix cache."
        ),
    ] = False
    tokenizer_threads: Annotated[
        int,
        Meta(
            ge=0,
            le=64,
            description="Threads of a worker that tokenize long prompts while its streams go on; "
            "0 means one for each core, up to four.",
        ),
    ] = 0
    tokenizer_cache: Annotated[
        int,
        Meta(
            ge=0,
            le=2**40,
            description="Memory of a worker for the tokens of earlier messages, which come again "
            "with each turn of a conversation (only with fastokens); 0 keeps none.",
        ),
    ] = 16 * 1024 * 1024
    control_tokens: Annotated[
        str,
        Meta(
            pattern="^(allow|text)$",
            description="What text such as `<|im_end|>` in messages and tools is to the model: "
            "`allow` makes it the control token, as Hugging Face does, `text` never does.",
        ),
    ] = "allow"
    model_name: Annotated[
        str,
        Meta(
            description="What requests and /v1/models call the model; empty means the engine's "
            "`--served-model-name`, else the name of the folder."
        ),
    ] = ""
    model_aliases: Annotated[
        list[str],
        Meta(description="Other names that the model answers to, separated by commas."),
    ] = msgspec.field(default_factory=lambda: ["default"])
    unknown_models: Annotated[
        str,
        Meta(
            pattern="^(auto|refuse|accept)$",
            description="What becomes of requests for a model of another name: `refuse` answers "
            "them with a 404, `accept` serves them all the same, `auto` refuses them where "
            "the model's name has been told (`model_name`, or the engine's "
            "`--served-model-name`) and accepts them where it is guessed from a folder.",
        ),
    ] = "auto"
    tool_call_parser: Annotated[
        str,
        Meta(
            description="Format of the model's tool calls, as SGLang names it; `auto` to be told "
            "by its chat template, empty to pass them on as text."
        ),
    ] = "auto"
    reasoning_parser: Annotated[
        str,
        Meta(
            description="Format of the model's reasoning, as SGLang names it; `auto` to be told "
            "by its chat template, empty to pass it on as text."
        ),
    ] = "auto"
    reasoning_field: Annotated[
        str,
        Meta(
            pattern="^(reasoning_content|reasoning|both)$",
            description="The field of messages and deltas that reasoning goes into.",
        ),
    ] = "reasoning_content"
    unknown_tools: Annotated[
        str,
        Meta(
            pattern="^(forward|drop)$",
            description="What becomes of calls of functions that the request does not have.",
        ),
    ] = "forward"
    context_length: Annotated[
        int,
        Meta(
            ge=0,
            description="Context in tokens; 0 means what config.json and the engine say.",
        ),
    ] = 0
    channel: Annotated[
        str,
        Meta(
            pattern="^(auto|native|grpcio)$",
            description="How engines are spoken to: `native` is fast and plaintext, `grpcio` also "
            "does TLS; `auto` takes the first that fits.",
        ),
    ] = "auto"
    request_timeout: Annotated[
        float, Meta(gt=0, description="Longest time that one completion may take.")
    ] = 3600.0
    first_token_timeout: Annotated[
        float,
        Meta(
            gt=0,
            description="Longest wait for an engine's first answer. An engine whose queue is full "
            "never answers.",
        ),
    ] = 600.0
    idle_timeout: Annotated[
        float, Meta(gt=0, description="Longest silence of an engine between two tokens.")
    ] = 120.0
    engine_start_timeout: Annotated[
        float,
        Meta(ge=0, description="How long to wait for an engine that must send the tokenizer."),
    ] = 600.0
    heartbeat: Annotated[
        float,
        Meta(gt=0, description="Interval of `: ping` comments while a stream is silent."),
    ] = 15.0
    max_body: Annotated[
        int,
        Meta(
            ge=1024,
            description="Largest request body. A context of a million tokens is 5 to 6 MB as JSON.",
        ),
    ] = 8 * 1024 * 1024
    body_timeout: Annotated[
        float,
        Meta(
            gt=0,
            description="Longest silence of a client within a request body, and the time that any "
            "body may take; see body_rate.",
        ),
    ] = 30.0
    body_rate: Annotated[
        int,
        Meta(
            ge=1,
            description="Least rate of a request body in bytes a second: so many that have "
            "arrived allow it another second beyond body_timeout.",
        ),
    ] = 4096
    body_memory: Annotated[
        int,
        Meta(
            ge=1024,
            description="Bytes that the request bodies being read by a worker may hold together; "
            "a large body beyond that is a 503. Those below 64 KiB are always read.",
        ),
    ] = 256 * 1024 * 1024
    send_timeout: Annotated[
        float,
        Meta(
            ge=1,
            le=86_400,
            description="How long a client may take nothing of its answer, or not be heard of "
            "though the network is asked for it, before its request is cancelled.",
        ),
    ] = 60.0
    max_n: Annotated[
        int, Meta(ge=1, le=128, description="Largest n, the choices of one request.")
    ] = 16
    max_prompts: Annotated[
        int,
        Meta(
            ge=1,
            le=4096,
            description="Most prompts of one request, where it may have several.",
        ),
    ] = 128
    max_json_depth: Annotated[
        int,
        Meta(
            ge=10,
            le=500,
            description="Deepest nesting of a request body, the schemas of tools in it included.",
        ),
    ] = 100
    max_json_values: Annotated[
        int,
        Meta(
            ge=1000,
            description="Most values in a request body, each of which takes time and memory; of "
            "numbers in lists, such as token ids, 16 count as one.",
        ),
    ] = 65_536
    max_logprobs: Annotated[
        int,
        Meta(
            ge=1000,
            description="Most log probabilities of an answer that is not streamed: n times tokens "
            "times 1 + top_logprobs.",
        ),
    ] = 16_000_000
    max_grammar: Annotated[
        int,
        Meta(ge=1000, description="Longest grammar or schema sent to an engine, in characters."),
    ] = 1_000_000
    lora_adapters: Annotated[
        list[str],
        Meta(
            description="LoRA adapters that clients may ask for, each as NAME=ID with the id of "
            "the engine, separated by commas."
        ),
    ] = msgspec.field(default_factory=list)
    callbacks: Annotated[
        bool,
        Meta(
            description="Whether plain requests are served in callbacks of the event loop, which "
            "costs about half the CPU a request; without, each gets a greenlet and gunicorn's "
            "own parser. Clients see no difference."
        ),
    ] = True
    keepalive: Annotated[
        int, Meta(ge=1, le=600, description="How long an idle client connection is kept.")
    ] = 5
    graceful_timeout: Annotated[
        int,
        Meta(
            ge=1,
            description="How long running requests may go on after SIGTERM. A second before the "
            "end, each that is left gets the error `server_shutting_down`.",
        ),
    ] = 60
    worker_connections: Annotated[
        int,
        Meta(
            ge=1,
            description="Client connections of one worker. Idle ones make room for new ones; "
            "beyond that, requests get a 503, except for /liveness, /health and their kin.",
        ),
    ] = 4096
    cors_origins: Annotated[
        list[str],
        Meta(
            description="Origins whose web pages may use the API, such as "
            "`https://chat.example.com`, separated by commas; `*` for all, empty for none."
        ),
    ] = msgspec.field(default_factory=list)
    allowed_hosts: Annotated[
        list[str],
        Meta(
            description="Names or addresses that requests of control must be for, without the "
            "port, separated by commas; empty for any."
        ),
    ] = msgspec.field(default_factory=list)
    control_by_get: Annotated[
        bool,
        Meta(
            description="Whether GET does what POST does on /flush_cache, /start_profile and "
            "/stop_profile, as on SGLang's own server."
        ),
    ] = False
    profile_dir: Annotated[
        str,
        Meta(
            description="Where engines write the traces of /start_profile, on their machines; "
            "empty leaves it to them. A client's `output_dir` is ignored."
        ),
    ] = ""
    cache_dir: Annotated[
        str,
        Meta(
            description="Where tokenizers fetched from engines are kept; empty means "
            "$CACHE_DIRECTORY, else $XDG_CACHE_HOME/sglrouter, else ~/.cache/sglrouter."
        ),
    ] = ""
    log_level: Annotated[
        str,
        Meta(pattern="^(debug|info|warning|error|critical)$", description="Least level logged."),
    ] = "info"
    log_dir: Annotated[
        str, Meta(description="Folder for sglrouter.log; empty means standard error.")
    ] = ""
    access_log: Annotated[bool, Meta(description="Whether each request is logged.")] = False


TYPES = get_type_hints(Settings, include_extras=True)
NAMES = tuple(field.name for field in msgspec.structs.fields(Settings))


def cache_directory(settings: Settings, environ: Mapping[str, str] | None = None) -> Path:
    """The folder for fetched tokenizers; it need not exist yet."""
    environ = os.environ if environ is None else environ
    if settings.cache_dir:
        return Path(settings.cache_dir)
    if environ.get("CACHE_DIRECTORY"):
        return Path(environ["CACHE_DIRECTORY"])
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sglrouter"


def settings_table() -> str:
    """All settings as a Markdown table, for the documentation."""
    originals: dict[str, list[str]] = {}
    for variable, name in ALIASES.items():
        originals.setdefault(name, []).append(f"`{variable}`")
    lines = ["| setting | default | meaning | original's name |", "|---|---|---|---|"]
    defaults = Settings()
    for name in NAMES:
        default = getattr(defaults, name)
        shown = ",".join(default) if isinstance(default, list) else str(default)
        shown = shown.lower() if isinstance(default, bool) else shown
        shown = "" if default == {} else shown
        lines.append(
            f"| `{name}` | {f'`{shown}`' if shown else 'empty'} | {_description(name)} | "
            f"{', '.join(originals.get(name, []))} |"
        )
    return "\n".join(lines) + "\n"


def _description(name: str) -> str:
    meta = next(arg for arg in get_args(TYPES[name]) if isinstance(arg, Meta))
    return meta.description or ""
