"""Where an answer's tokens come from: a script, an echo of the prompt, or the model.

An answer says, for any position, how likely each next token is and how many tokens the
next step makes; stops, limits and sampling are the scheduler's. Script and echo are
decided in advance: after their last id comes EOS, and whoever ignores EOS gets the same
ids over again. A script may also end itself, with a finish reason of its own.
"""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

from sglrouter.sim.distribution import Distribution, MadeUp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sglrouter.sim.language_model import LanguageModel
    from sglrouter.sim.model_folder import ModelFolder
    from sglrouter.sim.options import SimOptions

# The last user turn of a ChatML prompt; other templates are echoed whole.
_USER_TURN = re.compile(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", re.DOTALL)

# How much of a prompt the model is shown to score one of its tokens.
_SCORING_WINDOW = 64


@dataclass(frozen=True, slots=True)
class Finish:
    """Why a sample ended; `matched` is the stop id or stop string.

    A refusal is an "abort" with the HTTP status and the words of the scheduler.
    """

    reason: str
    matched: int | str | None = None
    http_status: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """An answer written in advance.

    `content` is a text, a list of ids, or a list of chunks of ids: then each chunk is one
    step and, held-back stops aside, one message. With a finish reason the answer ends
    right after the last id, without EOS; else EOS follows as a step of its own.
    """

    content: str | Sequence[int] | Sequence[Sequence[int]]
    finish_reason: str | None = None
    matched: int | str | None = None


class Answer(Protocol):
    """The tokens of one sample."""

    @property
    def decided(self) -> bool:
        """Whether the tokens are known in advance, whatever the sampling parameters."""

    def next_step(self) -> int:
        """How many tokens the next step makes."""

    def distribution(self, output: Sequence[int]) -> Distribution:
        """The next token after these."""

    def ending(self, position: int, /) -> Finish | None:
        """How the answer ends itself at this position, if it does."""


class WrittenAnswer:
    """An answer whose ids are known: a script or an echo."""

    decided = True

    def __init__(
        self,
        ids: Sequence[int],
        steps: Sequence[int],
        finish: Finish | None,
        folder: ModelFolder,
        options: SimOptions,
    ) -> None:
        eos = [] if finish else list(folder.eos_ids[:1])
        self._ids = [*ids, *eos] or [0]
        self._length = len(ids)
        self._steps = deque(steps)
        self._finish = finish
        self._folder = folder
        self._options = options

    def next_step(self) -> int:
        """The size of the script's next chunk."""
        return self._steps.popleft() if self._steps else self._options.tokens_per_chunk

    def distribution(self, output: Sequence[int]) -> Distribution:
        """Almost certainly the written id."""
        position = len(output)
        return MadeUp(
            self._ids[position % len(self._ids)],
            f"{self._options.seed}:{position}",
            self._folder.ordinary_ids,
            self._folder.vocab_size,
        )

    def ending(self, position: int) -> Finish | None:
        """The script's own finish, once its chunks are through."""
        return self._finish if position >= self._length and not self._steps else None


class ModelAnswer:
    """An answer by the small language model."""

    decided = False

    def __init__(
        self, model: LanguageModel, prompt: Sequence[int], folder: ModelFolder, options: SimOptions
    ) -> None:
        self._model = model
        self._context = list(prompt)
        self._prompt_length = len(prompt)
        self._folder = folder
        self._options = options

    def next_step(self) -> int:
        """As many tokens as the options say."""
        return self._options.tokens_per_chunk

    def distribution(self, output: Sequence[int]) -> Distribution:
        """What the model expects after the prompt and these."""
        # An answer only grows: one list that grows with it, instead of a copy a token.
        self._context.extend(output[len(self._context) - self._prompt_length :])
        ranked = self._model.distribution(self._context)
        return Distribution(ranked, self._folder.vocab_size)

    def ending(self, _position: int, /) -> Finish | None:
        """None: a model ends with a token."""
        return None


class AnswerSource:
    """Gives every sample its answer."""

    def __init__(self, folder: ModelFolder, options: SimOptions) -> None:
        self._folder = folder
        self._options = options
        self._scripts: deque[Script] = deque()
        if options.script is not None:
            self.use([read_script(options.script)])

    def use(self, scripts: Sequence[Script]) -> None:
        """Answers the coming samples with these in order, and all later ones with the last."""
        self._scripts = deque(scripts)

    def answer(self, prompt: Sequence[int], original_text: str) -> Answer:
        """The answer for one sample; scripts go before the configured kind."""
        scripts = self._scripts
        if scripts:
            return self._written(scripts.popleft() if len(scripts) > 1 else scripts[0])
        if self._options.answer == "model":
            model = _language_model(self._folder.path)
            return ModelAnswer(model, prompt, self._folder, self._options)
        text = original_text or self._folder.decode(list(prompt))
        turns = _USER_TURN.findall(text)
        return self._written(Script(turns[-1] if turns else text))

    def nothing(self) -> Answer:
        """An answer for a request that only fills the prefix cache."""
        return self._written(Script([]))

    def prompt_distribution(self, prompt: Sequence[int], position: int) -> Distribution:
        """What was likely at a position of the prompt, for input log probabilities."""
        if self._options.answer == "model" and not self._scripts:
            window = list(prompt[max(0, position - _SCORING_WINDOW) : position])
            model = _language_model(self._folder.path)
            return Distribution(model.distribution(window), self._folder.vocab_size)
        return MadeUp(
            prompt[position],
            f"{self._options.seed}:prompt:{position}",
            self._folder.ordinary_ids,
            self._folder.vocab_size,
        )

    def _written(self, script: Script) -> WrittenAnswer:
        ids: list[int] = []
        steps: list[int] = []
        if isinstance(script.content, str):
            ids = self._folder.encode(script.content)
        else:
            for item in script.content:
                if isinstance(item, int):
                    ids.append(item)
                else:
                    ids.extend(item)
                    steps.append(len(item))
        finish = Finish(script.finish_reason, script.matched) if script.finish_reason else None
        return WrittenAnswer(ids, steps, finish, self._folder, self._options)


def read_script(path: Path) -> Script:
    """Reads a script file: JSON ids, JSON lists of ids, or else plain text."""
    text = path.read_text("utf-8")
    try:
        content = json.loads(text)
    except ValueError:
        return Script(text)
    if isinstance(content, list) and content and all(_is_ids(item) for item in content):
        return Script(cast("list[int]", content))
    return Script(text)


def _is_ids(item: object) -> bool:
    if isinstance(item, list):
        return all(type(token) is int for token in item)
    return type(item) is int


@lru_cache(maxsize=4)
def _language_model(path: Path) -> LanguageModel:
    # Imported here: an engine that never answers by itself need not load it.
    from sglrouter.sim.language_model import LanguageModel

    return LanguageModel.load(path)
