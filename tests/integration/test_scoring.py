"""Scores and rankings over HTTP, from what a model would say next."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from sglrouter.schema import scoring as shapes
from sglrouter.sim import SimOptions, SimulatedEngine
from tests.conftest import StartRouter
from tests.processes import RouterProcess

# What it shows of a document begins the prompt, and that is what an echo goes on with.
TEMPLATE = (
    "{{ messages[1]['content'] }}|{{ messages[0]['content'] }}|"
    '{{ instruct | default(\'fits\') }}|The answer can only be "yes" or "no".'
)
MEDIA_TEMPLATE = (
    "{% for part in document %}{{ part.text }}{% endfor %}|{{ query[0].text }}|<|image_pad|>"
    'the answer can only be "yes" or "no"'
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level model to which "yes" and "no" are a token each."""
    path = tmp_path_factory.mktemp("reranker")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    symbols = ["<|end|>", *letters, "ye", "yes", "no"]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={symbol: index for index, symbol in enumerate(symbols)},
            merges=[("y", "e"), ("ye", "s"), ("n", "o")],
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    tokenizer.save(str(path / "tokenizer.json"))
    config = {"vocab_size": len(symbols), "max_position_embeddings": 2048, "eos_token_id": 0}
    (path / "config.json").write_text(json.dumps(config))
    (path / "chat_template.jinja").write_text(TEMPLATE)
    return path


@pytest.fixture(scope="module")
def reranker(model: Path) -> Iterator[SimulatedEngine]:
    """An engine of it that would say what the prompt begins with."""
    with SimulatedEngine(SimOptions(model=model, answer="echo")) as engine:
        yield engine


@pytest.fixture(scope="module")
def ranker(reranker: SimulatedEngine, model: Path) -> Iterator[RouterProcess]:
    """A router in front of it."""
    router = RouterProcess(
        {"engine": f"grpc://{reranker.address}", "tokenizer": model, "lora_adapters": "law=7"}
    )
    router.start()
    yield router
    router.stop()


def post(router: RouterProcess, path: str, **body: Any) -> httpx.Response:
    return router.http.post(path, json=body)


def error_of(response: httpx.Response, status: int = 400) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    return error


def next_logprobs(router: RouterProcess, ids: list[int], labels: list[int]) -> list[float]:
    """What the engine says of these tokens when it makes one."""
    answer = post(
        router,
        "/generate",
        input_ids=ids,
        sampling_params={"max_new_tokens": 1},
        return_logprob=True,
        token_ids_logprob=labels,
    ).json()
    rows = answer["meta_info"]["output_token_ids_logprobs"]
    return [logprob for logprob, _, _ in rows[0]]


def test_scores_are_the_next_tokens_probabilities(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    labels = [262, 1199, 7]
    before = len(engine.requests)
    answer = post(
        router,
        "/v1/score",
        query=[10, 11],
        items=[[12], [13, 14]],
        label_token_ids=labels,
        return_token_logprobs=True,
        model="tiny",
    ).json()
    msgspec.convert(answer, shapes.Scores)
    sent = sorted(engine.requests[before:], key=lambda each: len(each.tokenized.input_ids))
    assert [list(each.tokenized.input_ids) for each in sent] == [[10, 11, 12], [10, 11, 13, 14]]
    for request in sent:
        # Nothing is generated, nothing else is scored, and the cache can be used.
        assert request.sampling_params.max_new_tokens == 0
        assert request.sampling_params.HasField("max_new_tokens")
        assert list(request.token_ids_logprob) == labels
        assert (request.logprob_start_len, request.return_logprob, request.stream) == (-1, True, 0)
    for i, request in enumerate(sent):
        logprobs = next_logprobs(router, list(request.tokenized.input_ids), labels)
        assert answer["token_logprobs"][i] == pytest.approx(logprobs)
        assert answer["scores"][i] == pytest.approx([math.exp(each) for each in logprobs])
    assert answer["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert answer["model"] == "tiny"


@pytest.mark.parametrize(
    ("body", "prompts"),
    [
        ({"query": "so ", "items": ["is", "was"]}, ["so is", "so was"]),
        ({"query": "so ", "items": "is"}, ["so is"]),
        ({"query": "so ", "items": ["is"], "item_first": True}, ["isso "]),
        ({"items": ["is"]}, ["is"]),
        ({"query": "", "items": ["is"]}, ["is"]),
    ],
)
def test_texts_are_joined_before_they_are_tokens(
    router: RouterProcess, engine: SimulatedEngine, body: dict[str, Any], prompts: list[str]
) -> None:
    before = len(engine.requests)
    answer = post(router, "/v1/score", label_token_ids=[5], apply_softmax=True, **body).json()
    assert answer["scores"] == [[1.0]] * len(prompts)
    wanted = router.http.post("/tokenize", json={"prompt": prompts}).json()["tokens"]
    sent = [list(each.tokenized.input_ids) for each in engine.requests[before:]]
    assert sorted(sent) == sorted(wanted)


def test_each_item_may_have_labels_of_its_own(router: RouterProcess) -> None:
    answer = post(
        router, "/v1/score", query=[10], items=[[11], [12]], label_token_ids=[[5, 6], [7]],
        apply_softmax=True, temperature=0.5,
    ).json()  # fmt: skip
    assert [len(row) for row in answer["scores"]] == [2, 1]
    assert [sum(row) for row in answer["scores"]] == pytest.approx([1.0, 1.0])
    assert answer["token_logprobs"] is None


def test_no_items_are_no_scores(router: RouterProcess, engine: SimulatedEngine) -> None:
    before = len(engine.requests)
    answer = post(router, "/v1/score", query="a", items=[], label_token_ids=[5]).json()
    msgspec.convert(answer, shapes.Scores)
    assert answer["scores"] == []
    assert len(engine.requests) == before


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"items": None}, "items"),
        ({"items": ["a", ""]}, None),
        ({"query": "", "items": ["a", ""]}, "items[1]"),
        ({"items": [[5]]}, "query"),
        ({"query": [5]}, "query"),
        ({"query": [-1], "items": [[5]]}, "query[0]"),
        ({"query": [4096], "items": [[5]]}, "items"),
        ({"query": [5] * 8186, "items": [[5]]}, "items"),
        ({"label_token_ids": None}, "label_token_ids"),
        ({"label_token_ids": [4096]}, "label_token_ids"),
        ({"label_token_ids": [[5], [6]]}, "label_token_ids"),
        ({"label_token_ids": "yes"}, "label_token_ids"),
        ({"temperature": 0, "apply_softmax": True}, "temperature"),
        ({"temperature": 0.5}, "temperature"),
        ({"score_extraction_token": "<s>"}, "score_extraction_token"),
        ({"return_pooled_hidden_states": True}, "return_pooled_hidden_states"),
        ({"items": "a", "lora_path": "none"}, "lora_path"),
    ],
)
def test_what_cannot_be_scored_never_reaches_an_engine(
    router: RouterProcess, engine: SimulatedEngine, changes: dict[str, Any], param: str | None
) -> None:
    before = len(engine.requests)
    body = {"query": "so ", "items": ["is"], "label_token_ids": [5], **changes}
    response = post(router, "/v1/score", **body)
    if param is None:
        # An item may be empty where the query is not.
        assert response.status_code == 200
        return
    assert error_of(response)["param"] == param
    assert len(engine.requests) == before
    assert engine.alive


