"""Small tokenizers with the special tokens, the class and the format of the catalogue's: xsft's own, renamed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xsft.catalog.data import located

TINY = Path(located("xsft://tiny/tokenizer"))

DEEPSEEK = {
    "<|end|>": "<｜end▁of▁sentence｜>",
    "<|user|>": "<｜User｜>",
    "<|assistant|>": "<｜Assistant｜>",
    "<|system|>": "<｜begin▁of▁sentence｜>",
    "<|pad|>": "<｜▁pad▁｜>",
}
"""The tokens of DeepSeek-V3 in place of the tiny tokenizer's."""

DEEPSEEK_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m['role'] == 'system' %}{{ m['content'] }}"
    "{% elif m['role'] == 'user' %}<｜User｜>{{ m['content'] }}"
    "{% else %}<｜Assistant｜>{{ m['content'] }}<｜end▁of▁sentence｜>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<｜Assistant｜>{% endif %}"
)
"""Its format: one BOS at the head of a conversation, an EOS after each answer."""

DEEPSEEK_CONFIG: Mapping[str, Any] = {
    "tokenizer_class": "LlamaTokenizerFast",
    "legacy": True,
    "bos_token": {"__type": "AddedToken", "content": "<｜begin▁of▁sentence｜>", "normalized": True},
    "eos_token": {"__type": "AddedToken", "content": "<｜end▁of▁sentence｜>", "normalized": True},
    "pad_token": {"__type": "AddedToken", "content": "<｜end▁of▁sentence｜>", "normalized": True},
    "unk_token": None,
    "clean_up_tokenization_spaces": False,
    "chat_template": DEEPSEEK_TEMPLATE,
}
"""source: https://cdn.deepseek.com/api-docs/deepseek_v3_tokenizer.zip, tokenizer_config.json."""


def like_deepseek(folder: Path, **config: Any) -> Path:
    """A tokenizer as DeepSeek-V3 ships it, with 512 entries: byte-level, said to be Llama's, its pad the EOS."""
    tokenizer_json = (TINY / "tokenizer.json").read_text(encoding="utf-8")
    for our_token, theirs in DEEPSEEK.items():
        tokenizer_json = tokenizer_json.replace(json.dumps(our_token), json.dumps(theirs, ensure_ascii=False))
    files = {
        "tokenizer.json": tokenizer_json,
        "tokenizer_config.json": json.dumps({**DEEPSEEK_CONFIG, **config}),
        "config.json": json.dumps({"model_type": "deepseek_v3"}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def tiny(folder: Path, **config: Any) -> Path:
    """xsft's own tokenizer with these keys of its tokenizer_config.json replaced."""
    document = json.loads((TINY / "tokenizer_config.json").read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_bytes((TINY / "tokenizer.json").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps({**document, **config}), encoding="utf-8")
    return folder
