"""Makes xsft/packaged/tiny: chat rows by arithmetic, and a byte-level BPE tokenizer of 512 entries trained on them.

    <MaxText environment>/bin/python tests/tools/make_tiny_data.py xsft/packaged/tiny

Deterministic: rows depend on nothing, training a tokenizer has no chance in it. `rows()` needs the standard library
only; the tokenizer needs `tokenizers`, which the MaxText environment holds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

ROWS = 480
VOCABULARY = 512
SPECIAL = ("<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|pad|>")

CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
COLOURS = ("red", "green", "blue", "white", "black")
THINGS = ("apples", "books", "stones", "cups", "shells")


def rows() -> Iterator[dict[str, object]]:
    """Each row serves both column sets: `[messages]` and `[question, answer]`."""
    for question, answer in islice(_pairs(), ROWS):
        messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        yield {"messages": messages, "question": question, "answer": answer}


def _pairs() -> Iterator[tuple[str, str]]:
    for i in range(ROWS):
        a, b = i * 7 % 19 + 1, i * 11 % 23 + 1
        thing, colour = THINGS[i % 5], COLOURS[i * 3 % 5]
        yield f"What is {a} plus {b}?", f"{a} plus {b} is {a + b}."
        day, later = DAYS[b % 7], DAYS[(a + b) % 7]
        yield f"Which day comes {a} days after {day}?", f"{a} days after {day} comes {later}."
        yield (
            f"I have {a} {colour} {thing} and get {b} more. How many {thing} do I have?",
            f"You have {a + b} {colour} {thing}, because {a} plus {b} is {a + b}.",
        )


def rows_text() -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())


def tokenizer_config() -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|end|>",
        "bos_token": "<|system|>",
        "pad_token": "<|pad|>",
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def train_tokenizer() -> str:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((f"{r['question']}\n{r['answer']}" for r in rows()), trainer)
    return str(tokenizer.to_str(pretty=False))


def main(folder: Path) -> None:
    (folder / "tokenizer").mkdir(parents=True, exist_ok=True)
    (folder / "chat.jsonl").write_text(rows_text(), encoding="utf-8")
    (folder / "tokenizer" / "tokenizer.json").write_text(train_tokenizer() + "\n", encoding="utf-8")
    config = json.dumps(tokenizer_config(), indent=2) + "\n"
    (folder / "tokenizer" / "tokenizer_config.json").write_text(config, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
