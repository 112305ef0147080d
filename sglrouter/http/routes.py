"""Every path that the router serves, what serves it, and what it takes and gives."""

from __future__ import annotations

from typing import Any

from sglrouter.http.chat import ChatCompletions
from sglrouter.http.completions import Completions
from sglrouter.http.control import FlushCache, StartProfile, StopProfile
from sglrouter.http.embeddings import Embeddings
from sglrouter.http.generate import AbortRequests, Generate
from sglrouter.http.health import Health, HealthGenerate, Liveness, Version
from sglrouter.http.information import Loads, ModelInfo, ServerInfo
from sglrouter.http.models import ModelList
from sglrouter.http.openapi import OpenApi
from sglrouter.http.parse import ParseCalls, ParseReasoning
from sglrouter.http.route import Operation, Query, Route
from sglrouter.http.scoring import Rerank, Score
from sglrouter.http.tokenize import Detokenize, Tokenize
from sglrouter.schema import embeddings, responses, scoring, state
from sglrouter.schema.chat import ChatRequest
from sglrouter.schema.completions import CompletionRequest
from sglrouter.schema.generate import AbortRequest, GenerateRequest, NativeAnswer
from sglrouter.schema.parse import ParseRequest
from sglrouter.schema.profile import ProfileRequest
from sglrouter.schema.tokenize import DetokenizeRequest, TokenizeRequest
from sglrouter.serving.service import Service

# The families of operations.
GENERATION = "Generation"
MODEL = "Model"
VECTORS = "Vectors and scores"
TEXT = "Text"
STATE = "State"
CONTROL = "Control"


def routes(service: Service) -> list[Route]:
    """The routes of a router."""
    found = [*_generation(service), *_model(service), *_text(service), *_state(service)]
    found += [
        *_vectors(service),
        *_scores(service),
        *_tokens(service),
        *_information(service),
        *_control(service),
    ]
    found.append(
        Route("/openapi.json", OpenApi(found), {"GET": Operation("This document", STATE)}),
    )
    return found


def _generation(service: Service) -> list[Route]:
    return [
        Route(
            "/v1/chat/completions",
            ChatCompletions(service),
            _post(
                "Answers a conversation",
                GENERATION,
                ChatRequest,
                responses.ChatCompletion,
                responses.ChatChunk,
            ),
        ),
        Route(
            "/v1/completions",
            Completions(service),
            _post(
                "Continues texts",
                GENERATION,
                CompletionRequest,
                responses.TextCompletion,
                responses.TextCompletion,
            ),
        ),
        *_native(service),
    ]


def _native(service: Service) -> list[Route]:
    """SGLang's own requests."""
    generate = Operation(
        "Goes on with a prompt",
        GENERATION,
        GenerateRequest,
        NativeAnswer | list[NativeAnswer],
        NativeAnswer,
    )
    abort = _post("Stops requests that are under way", GENERATION, AbortRequest, None)
    return [
        Route("/generate", Generate(service), {"POST": generate, "PUT": generate}),
        Route("/abort_request", AbortRequests(service), abort),
    ]


def _vectors(service: Service) -> list[Route]:
    """What models without a language head make of texts."""
    made = Embeddings(service)
    native = _post(
        "What the model makes of texts",
        VECTORS,
        embeddings.EncodeRequest,
        embeddings.Encoded | list[embeddings.Encoded],
    )
    native["PUT"] = native["POST"]
    return [
        Route(
            "/v1/embeddings",
            made,
            _post(
                "Makes embeddings",
                VECTORS,
                embeddings.EmbeddingRequest,
                embeddings.EmbeddingList,
            ),
        ),
        Route(
            "/v1/classify",
            made,
            _post(
                "Classifies texts",
                VECTORS,
                embeddings.ClassifyRequest,
                embeddings.ClassifiedList,
            ),
            "classes",
        ),
        Route("/encode", made, native, "encoded"),
        Route("/classify", made, native, "encoded"),
    ]


def _scores(service: Service) -> list[Route]:
    rerank = Rerank(service)
    ranks = "Ranks documents"
    bare = _post(ranks, VECTORS, scoring.RerankRequest, list[scoring.RankedDocument])
    bare["PUT"] = bare["POST"]
    return [
        Route(
            "/v1/score",
            Score(service),
            _post("Scores texts", VECTORS, scoring.ScoreRequest, scoring.Scores),
        ),
        Route("/v1/rerank", rerank, bare, "sglang"),
        Route("/rerank", rerank, _post(ranks, VECTORS, scoring.RerankRequest, scoring.Ranking)),
        Route(
            "/v2/rerank",
            rerank,
            _post(ranks, VECTORS, scoring.CohereRerankRequest, scoring.CohereRanking),
            "cohere",
        ),
    ]


