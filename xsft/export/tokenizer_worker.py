"""Gives an exported model the tokenizer and the chat template of its training. Runs as a program in MaxText's
environment (`pod.answering`): `{"folder", "tokenizer", "pad_token", "bos_token", "template"}` becomes `{"ends":
[ids]}`. Without a template the tokenizer keeps its own.

config.json and generation_config.json get the ids of this tokenizer: MaxText writes those of its own table, and an
engine stops at them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xsft.pod.answering import answer_notes

MARK = "the-answer-of-xsft"
"""An answer whose end is looked for in the rendered template."""


def answer(job: dict[str, Any]) -> dict[str, Any]:
    import transformers  # type: ignore[import-not-found]

    folder = Path(job["folder"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["tokenizer"])
    tokenizer.pad_token = job["pad_token"] or tokenizer.pad_token
    tokenizer.bos_token = job["bos_token"] or tokenizer.bos_token
    tokenizer.chat_template = job["template"] or tokenizer.chat_template
    tokenizer.save_pretrained(folder)
    own = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad")}
    ends = ends_of(tokenizer)
    if (folder / "config.json").is_file():
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        write_json(folder / "config.json", {**config, **own})
        write_json(folder / "generation_config.json", {**own, "eos_token_id": ends or None})
    return {"ends": ends}


def ends_of(tokenizer: Any) -> list[int]:
    """Return the tokens that end an answer: the EOS, and the first special token after an answer in the template."""
    found = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
    if not tokenizer.chat_template:
        return found
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": MARK}]
    _, _, tail = tokenizer.apply_chat_template(turns, tokenize=False).rpartition(MARK)
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    after = (token for token in tokenizer(tail, add_special_tokens=False)["input_ids"] if token in special)
    first = next(after, None)
    return found if first is None or first in found else [*found, int(first)]


def write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    answer_notes(answer)
