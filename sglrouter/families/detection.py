"""Which parsers a model needs, told by its chat template and its vocabulary.

Strategy: a template has to write earlier calls and reasoning the way the model does, so
it holds the markers, in its text or in pieces of it. Ordered tables of signatures say
which markers mean which parser; the first signature that fits counts, so the peculiar
ones come first. What several families share, such as <tool_call>, comes last. Tokens
alone count only where there is no template: a model need not use all that its
vocabulary has.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple


class Signature(NamedTuple):
    """What a template, or a vocabulary, of a family looks like.

    Attributes:
        parser: The family's parser.
        texts: What the template contains, all of it.
        without: What it does not contain, none of it.
        code: What its code contains, white space aside; any of it will do.
        tokens: What the vocabulary contains, all of it.
    """

    parser: str
    texts: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()


_ENABLE_THINKING_OFF = ("setenable_thinking=false", "enable_thinking|default(false")

TOOL_SIGNATURES = (
    Signature("iquest_q1", ("<|iquest_assistant|>",)),
    Signature("gigachat35", ("｜GCML｜",)),
    Signature("k2_horizon", ("<ifm|tool_call>",)),
    Signature("apertus2509", ("<|tools_prefix|>",)),
    Signature("kimi_k3", ("<|open|>", "<|close|>", "<|sep|>")),
    Signature("inkling", ("<|content_invoke_tool_json|>",)),
    Signature("muse", ("<atem:",)),
    Signature("dots", ("<dots_function_call>",)),
    Signature("gemma4", ("<|tool_call>",)),
    Signature("gemma4", ("<|channel>",)),
    Signature("gpt-oss", ("<|channel|>",), without=("<rfl:parameter",)),
    Signature("kimi_k2", ("<|tool_calls_section_begin|>",)),
    Signature("minimax-m3", ("<mm:think>",)),
    Signature("minimax-m3", ("]<]minimax[>[",)),
    Signature("minimax-m2", ("<minimax:tool_call>",)),
    Signature("interns1", ("<|plugin|>",)),
    Signature("interns1", ("default_thinking_sys",)),
    Signature("deepseekv41", ("｜DSML｜ ",)),
    Signature("deepseekv4", ("｜DSML｜tool_calls",)),
    Signature("deepseekv32", ("｜DSML｜",)),
    Signature("deepseekv3", ("<｜tool▁sep｜>", "```json")),
    Signature("deepseekv31", ("<｜tool▁sep｜>",)),
    Signature("step3", ("<steptml:",)),
    Signature("step3", ("<｜tool_calls_begin｜>",)),
    Signature("lfm2", ("<|tool_call_start|>",)),
    Signature("lfm2", ("List of tools: ",), tokens=("<|tool_call_start|>",)),
    Signature("seed_oss", ("<seed:tool_call>",)),
    Signature("nemotron_json", ("<TOOLCALL>",)),
    Signature("olmo3", ("<function_calls>",)),
    Signature("cohere_command4", ("<|START_ACTION|>",)),
    Signature("gigachat3", ("<|function_call|>",)),
    Signature("gigachat3", ("<|role_sep|>", "function call")),
    Signature("gigachat3", ("'function call'",), tokens=("<|role_sep|>",)),
    Signature("hunyuan", ("<tool_calls", "<tool_sep")),
    Signature("glm47", ("<arg_key>", "[gMASK]"), code=("{{-'<tool_call>'+tc.name",)),
    Signature("glm45", ("<arg_key>", "[gMASK]")),
    Signature("poolside_v1", ("<arg_key>", "unescaped XML-like object")),
    Signature("poolside_v1", ("<arg_key>", "All available function signatures are listed below")),
    Signature("ling3", ("<arg_key>", "<role>ASSISTANT</role>")),
    Signature("glm45", ("<arg_key>", "<arg_value>")),
    Signature("minicpm5", ("<function name=", "<param name=")),
    Signature("mimo", ("<function=", "<parameter="), code=_ENABLE_THINKING_OFF),
    Signature("qwen3_coder", ("<function=", "<parameter=")),
    Signature("granite_20b_fc", ("<function_call>",)),
    Signature("phi4_mini", ("functools",)),
    Signature("phi4_mini", ("<|tool_call|>", "<|/tool_call|>")),
    Signature("granite3", ("<|tool_call|>",)),
    Signature("jamba", ("<tool_calls>",)),
    Signature("hermes", ("<tool_call>",)),
    Signature("mistral", ("[TOOL_CALLS]",)),
    Signature("pythonic", ("<|python_start|>",)),
    Signature("pythonic", ("<|header_start|>", "tools")),
    Signature("llama3", ("<|start_header_id|>", "tools", '"parameters"'), without=("<function=",)),
    Signature("xlam", ('[{"name": "tool_call_name"',)),
    Signature("kimi_k2", tokens=("<|tool_calls_section_begin|>",)),
    Signature("lfm2", tokens=("<|tool_call_start|>", "<|tool_call_end|>")),
    Signature("glm45", tokens=("<arg_key>", "<arg_value>")),
    Signature("cohere_command4", tokens=("<|START_ACTION|>",)),
    Signature("gpt-oss", tokens=("<|channel|>", "<|constrain|>", "<|call|>")),
    Signature("deepseekv31", tokens=("<｜tool▁sep｜>", "<think>")),
    Signature("deepseekv3", tokens=("<｜tool▁sep｜>",)),
    Signature("apertus2509", tokens=("<|tools_prefix|>",)),
    Signature("pythonic", tokens=("<|python_start|>",)),
    Signature("mistral", tokens=("[TOOL_CALLS]",)),
    Signature("hermes", tokens=("<tool_call>",)),
)

REASONING_SIGNATURES = (
    Signature("iquest_q1", ("<|iquest_assistant|>",)),
    Signature("k2_horizon", ("<ifm|think>",)),
    Signature("apertus2509", ("<|inner_prefix|>",)),
    Signature("kimi_k3", ("<|open|>", "<|close|>", "<|sep|>")),
    Signature("inkling", ("<|content_thinking|>",)),
    Signature("muse", ("<atem:",)),
    Signature("gemma4", ("<|channel>",)),
    Signature("kimi", ("◁think▷",)),
    Signature("mistral", ("[THINK]",)),
    Signature("gpt-oss", ("<|channel|>",), without=("<rfl:parameter",)),
    Signature("cohere_command4", ("<|START_THINKING|>",)),
    Signature("seed_oss", ("<seed:think>",)),
    Signature("minimax-m3", ("<mm:think>",)),
    # From here on the marker is <think>, and the families differ in which call may
    # interrupt it, and in whether the model writes the marker itself.
    Signature("kimi_k2", ("think>", "<|tool_calls_section_begin|>")),
    Signature("minimax", ("think>", "<minimax:tool_call>")),
    Signature("hunyuan", ("think>", "<tool_calls", "<tool_sep")),
    Signature("glm45", ("think>", "<arg_key>")),
    Signature("gigachat35", ("think>", "｜GCML｜")),
    Signature("deepseek-v3", ("think>", "｜DSML｜")),
    Signature("deepseek-v3", ("</think>", "<｜tool▁sep｜>"), code=("thinking",)),
    Signature("deepseek-r1", ("<｜Assistant｜><think>",)),
    Signature("step3", ("think>", "<steptml:")),
    Signature("qwen3", ("<think>", "<tool_call>")),
    Signature("base", ("</think>",)),
    Signature("gpt-oss", tokens=("<|channel|>", "<|constrain|>", "<|call|>")),
    Signature("apertus2509", tokens=("<|inner_prefix|>",)),
    Signature("mistral", tokens=("[THINK]",)),
    Signature("qwen3", tokens=("<think>", "<tool_call>")),
    Signature("base", tokens=("<think>", "</think>")),
)


def detect_tool_parser(template_source: str, vocabulary: Container[str]) -> str | None:
    """The parser of a model's tool calls; None if nothing tells, or it has no calls.

    Args:
        template_source: The chat template; "" if the model has none.
        vocabulary: The texts of its tokens.
    """
    return _detect(TOOL_SIGNATURES, template_source, vocabulary)


def detect_reasoning_parser(template_source: str, vocabulary: Container[str]) -> str | None:
    """The parser of a model's reasoning; None if nothing tells, or it does not reason.

    Args:
        template_source: The chat template; "" if the model has none.
        vocabulary: The texts of its tokens.
    """
    return _detect(REASONING_SIGNATURES, template_source, vocabulary)


def _detect(
    signatures: Sequence[Signature], template: str, vocabulary: Container[str]
) -> str | None:
    """The parser of the first signature that fits."""
    code = "".join(template.split()).lower()
    for signature in signatures:
        if template and not signature.texts:
            continue
        if (
            all(text in template for text in signature.texts)
            and not any(text in template for text in signature.without)
            and (not signature.code or any(text in code for text in signature.code))
            and all(token in vocabulary for token in signature.tokens)
        ):
            return signature.parser
    return None