def test_an_engine_that_scores_no_chosen_tokens_is_named(
    start_router: StartRouter, tiny_model: Path
) -> None:
    with SimulatedEngine(SimOptions(dialect="0.5.9")) as engine:
        router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
        response = post(router, "/v1/score", items=["a"], label_token_ids=[5])
        assert error_of(response, 501)["code"] == "engine_unsupported"


def test_an_engines_refusal_is_the_answer(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.fault("fail,status=RESOURCE_EXHAUSTED,message=too busy")
    response = post(router, "/v1/score", items=["a", "b"], label_token_ids=[5])
    assert "too busy" in error_of(response, 429)["message"]


def test_documents_are_ranked(ranker: RouterProcess, reranker: SimulatedEngine) -> None:
    before = len(reranker.requests)
    documents = ["noise", "yesterday", "other", "no way", "yes"]
    answer = post(ranker, "/v1/rerank", query="when", documents=documents).json()
    msgspec.convert(answer, list[shapes.RankedDocument])
    assert {each["index"] for each in answer[:2]} == {1, 4}
    assert answer[2]["index"] == 2
    assert {each["index"] for each in answer[3:]} == {0, 3}
    assert answer[0]["score"] > 0.9 > answer[2]["score"] > 0.1 > answer[4]["score"]
    assert all(each["document"] == documents[each["index"]] for each in answer)
    prompts = {len(each.tokenized.input_ids) for each in reranker.requests[before:]}
    assert len(prompts) > 1
    assert all(len(each.token_ids_logprob) == 2 for each in reranker.requests[before:])


def test_the_best_documents_alone(ranker: RouterProcess) -> None:
    documents = ["no", "yes", "other"]
    answer = ranker.http.put(
        "/v1/rerank",
        json={"query": "q", "documents": documents, "top_n": 2, "return_documents": False},
    ).json()
    assert [each["index"] for each in answer] == [1, 2]
    assert all("document" not in each for each in answer)


def test_gateways_answer_with_an_object(ranker: RouterProcess) -> None:
    answer = post(
        ranker, "/rerank", query="q", documents=["no", "yes"], top_k=1, model="m", rid="mine"
    ).json()
    msgspec.convert(answer, shapes.Ranking)
    assert (answer["id"], answer["model"]) == ("mine", "m")
    assert [each["index"] for each in answer["results"]] == [1]
    assert answer["usage"]["prompt_tokens"] > 0


def test_parts_instructions_and_adapters(
    ranker: RouterProcess, reranker: SimulatedEngine, model: Path
) -> None:
    answer = post(
        ranker,
        "/v1/rerank",
        query=[{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        documents=[[{"type": "text", "text": "yes"}]],
        instruct="is of use",
        lora_path="law",
    ).json()
    assert answer[0]["document"] == "yes"
    sent = reranker.requests[-1]
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    assert tokenizer.decode(list(sent.tokenized.input_ids)) == (
        'yes|one two|is of use|The answer can only be "yes" or "no".'
    )
    assert sent.lora_id == "7"


def test_a_template_for_media_ranks_texts(
    start_router: StartRouter, reranker: SimulatedEngine, model: Path, tmp_path: Path
) -> None:
    template = tmp_path / "media.jinja"
    template.write_text(MEDIA_TEMPLATE)
    router = start_router(
        engine=f"grpc://{reranker.address}", tokenizer=model, chat_template=template
    )
    answer = post(router, "/v1/rerank", query="q", documents=["no", "yes"]).json()
    assert [each["index"] for each in answer] == [1, 0]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"query": ""}, "query"),
        ({"query": None}, "query"),
        ({"documents": []}, "documents"),
        ({"documents": ["a", " "]}, "documents[1]"),
        ({"documents": ["a"] * 2049}, "documents"),
        ({"documents": ["b", "a" * 3000]}, "documents[1]"),
        ({"documents": [[{"type": "image_url", "image_url": {"url": "x"}}]]}, "documents[0][0]"),
        ({"top_n": 0}, "top_n"),
        ({"top_k": -1}, "top_k"),
        ({"lora_path": "none"}, "lora_path"),
    ],
)
def test_what_cannot_be_ranked_never_reaches_an_engine(
    ranker: RouterProcess, reranker: SimulatedEngine, changes: dict[str, Any], param: str
) -> None:
    before = len(reranker.requests)
    body = {"query": "q", "documents": ["a"], **changes}
    for path in ("/v1/rerank", "/rerank"):
        assert error_of(post(ranker, path, **body))["param"] == param
    assert len(reranker.requests) == before


