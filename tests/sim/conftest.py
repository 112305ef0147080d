"""A model folder made for these tests, and engines and clients that clean up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from sglrouter.sim import SimOptions, SimulatedEngine
from sglrouter.sim.model_folder import ModelFolder
from tests.sim.wire import EngineClient

if TYPE_CHECKING:
    from pathlib import Path

# <|endoftext|>, <|im_start|> and <|im_end|> come first, then a token for every byte.
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
EOS = 2
VOCAB_SIZE = 300
CONTEXT = 128


Connect = Callable[[SimulatedEngine], EngineClient]
Encode = Callable[[str], list[int]]


class StartEngine(Protocol):
    def __call__(self, **options: object) -> SimulatedEngine: ...


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer with one token of three letters, and room in the vocabulary."""
    path = tmp_path_factory.mktemp("model")
    symbols = [*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet()), "ab", "abc"]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={symbol: index for index, symbol in enumerate(symbols)},
            merges=[("a", "b"), ("ab", "c")],
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in SPECIALS])
    tokenizer.save(str(path / "tokenizer.json"))
    config = {
        "architectures": ["TestForCausalLM"],
        "model_type": "test",
        "vocab_size": VOCAB_SIZE,
        "max_position_embeddings": CONTEXT,
        "hidden_size": 16,
    }
    generation = {"eos_token_id": [EOS, 0], "temperature": 0.7, "top_p": 0.8}
    (path / "config.json").write_text(json.dumps(config))
    (path / "generation_config.json").write_text(json.dumps(generation))
    (path / "chat_template.jinja").write_text("{{ messages }}")
    (path / "model.safetensors").write_bytes(b"not for the archive")
    return path


@pytest.fixture(scope="session")
def encode(model_path: Path) -> Encode:
    return ModelFolder.load(model_path).encode


@pytest.fixture
def start_engine(model_path: Path) -> Iterator[StartEngine]:
    """Starts engines of the test model, that echo unless told otherwise."""
    engines: list[SimulatedEngine] = []

    def start(**options: object) -> SimulatedEngine:
        settings = {"model": model_path, "answer": "echo"} | options
        sim = SimulatedEngine(SimOptions(**settings))  # type: ignore[arg-type]
        engines.append(sim)
        sim.start()
        return sim

    yield start
    for sim in engines:
        sim.stop()


@pytest.fixture
def sim(start_engine: StartEngine) -> SimulatedEngine:
    return start_engine()


@pytest.fixture
def connect() -> Iterator[Connect]:
    clients: list[EngineClient] = []

    def make(sim: SimulatedEngine) -> EngineClient:
        clients.append(EngineClient(sim.address))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(sim: SimulatedEngine, connect: Connect) -> EngineClient:
    return connect(sim)
