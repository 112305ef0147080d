"""Clients that rank documents: Cohere's own, and LiteLLM in the shapes that it knows."""

from __future__ import annotations

import os

import pytest

from tests.integration.test_scoring import model, ranker, reranker
from tests.processes import RouterProcess

__all__ = ["model", "ranker", "reranker"]  # fixtures

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*`ReadOnly` qualifier:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    # LiteLLM looks for an event loop and keeps its clients.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# The engine says what a document begins with.
DOCUMENTS = ["no way", "yes indeed", "yes"]
QUERY = "which"


def test_coheres_client(ranker: RouterProcess) -> None:
    cohere = pytest.importorskip("cohere", reason="cohere is not installed (extra: clients)")
    client = cohere.ClientV2(api_key="none", base_url=ranker.url)
    answer = client.rerank(model="default", query=QUERY, documents=DOCUMENTS, top_n=2)
    assert answer.id
    assert [each.index for each in answer.results] == [1, 2]
    assert all(each.relevance_score > 0.9 for each in answer.results)


@pytest.mark.parametrize(
    ("name", "path", "options"),
    [
        ("cohere/default", "", {}),
        ("cohere/default", "/v2/rerank", {}),
        ("infinity/default", "", {}),
        # With documents it takes them for objects, which SGLang's gateways do not give.
        ("hosted_vllm/default", "", {"return_documents": False}),
    ],
)
def test_litellm(ranker: RouterProcess, name: str, path: str, options: dict[str, bool]) -> None:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm", reason="LiteLLM is not installed (extra: clients)")
    answer = litellm.rerank(
        model=name,
        query=QUERY,
        documents=DOCUMENTS,
        top_n=2,
        api_base=f"{ranker.url}{path}",
        api_key="none",
        **options,
    )
    assert answer.id
    assert [each["index"] for each in answer.results] == [1, 2]
    assert all(each["relevance_score"] > 0.9 for each in answer.results)
