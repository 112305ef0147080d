"""Build the tiny model: the corpus, the tokenizer and the configuration files beside them.

`python -m sglrouter.sim.build_tiny` writes `sglrouter/sim/tiny/` anew. Its sources live in the same
folder: `conversations.txt` and `chat_template.jinja` are written by hand, `facts.toml` holds tables
with the conversations to make of each row. They become `corpus.txt`, which looks to the last
character like what the chat template renders, so that a model that counts its tokens knows how to
go on after a rendered prompt. A byte-level BPE is trained on it; special tokens take the ids after
the learned ones, and config.json claims a few ids more than the tokenizer has, as real models do.

Nothing here depends on the clock, on chance or on the order of a set: two builds are equal.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import TypeAlias

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

TINY = Path(__file__).parent / "tiny"

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
SPECIAL_TOKENS = (END_OF_TEXT, TURN_START, TURN_END)
# As in Qwen, these are single tokens but not special: a decoder that skips special tokens keeps
# them, and whoever parses the text sees them.
MARKER_TOKENS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)

LEARNED_TOKENS = 4064
PADDED_VOCABULARY = 4096  # what config.json claims; the ids in between are never used
CONTEXT_LENGTH = 8192

# Contractions, words with the character before them, single digits, punctuation, line ends, spaces.
# Combining marks belong to words, or the scripts of India would fall apart at every vowel sign.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_LARGEST_FACTOR = 10

Turn: TypeAlias = tuple[str, str]
"""A letter (Q, T, A, C or R, see conversations.txt) and the text of the turn."""


def build_corpus() -> str:
    """Return the training text: documents that each end with `<|im_end|>` and `<|endoftext|>`."""
    blocks = [*_written_blocks(), *_fact_blocks(), *_arithmetic_blocks()]
    return "".join(f"{_render(block)}{TURN_END}\n{END_OF_TEXT}\n" for block in blocks)


def build_tokenizer(corpus: str) -> Tokenizer:
    """Train the tokenizer on a text from `build_corpus`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=LEARNED_TOKENS,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # The markers are no text to learn from: they become tokens of their own below.
    markers = "|".join(re.escape(token) for token in (*SPECIAL_TOKENS, *MARKER_TOKENS))
    tokenizer.train_from_iterator(re.split(markers, corpus), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in MARKER_TOKENS])
    return tokenizer


def build_files() -> dict[str, str]:
    """Return the name and the text of every file that is built."""
    corpus = build_corpus()
    tokenizer = build_tokenizer(corpus)
    turn_end = tokenizer.token_to_id(TURN_END)
    end_of_text = tokenizer.token_to_id(END_OF_TEXT)
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": CONTEXT_LENGTH,
        "bos_token": None,
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "additional_special_tokens": [TURN_START, TURN_END],
        "clean_up_tokenization_spaces": False,
    }
    config = {
        "architectures": ["SglrouterTinyForCausalLM"],
        "model_type": "sglrouter_tiny",
        "vocab_size": PADDED_VOCABULARY,
        "max_position_embeddings": CONTEXT_LENGTH,
        "eos_token_id": turn_end,
        "pad_token_id": end_of_text,
    }
    generation_config = {
        "eos_token_id": [turn_end, end_of_text],
        "pad_token_id": end_of_text,
        "do_sample": True,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "repetition_penalty": 1.0,
    }
    return {
        "corpus.txt": corpus,
        "tokenizer.json": tokenizer.to_str() + "\n",
        "tokenizer_config.json": _json(tokenizer_config),
        "config.json": _json(config),
        "generation_config.json": _json(generation_config),
    }


def _written_blocks() -> Iterator[str]:
    """The conversations and texts written by hand, without the comment that opens the file."""
    text = (TINY / "conversations.txt").read_text(encoding="utf-8")
    yield from (block.strip("\n") for block in re.split(r"^---\n", text, flags=re.MULTILINE)[1:])


def _fact_blocks() -> Iterator[str]:
    """Every conversation of every table, filled in with every row of that table."""
    tables = tomllib.loads((TINY / "facts.toml").read_text(encoding="utf-8"))["table"]
    for table in tables:
        for row in table["rows"]:
            values = dict(zip(table["fields"], row, strict=True))
            for conversation in table["conversations"]:
                yield Template(conversation.strip("\n")).substitute(values)


def _arithmetic_blocks() -> Iterator[str]:
    for larger in range(1, _LARGEST_FACTOR + 1):
        # Only one order of each pair: the model finds a question by its words, in any order.
        for smaller in range(1, larger + 1):
            yield (
                f"Q: What is {larger} plus {smaller}?\nT: I have to add {larger} and {smaller}.\n"
                f"A: {larger} plus {smaller} is {larger + smaller}."
            )
            yield (
                f"Q: What is {larger} times {smaller}?\n"
                f"A: {larger} times {smaller} is {larger * smaller}."
            )


def _render(block: str) -> str:
    """Write one block as the chat template would, without the end of the last turn."""
    turns = _turns(block)
    if not turns:
        return block
    text = ""
    speaker = ""
    before = ""
    for letter, content in turns:
        role = "user" if letter in "QR" else "assistant"
        if letter == "Q" or role != speaker:
            text += f"{TURN_END}\n" if text else ""
            text += f"{TURN_START}{role}\n"
        elif before in "CR":
            text += "\n"
        if letter == "T":
            text += f"<think>\n{content}\n</think>\n\n"
        elif letter == "C":
            text += f"<tool_call>\n{content}\n</tool_call>"
        elif letter == "R":
            text += f"<tool_response>\n{content}\n</tool_response>"
        else:
            text += content
        speaker, before = role, letter
    return text


def _turns(block: str) -> list[Turn]:
    """Take a block apart; a plain text has no turns."""
    turns = re.split(r"^([QTACR]):[ ]?", block, flags=re.MULTILINE)[1:]
    return [
        # A field may begin with a small letter, as in "the Netherlands"; a sentence does not.
        (letter, content[:1].upper() + content[1:].rstrip("\n"))
        for letter, content in zip(turns[::2], turns[1::2], strict=True)
    ]


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the files and say how large they are."""
    for name, text in build_files().items():
        (TINY / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}: {len(text.encode())} bytes\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