def test_a_template_that_raises_names_the_document(
    start_router: StartRouter, reranker: SimulatedEngine, model: Path, tmp_path: Path
) -> None:
    template = tmp_path / "picky.jinja"
    template.write_text(
        'the answer can only be "yes" or "no"'
        "{% if messages[1].content == 'bad' %}{{ raise_exception('not this one') }}{% endif %}"
    )
    router = start_router(
        engine=f"grpc://{reranker.address}", tokenizer=model, chat_template=template
    )
    error = error_of(post(router, "/v1/rerank", query="q", documents=["good", "bad"]))
    assert (error["code"], error["param"]) == ("chat_template_error", "documents[1]")
    assert "not this one" in error["message"]


def test_a_model_that_is_no_reranker_says_so(router: RouterProcess) -> None:
    error = error_of(post(router, "/v1/rerank", query="q", documents=["a"]))
    assert (error["code"], error["param"]) == ("unsupported_model", "model")


def test_a_tokenizer_without_the_words_cannot_rank(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path, model: Path
) -> None:
    router = start_router(
        engine=f"grpc://{engine.address}",
        tokenizer=tiny_model,
        chat_template=model / "chat_template.jinja",
    )
    response = post(router, "/v1/rerank", query="q", documents=["a"])
    assert "single tokens" in error_of(response, 501)["message"]


def test_a_cross_encoder_is_beyond_the_wire(start_router: StartRouter, tiny_model: Path) -> None:
    with SimulatedEngine(SimOptions(embedding=True)) as engine:
        router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
        for path in ("/v1/rerank", "/rerank"):
            response = post(router, path, query="q", documents=["a"])
            error = error_of(response, 501)
            assert error["code"] == "engine_unsupported"
            assert "pairs of texts" in error["message"]
            # No use in trying again, which OpenAI's clients would.
            assert response.headers["x-should-retry"] == "false"
        assert engine.embeds == []


def test_a_ranking_in_coheres_shape(ranker: RouterProcess) -> None:
    documents = ["no way", {"text": "yes"}]
    answer = post(ranker, "/v2/rerank", query="q", documents=documents, max_tokens_per_doc=10)
    assert answer.status_code == 200, answer.text
    body = msgspec.json.decode(answer.content, type=shapes.CohereRanking)
    assert [each.index for each in body.results] == [1, 0]
    assert all(each.document is msgspec.UNSET for each in body.results)
    assert set(body.meta) == {"api_version", "billed_units", "tokens"}
    shown = post(ranker, "/v2/rerank", query="q", documents=documents, return_documents=True)
    assert shown.json()["results"][0]["document"] == {"text": "yes"}
    best = post(ranker, "/v2/rerank", query="q", documents=documents, top_n=1).json()
    assert len(best["results"]) == 1
    assert error_of(post(ranker, "/v2/rerank", query="q", documents=[3]))["param"] == "documents[0]"


def test_scores_have_both_names(ranker: RouterProcess) -> None:
    answer = post(ranker, "/rerank", query="q", documents=["no", "yes"]).json()
    assert answer["id"]
    assert all(each["score"] == each["relevance_score"] for each in answer["results"])
    bare = post(ranker, "/v1/rerank", query="q", documents=["no", "yes"]).json()
    assert all("relevance_score" not in each for each in bare)
