"""The model that the engines serve, as the router needs it: loaded once, before the fork."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import tokenizers

from sglrouter.config import Settings
from sglrouter.families.reading import Reading
from sglrouter.families.registry import ModelFormats, choose_formats
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.prompt.conversation import PromptBuilder, PromptOptions
from sglrouter.prompt.encoder import Encoder, ReferenceLibrary, Run, in_place
from sglrouter.prompt.encodings.choice import encoding
from sglrouter.prompt.fast_tokenizer import fast_library
from sglrouter.prompt.longest_token import longest_token
from sglrouter.prompt.model_files import ModelFiles, read_model_files, read_template_file
from sglrouter.prompt.special_tokens import ends_of
from sglrouter.prompt.tokenizer import read_tokenizer, vocabulary_size


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Everything made from a model's files.

    Attributes:
        name: What the operator calls it; empty if the files came from an engine and
            nobody has said.
        created: Unix time of loading, in seconds.
        files: What the files say.
        vocab_size: Ids from here on do not exist.
        context_length: In tokens; 0 if unknown.
        prompts: Conversation to ids.
        detokenizers: Ids to text.
        formats: How it writes tool calls and reasoning.
    """

    name: str
    created: int
    files: ModelFiles
    vocab_size: int
    context_length: int
    prompts: PromptBuilder
    detokenizers: DetokenizerFactory
    formats: ModelFormats
    _shown: dict[frozenset[str], frozenset[int]] = msgspec.field(default_factory=dict)

    def shown_tokens(self, reading: Reading) -> frozenset[int]:
        """The special tokens that have to be text for an answer to be read."""
        markers = reading.markers
        if markers not in self._shown:
            self._shown[markers] = self.detokenizers.special_tokens_in(markers)
        return self._shown[markers]


def _template_source(settings: Settings, files: ModelFiles) -> str:
    sources = files.chat_templates
    if settings.chat_template:
        sources = read_template_file(Path(settings.chat_template))
    built_in = None if sources else encoding(files.encoding)
    if built_in is not None:
        return built_in.source
    return "\n".join(sources.values())


def load_model(settings: Settings, directory: Path, run: Run = in_place) -> Model:
    """Loads a model's tokenizer, template and facts.

    Args:
        settings: Names and overrides.
        directory: The folder with the model's files.
        run: Runs the encoding of a long text, beside others where that can be.

    Raises:
        ConfigError: A file is missing or wrong.
    """
    files = read_model_files(directory)
    tokenizer, source = read_tokenizer(files.directory)
    fast = fast_library(source, tokenizer)
    if fast is not None:
        fast.remember(settings.tokenizer_cache)
    # It takes a good part of a second to get a large one.
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    encoder = Encoder(
        fast or ReferenceLibrary(tokenizer),
        ends_of(tokenizer),
        longest_token(tokenizer, vocabulary),
        run,
    )
    detokenizers = DetokenizerFactory(tokenizer)
    vocab_size = files.vocab_size or vocabulary_size(vocabulary)
    formats = choose_formats(
        settings.tool_call_parser,
        settings.reasoning_parser,
        _template_source(settings, files),
        vocabulary,
    )
    text_only = settings.control_tokens == "text"
    if fast is not None and detokenizers.vocabulary is not None and not text_only:
        # Nobody encodes or decodes with it any more; only its added tokens are asked for.
        tokenizer.model = tokenizers.models.BPE()
    return Model(
        # A folder in the cache is named by a digest.
        name=settings.model_name or (files.name if settings.tokenizer else ""),
        created=int(time.time()),
        files=files,
        vocab_size=vocab_size,
        context_length=settings.context_length or files.context_length,
        prompts=PromptBuilder(
            files,
            encoder,
            PromptOptions(
                template_file=Path(settings.chat_template) if settings.chat_template else None,
                template_name=settings.chat_template_name,
                variables=settings.default_chat_template_kwargs,
                sort_tools=settings.sort_tools,
                seconds=settings.chat_template_timeout,
                characters=settings.max_prompt,
            ),
            tokenizer if text_only else None,
        ),
        detokenizers=detokenizers,
        formats=formats,
    )
