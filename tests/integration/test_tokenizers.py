"""The same conversation through real models' tokenizers: the same text, however cut."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sglrouter.prompt.tokenizer import load_tokenizer
from sglrouter.sim import SimOptions, SimulatedEngine
from tests.conftest import StartRouter
from tests.processes import finish_reason, joined, sse_data

pytestmark = pytest.mark.long

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


def model_folder(corpus: Path, tmp_path: Path, name: str) -> Path:
    """A model's folder: one of the corpus's tokenizers, and what the engine needs besides."""
    folder = tmp_path / name
    shutil.copytree(corpus / "tokenizers" / name, folder)
    folder.chmod(0o755)
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    vocab = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    eos = next(token["id"] for token in added if token["content"] == EOS[name])
    size = max(max(vocab.values()), *(token["id"] for token in added)) + 1
    config = {"vocab_size": size, "max_position_embeddings": 8192, "eos_token_id": eos}
    (folder / "config.json").write_text(json.dumps({"model_type": name, **config}))
    return folder


@pytest.mark.corpus
@pytest.mark.parametrize("name", sorted(EOS))
def test_the_text_does_not_depend_on_the_chunks(
    start_router: StartRouter, corpus: Path, tiny_model: Path, tmp_path: Path, name: str
) -> None:
    folder = model_folder(corpus, tmp_path, name)
    # The first word has a space before it, and the prompt is text before that.
    expected = f" {TEXT}" if name == "mistral-spm-v3" else TEXT
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
            assert joined(events) == expected
            assert finish_reason(events) == "stop"
            assert router.chat("What? 🚀").json()["choices"][0]["message"]["content"] == expected
        stopped = router.chat("What? 🚀", stop=["中文"]).json()["choices"][0]
        assert stopped["message"]["content"] == expected.partition("中文")[0]


@pytest.mark.corpus
def test_a_continuation_keeps_the_space_before_its_first_word(
    start_router: StartRouter, corpus: Path, tiny_model: Path, tmp_path: Path
) -> None:
    folder = model_folder(corpus, tmp_path, "mistral-spm-v3")
    tokenizer = load_tokenizer(folder)
    hello, world = tokenizer.encode("Hello").ids, tokenizer.encode("world!").ids[1:]
    assert tokenizer.decode(hello + world) == "Hello world!"
    begin = hello[:1]
    with SimulatedEngine(SimOptions(model=folder)) as engine:
        engine.script("world!")
        router = start_router(
            engine=f"grpc://{engine.address}",
            tokenizer=folder,
            chat_template=tiny_model / "chat_template.jinja",
        )

        def choice(prompt: object, **fields: object) -> dict[str, Any]:
            body = {"model": "m", "prompt": prompt, **fields}
            answer = router.http.post("/v1/completions", json=body).json()["choices"][0]
            events = router.http.post("/v1/completions", json={**body, "stream": True}).text
            chunks = [json.loads(each) for each in sse_data(events) if each != "[DONE]"]
            text = "".join(each["text"] for chunk in chunks for each in chunk["choices"])
            assert answer["text"] == text
            found: dict[str, Any] = answer
            return found

        for prompt in ("Hello", hello, hello[1:]):
            assert choice(prompt)["text"] == " world!"
            assert choice(prompt, echo=True)["text"] == "Hello world!"
            scored = choice(prompt, echo=True, logprobs=0)
            assert scored["text"] == "Hello world!"
            assert scored["logprobs"]["text_offset"][-2:] == [5, 11]
            assert choice(prompt, logprobs=0)["logprobs"]["text_offset"] == [5, 11]
            native = "input_ids" if isinstance(prompt, list) else "text"
            found = router.http.post("/generate", json={native: prompt}).json()
            assert found["text"] == " world!"
        # Nothing is before it but a token without text.
        assert choice(begin)["text"] == "world!"
        assert choice(begin, skip_special_tokens=False)["text"].startswith(" world!")
        said = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "Hello"}]
        body = {"model": "m", "messages": said, "continue_final_message": True}
        body["add_generation_prompt"] = False
        answer = router.http.post("/v1/chat/completions", json=body).json()
        assert answer["choices"][0]["message"]["content"] == " world!"


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
