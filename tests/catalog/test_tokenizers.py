from __future__ import annotations

import pytest

from xsft.catalog import models, tokenizers


@pytest.mark.parametrize(
    ("repo", "family"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3"),
        ("Qwen/Qwen3-0.6B", "qwen"),
        ("Qwen/Qwen3.5-35B-A3B", "qwen3.5"),
        ("google/gemma-2-2b", "gemma"),
        ("google/gemma-2b-it", "gemma"),
        ("google/gemma-3-4b-it", "gemma3"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama3"),
        ("someone/else", None),
        ("/models/tokenizer", None),
        ("", None),
    ],
)
def test_family_by_longest_prefix(repo: str, family: str | None) -> None:
    assert tokenizers.tokenizer_family(repo) == family


def test_a_tokenizer_of_another_family_does_not_fit() -> None:
    qwen = models.model("qwen3-8b").tokenizer_family
    assert tokenizers.tokenizer_fits(family=qwen, repo="meta-llama/Llama-3.1-8B") is False
    assert tokenizers.tokenizer_fits(family=qwen, repo="Qwen/Qwen3-8B") is True
    assert tokenizers.tokenizer_fits(family=qwen, repo="someone/else") is None
    assert tokenizers.tokenizer_fits(family=None, repo="Qwen/Qwen3-8B") is None


@pytest.mark.parametrize(
    ("repo", "has"),
    [
        ("meta-llama/Llama-3.1-8B", False),
        ("meta-llama/Llama-3.1-8B-Instruct", True),
        ("google/gemma-2-2b", False),
        ("google/gemma-2-2b-it", True),
        ("Qwen/Qwen3-0.6B", True),
        ("Qwen/Qwen3-8B-Base", None),
        ("deepseek-ai/DeepSeek-V3", True),
        ("deepseek-ai/DeepSeek-V3.2", False),
        ("someone/else", None),
    ],
)
def test_chat_template(repo: str, has: bool | None) -> None:
    assert tokenizers.has_chat_template(repo) is has


def test_gates() -> None:
    assert tokenizers.is_gated("meta-llama/Llama-3.1-8B") is True
    assert tokenizers.is_gated("google/gemma-2-2b") is True
    assert tokenizers.is_gated("Qwen/Qwen3-8B") is False
    assert tokenizers.is_gated("someone/else") is None
