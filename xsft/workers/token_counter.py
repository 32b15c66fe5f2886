"""Counts the tokens of texts. Runs as a program in MaxText's environment, which has the tokenizers' libraries.

The question (`workers.answering`) is `{"tokenizer": folder, "texts": [[[prompt, answer], ...], ...]}`, the answer
`[[[n, n], ...], ...]`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers  # type: ignore[import-not-found]

from xsft.workers.answering import answer_question

GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes that use tokenizer.json as it is; importing transformers takes seconds."""


def answer(question: dict[str, Any]) -> list[Any]:
    count = counter(Path(question["tokenizer"]))
    return [[[count(prompt), count(answer)] for prompt, answer in rounds] for rounds in question["texts"]]


def counter(folder: Path) -> Callable[[str], int]:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    written = json.loads((folder / "tokenizer.json").read_text()) if (folder / "tokenizer.json").is_file() else None
    if written is None or config.get("tokenizer_class") not in GENERIC or written.get("post_processor"):
        return _of_transformers(folder)
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps({**written, "truncation": None, "padding": None}))
    return lambda text: len(tokenizer.encode(text).ids)


def _of_transformers(folder: Path) -> Callable[[str], int]:
    """Load the tokenizer as maxtext@0.2.5 input_pipeline/hf_data_processing.py [preprocessing_pipeline] does."""
    import transformers  # type: ignore[import-not-found]

    tokenizer = transformers.AutoTokenizer.from_pretrained(
        str(folder), add_bos_token=False, add_eos_token=False, legacy=False, extra_special_tokens={}
    )
    return lambda text: len(tokenizer(text)["input_ids"])


if __name__ == "__main__":
    answer_question(answer)
