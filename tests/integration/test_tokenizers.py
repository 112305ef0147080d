"""The same conversation through real models' tokenizers: the same text, however cut."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sglrouter.sim import SimOptions, SimulatedEngine
from tests.conftest import StartRouter
from tests.processes import finish_reason, joined

TEXT = (
    "Déjà vu: the naïve café costs 12,50 €.\n\n```python\nprint('🚀 ' * 3)\n```\n"
    "日本語と中文、한국어, हिन्दी, العربية; 👩‍👩‍👧‍👦 and 🏴󠁧󠁢󠁥󠁮󠁧󠁿 flags\ttoo."
)
EOS = {
    "qwen3": "<|im_end|>",
    "deepseek-v3": "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "mistral-tekken-240911": "</s>",
    "mistral-spm-v3": "</s>",
    "gpt-oss": "<|return|>",
    "smollm2-135m-instruct": "<|im_end|>",
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", sorted(EOS))
def test_the_text_does_not_depend_on_the_chunks(
    start_router: StartRouter, corpus: Path, tiny_model: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / name
    shutil.copytree(corpus / "tokenizers" / name, folder)
    folder.chmod(0o755)
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    vocab = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    eos = next(token["id"] for token in added if token["content"] == EOS[name])
    size = max(max(vocab.values()), *(token["id"] for token in added)) + 1
    config = {"vocab_size": size, "max_position_embeddings": 8192, "eos_token_id": eos}
    (folder / "config.json").write_text(json.dumps({"model_type": name, **config}))
    with SimulatedEngine(SimOptions(model=folder)) as engine:
        engine.script(TEXT)
        router = start_router(
            engine=f"grpc://{engine.address}",
            tokenizer=folder,
            chat_template=tiny_model / "chat_template.jinja",
        )
        for tokens in (1, 3, 8):
            engine.options.tokens_per_chunk = tokens
            events = router.stream("What? 🚀")
            assert joined(events) == TEXT
            assert finish_reason(events) == "stop"
            assert router.chat("What? 🚀").json()["choices"][0]["message"]["content"] == TEXT
        stopped = router.chat("What? 🚀", stop=["中文"]).json()["choices"][0]
        assert stopped["message"]["content"] == TEXT.partition("中文")[0]


def test_a_router_without_a_folder_takes_the_engines_files(
    start_router: StartRouter, tmp_path: Path
) -> None:
    with SimulatedEngine() as engine:
        engine.script("fetched")
        router = start_router(engine=f"grpc://{engine.address}", cache_dir=tmp_path)
        assert router.chat().json()["choices"][0]["message"]["content"] == "fetched"
        (model,) = router.http.get("/v1/models").json()["data"]
        assert model["id"] == router.chat(model="").json()["model"] == "tiny"
        assert model["max_model_len"] == 8192
        assert model["vocab_size"] == 4096
        assert model["eos_token_ids"] == [4064, 4066]
