"""DeepSeek V3.2's prompts.

A question is followed by the assistant's marker at once, and that by a thinking marker:
open behind the last question where the model is to think, closed everywhere else. Earlier
turns lose their thoughts. Results follow the calls within the same turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglrouter.prompt.budget import Budget
from sglrouter.prompt.encodings.dsml import (
    ASSISTANT,
    BEGIN,
    END,
    END_THINK,
    RESPONSE_FORMAT,
    THINK,
    USER,
    Dsml,
)
from sglrouter.prompt.encodings.encoding import (
    PromptWriter,
    as_json,
    functions_of,
    in_order_of_calls,
    last_question,
    reasoning_of,
    text_of,
    thinks,
    unknown_role,
)

_DSML = Dsml("function_calls")

_TOOLS = f"""## Tools
You have access to a set of tools you can use to answer the user's question.
You can invoke functions by writing a "{_DSML.begin(_DSML.block)}" block like the following \
as part of your reply to the user:
{_DSML.example("FUNCTION_NAME")}
String and scalar parameters should be specified as is without any escaping or quotes, while \
lists and objects should use JSON format. The "string" attribute should be set to "true" for \
string type parameters and "false" for other types (numbers, booleans, arrays, objects).
If the thinking_mode is enabled, then after function results you should strongly consider \
outputting a thinking block. Here is an example:
{_DSML.begin(_DSML.block)}
...
{_DSML.end(_DSML.block)}
<function_results>
...
</function_results>
{THINK}...thinking about results{END_THINK}
Here are the functions available in JSONSchema format:
<functions>
%s
</functions>
"""


class DeepseekV32:
    """See sglrouter.prompt.encodings.encoding.Encoding."""

    source = "\n".join((BEGIN, END, USER, ASSISTANT, THINK, END_THINK, _DSML.begin(_DSML.block)))
    content_format = "string"
    # The reference's developer is somebody else: a search agent's question with tools.
    knows_developer = False
    knows_thinking = False
    shows_response_format = False

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        budget: Budget,
        *,
        add_generation_prompt: bool = True,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Renders a conversation; see ChatTemplate.render()."""
        messages = in_order_of_calls(messages)
        thinking = thinks(kwargs or {})
        asked = last_question(messages)
        prompt = PromptWriter(budget)
        prompt.write(BEGIN)
        if tools and messages[0]["role"] != "system":
            prompt.write("\n\n", _tools(tools))
        for index, message in enumerate(messages):
            role = message["role"]
            following = messages[index + 1]["role"] if index + 1 < len(messages) else None
            opens = following is not None or add_generation_prompt
            thought = THINK if thinking and index >= asked else END_THINK
            if role == "assistant":
                before = messages[index - 1]["role"] if index else None
                if before not in ("user", "tool"):
                    prompt.write(ASSISTANT, thought)
                if thinking and index > asked:
                    prompt.write(reasoning_of(message), END_THINK)
                prompt.write(_DSML.said(text_of(message), message.get("tool_calls") or ()), END)
            elif role == "tool":
                if not index or messages[index - 1]["role"] != "tool":
                    prompt.write("\n\n<function_results>")
                prompt.write("\n<result>", text_of(message), "</result>")
                if following != "tool":
                    prompt.write("\n</function_results>")
                    if opens:
                        prompt.write("\n\n", thought)
            elif role == "user":
                prompt.write(USER, text_of(message))
                if opens:
                    prompt.write(ASSISTANT, thought)
            elif role == "system":
                prompt.write(text_of(message))
                if tools and index == 0:
                    prompt.write("\n\n", _tools(tools))
                if message.get("response_format"):
                    prompt.write(RESPONSE_FORMAT, as_json(message["response_format"]))
            else:
                raise unknown_role(role)
        if add_generation_prompt and messages[-1]["role"] not in ("user", "tool"):
            prompt.write(ASSISTANT, THINK if thinking else END_THINK)
        return prompt.text()


def _tools(tools: Sequence[Mapping[str, Any]]) -> str:
    return _TOOLS % "\n".join(map(as_json, functions_of(tools)))
