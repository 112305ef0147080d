"""Ids of text and text of ids, over HTTP."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import tokenizers.processors

from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.patience import PATIENCE
from tests.processes import RouterProcess, free_port

TEXTS = ["Hello world", "", "naïve 👩‍👩‍👧‍👦, 日本語", " <|im_start|>user\n\n\n", "x" * 5000]
CHAT = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def reference(tiny_model: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(tiny_model / "tokenizer.json"))


def post(router: RouterProcess, path: str, **body: Any) -> dict[str, Any]:
    response = router.http.post(path, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_text(
    router: RouterProcess, reference: tokenizers.Tokenizer, path: str, text: str
) -> None:
    for special in (True, False):
        ids = reference.encode(text, add_special_tokens=special).ids
        assert post(router, path, model="tiny", prompt=text, add_special_tokens=special) == {
            "tokens": ids,
            "count": len(ids),
            "max_model_len": 8192,
            "char_count": len(text),
        }


def test_texts(router: RouterProcess, reference: tokenizers.Tokenizer) -> None:
    ids = [reference.encode(text).ids for text in TEXTS]
    answer = post(router, "/tokenize", prompt=TEXTS, return_token_strs=True)
    strings = answer.pop("token_strs")
    assert answer == {
        "tokens": ids,
        "count": [len(each) for each in ids],
        "max_model_len": 8192,
        "char_count": [len(text) for text in TEXTS],
    }
    assert [len(each) for each in strings] == answer["count"]
    assert "".join(strings[0]) == TEXTS[0]
    assert post(router, "/tokenize", prompt=[]) == {
        "tokens": [],
        "count": [],
        "max_model_len": 8192,
        "char_count": [],
    }
    assert post(router, "/tokenize", prompt=["a"])["tokens"] == [reference.encode("a").ids]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tools": TOOLS},
        {"tools": TOOLS, "tool_choice": "none"},
        {"add_generation_prompt": False},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"reasoning_effort": "none"},
        {
            "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
            "continue_final_message": True,
        },
    ],
)
def test_a_conversation_is_what_a_completion_would_send(
    router: RouterProcess, engine: SimulatedEngine, fields: dict[str, Any]
) -> None:
    body = CHAT | fields
    answer = post(router, "/v1/tokenize", **body)
    done = router.http.post("/v1/chat/completions", json={**body, "max_tokens": 1})
    assert done.status_code == 200
    sent = engine.requests[-1].tokenized
    assert answer["tokens"] == list(sent.input_ids)
    assert answer["count"] == done.json()["usage"]["prompt_tokens"]
    assert answer["char_count"] == len(sent.original_text)


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({}, "prompt", None),
        ({"prompt": "x", **CHAT}, "prompt", None),
        ({"prompt": None, "messages": None}, "prompt", None),
        ({"prompt": 3}, "prompt", "invalid_type"),
        ({"prompt": ["x", 3]}, "prompt[1]", "invalid_type"),
        ({"messages": "x"}, "messages", "invalid_type"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, None, None),
        ({"prompt": "x", "lora_path": "other"}, "lora_path", "adapter_not_found"),
    ],
)
def test_what_cannot_be_tokenized(
    router: RouterProcess, body: dict[str, Any], param: str | None, code: str | None
) -> None:
    response = router.http.post("/tokenize", json=body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    if param is not None:
        assert error["param"] == param
    if code is not None:
        assert error["code"] == code


@pytest.mark.parametrize("path", ["/detokenize", "/v1/detokenize"])
@pytest.mark.parametrize("text", TEXTS)
def test_there_and_back(router: RouterProcess, path: str, text: str) -> None:
    ids = post(router, "/tokenize", prompt=text, add_special_tokens=False)["tokens"]
    answer = post(router, path, tokens=ids, skip_special_tokens=False)
    assert answer == {"text": text, "prompt": text}


def test_special_tokens(router: RouterProcess, reference: tokenizers.Tokenizer) -> None:
    end = reference.token_to_id("<|im_end|>")
    word = reference.encode("word", add_special_tokens=False).ids
    ids = [end, *word, end, *word]
    assert post(router, "/detokenize", tokens=ids)["text"] == "wordword"
    assert post(router, "/detokenize", tokens=ids, skip_special_tokens=False)["text"] == (
        "<|im_end|>word<|im_end|>word"
    )


def test_lists_of_ids(router: RouterProcess, reference: tokenizers.Tokenizer) -> None:
    ids = [reference.encode(text, add_special_tokens=False).ids for text in ("a b", "", "c")]
    assert post(router, "/detokenize", tokens=ids) == {"text": ["a b", "", "c"]}
    assert post(router, "/detokenize", tokens=[[]]) == {"text": [""]}
    assert post(router, "/detokenize", tokens=[]) == {"text": "", "prompt": ""}


@pytest.fixture
def with_ends(start_router: StartRouter, tiny_model: Path, tmp_path: Path) -> RouterProcess:
    """A router for a model that wants a special token at a text's beginning."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    first = tokenizer.token_to_id("<|im_start|>")
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", first)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return start_router(engine=f"grpc://127.0.0.1:{free_port()}", tokenizer=folder)