def _model(service: Service) -> list[Route]:
    models = ModelList(service)
    return [
        Route("/v1/models", models, _get("Lists the models", MODEL, state.ModelCards)),
        Route(
            "/v1/models/{name:path}", models, _get("Shows a model", MODEL, state.ModelCard), "one"
        ),
    ]


def _tokens(service: Service) -> list[Route]:
    tokenize, detokenize = Tokenize(service), Detokenize(service)
    to_ids = _post("Makes ids of text", TEXT, TokenizeRequest, state.Tokenized)
    to_text = _post("Makes text of ids", TEXT, DetokenizeRequest, state.Detokenized)
    return [
        Route("/v1/tokenize", tokenize, to_ids),
        Route("/tokenize", tokenize, to_ids),
        Route("/v1/detokenize", detokenize, to_text),
        Route("/detokenize", detokenize, to_text),
    ]


def _text(service: Service) -> list[Route]:
    """Texts that no engine is asked about."""
    calls, reasoning = ParseCalls(service), ParseReasoning(service)
    find_calls, find_reasoning = "Finds the tool calls in a text", "Finds the reasoning in a text"
    return [
        Route(
            "/parse/function_call",
            calls,
            _post(find_calls, TEXT, ParseRequest, responses.ParsedCalls),
        ),
        Route(
            "/parse_function_call",
            calls,
            _post(find_calls, TEXT, ParseRequest, responses.SglangParsedCalls),
            "sglang",
        ),
        Route(
            "/parse/reasoning",
            reasoning,
            _post(find_reasoning, TEXT, ParseRequest, responses.ParsedReasoning),
        ),
        Route(
            "/separate_reasoning",
            reasoning,
            _post(find_reasoning, TEXT, ParseRequest, responses.SglangParsedReasoning),
            "sglang",
        ),
    ]


def _state(service: Service) -> list[Route]:
    health, generates = Health(service), HealthGenerate(service)
    serves = _get("Whether an engine serves", STATE, responses.Health)
    return [
        *(Route(path, health, serves) for path in ("/health", "/readiness", "/ready", "/ping")),
        Route(
            "/health_generate",
            generates,
            _get("Whether an engine generates", STATE, responses.Health),
        ),
        Route("/liveness", Liveness(), _get("Whether a worker answers", STATE, responses.Alive)),
        Route("/version", Version(), _get("The router's version", STATE, state.RouterVersion)),
    ]


def _information(service: Service) -> list[Route]:
    """What the engines say of themselves."""
    model, server, loads = ModelInfo(service), ServerInfo(service), Loads(service)
    of_model = _get("What the engines serve", MODEL, state.EngineReplies)
    of_server = _get("The engines' arguments and state", STATE, state.EngineReplies)
    of_loads = _get(
        "How busy the engines are",
        STATE,
        state.EngineReplies,
        Query(
            "include",
            str,
            "Sections, separated by commas: core, memory, spec, lora, disagg, queues, all.",
        ),
        Query("dp_rank", int, "The one rank to tell about."),
    )
    return [
        *(Route(path, model, of_model) for path in ("/model_info", "/get_model_info")),
        *(Route(path, server, of_server) for path in ("/server_info", "/get_server_info")),
        *(Route(path, loads, of_loads) for path in ("/v1/loads", "/get_loads")),
    ]


def _control(service: Service) -> list[Route]:
    """What all engines are told to do."""
    timeout = Query("timeout", float, "Seconds that an engine may wait until it is idle.")
    flush = Operation(
        "Empties the prefix caches", CONTROL, response=state.EngineOutcomes, query=(timeout,)
    )
    start = Operation(
        "Starts the profilers",
        CONTROL,
        ProfileRequest,
        state.EngineOutcomes,
        needs_body=False,
    )
    stop = Operation("Stops the profilers", CONTROL, response=state.EngineOutcomes)
    found = [
        Route("/flush_cache", FlushCache(service), {"POST": flush}),
        Route("/start_profile", StartProfile(service), {"POST": start}),
        Route("/stop_profile", StopProfile(service), {"POST": stop}),
    ]
    if service.settings.control_by_get:
        return [
            route._replace(
                operations={
                    **route.operations,
                    "GET": route.operations["POST"]._replace(request=None),
                }
            )
            for route in found
        ]
    return found


def _get(summary: str, tag: str, response: Any, *query: Query) -> dict[str, Operation]:
    return {"GET": Operation(summary, tag, response=response, query=query)}


def _post(
    summary: str, tag: str, request: Any, response: Any, events: Any = None
) -> dict[str, Operation]:
    return {"POST": Operation(summary, tag, request, response, events)}