def test_special_tokens_at_the_ends(
    with_ends: RouterProcess, reference: tokenizers.Tokenizer
) -> None:
    first = reference.token_to_id("<|im_start|>")
    word = reference.encode("word", add_special_tokens=False).ids
    asked = {"prompt": "word"}
    assert post(with_ends, "/tokenize", **asked)["tokens"] == [first, *word]
    assert post(with_ends, "/tokenize", **asked, add_special_tokens=None)["tokens"][0] == first
    assert post(with_ends, "/tokenize", **asked, add_special_tokens=False)["tokens"] == word
    # A template has written its own, which is not doubled.
    bare = post(with_ends, "/tokenize", **CHAT)["tokens"]
    assert bare == post(with_ends, "/tokenize", **CHAT, add_special_tokens=True)["tokens"]
    assert bare[0] == first


def test_half_a_character(router: RouterProcess, reference: tokenizers.Tokenizer) -> None:
    ids = reference.encode("ご", add_special_tokens=False).ids
    assert len(ids) > 1, "it has no token of its own"
    assert post(router, "/detokenize", tokens=ids)["text"] == "ご"
    cut = ids[:-1]
    assert post(router, "/detokenize", tokens=cut)["text"] == reference.decode(cut)


@pytest.mark.parametrize(
    ("tokens", "param", "code"),
    [
        ([1, 4096], "tokens[1]", "token_out_of_vocabulary"),
        ([-1], "tokens[0]", "token_out_of_vocabulary"),
        ([2**63], "tokens[0]", "token_out_of_vocabulary"),
        ([[1], [2, 2**32]], "tokens[1][1]", "token_out_of_vocabulary"),
        ([1, [2]], "tokens", "invalid_type"),
        ([[2], 1], "tokens[1]", "invalid_type"),
        ([[[1]]], "tokens[0][0]", "invalid_type"),
        (["x"], "tokens[0]", "invalid_type"),
        ([True], "tokens[0]", "invalid_type"),
        ([1.5], "tokens[0]", "invalid_type"),
        ("x", "tokens", "invalid_type"),
        (None, "tokens", "invalid_type"),
    ],
)
def test_what_are_no_ids(router: RouterProcess, tokens: Any, param: str, code: str) -> None:
    response = router.http.post("/detokenize", json={"tokens": tokens})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["param"], error["code"]) == (param, code)


def test_a_long_answer_comes_whole(router: RouterProcess) -> None:
    text = "ab 🚀 " * 100_000
    answer = post(router, "/tokenize", prompt=text, add_special_tokens=False)
    assert answer["count"] == len(answer["tokens"]) > 200_000
    assert answer["char_count"] == len(text)
    back = post(router, "/detokenize", tokens=answer["tokens"])
    assert back["text"] == text
    many = post(router, "/tokenize", prompt=[text, "ab", text], return_token_strs=True)
    assert many["tokens"][0] == many["tokens"][2] == answer["tokens"]
    assert many["count"] == [answer["count"], len(many["tokens"][1]), answer["count"]]
    assert len(many["token_strs"][2]) == answer["count"]


def test_long_work_does_not_hold_up_others(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
    bodies = [
        ("/tokenize", {"prompt": "ab 🚀 " * 400_000}),
        ("/tokenize", {"prompt": ["a few words to encode"] * 60_000}),
        ("/detokenize", {"tokens": [[1, 2, 300]] * 30_000}),
        ("/detokenize", {"tokens": [300] * 400_000}),
    ]
    for path, body in bodies:
        answers = 0

        def work(path: str = path, body: Any = body) -> None:
            assert router.http.post(path, json=body, timeout=PATIENCE).status_code == 200

        worker = threading.Thread(target=work)
        worker.start()
        while worker.is_alive():
            assert router.http.get("/liveness").status_code == 200
            answers += 1
            time.sleep(0.005)
        # Held up, there would be one or two.
        assert answers > 3, path
