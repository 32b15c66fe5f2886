from __future__ import annotations

import pytest

from xsft.catalog import models, tokenizers
from xsft.catalog.data import toml


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
def test_tokenizer_family_follows_the_longest_prefix(repo: str, family: str | None) -> None:
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
def test_has_chat_template_is_known_per_repository(repo: str, has: bool | None) -> None:
    assert tokenizers.has_chat_template(repo) is has


def test_gated_repositories_are_known() -> None:
    assert tokenizers.is_gated("meta-llama/Llama-3.1-8B") is True
    assert tokenizers.is_gated("google/gemma-2-2b") is True
    assert tokenizers.is_gated("Qwen/Qwen3-8B") is False
    assert tokenizers.is_gated("deepseek-ai/DeepSeek-V3") is False
    assert tokenizers.is_gated("someone/else") is None


def test_special_tokens_are_known_unset_or_unknown() -> None:
    llama = tokenizers.special_tokens("meta-llama/Llama-3.1-8B-Instruct")
    assert llama is not None
    assert (llama.pad, llama.unk, llama.ends) == ("", "", ("<|eot_id|>",))
    assert tokenizers.special_tokens("meta-llama/Llama-3.1-8B") is None
    flash = tokenizers.special_tokens("deepseek-ai/DeepSeek-V4-Flash")
    assert flash is not None
    assert (flash.pad, flash.ends, flash.repeats) == (flash.eos, None, None)


@pytest.mark.parametrize(
    ("repo", "eos"),
    [("Qwen/Qwen3-8B", "<|im_end|>"), ("Qwen/Qwen3-30B-A3B", "<|im_end|>"), ("Qwen/Qwen3-8B-Base", "<|endoftext|>")],
)
def test_base_model_has_another_end_of_sequence_token(repo: str, eos: str) -> None:
    assert (tokenizers.special_tokens(repo) or tokenizers.SpecialTokens()).eos == eos


def test_special_token_rows_are_reachable_and_their_unused_token_is_unused() -> None:
    rows = toml("tokenizers.toml")["special_tokens"]
    for row in rows:
        repo = row["repos"][0].replace("[0-9]*", "1").replace("[13]", "1").replace("*", "1")
        special_tokens = tokenizers.special_tokens(repo)
        assert special_tokens is not None
        assert {key: getattr(special_tokens, key) for key in row if key not in ("repos", "ends")} == {
            key: value for key, value in row.items() if key not in ("repos", "ends")
        }
        assert not special_tokens.unused or special_tokens.unused not in {
            special_tokens.bos,
            special_tokens.eos,
            special_tokens.pad,
            *(special_tokens.ends or ()),
        }
        assert tokenizers.tokenizer_family(repo) is not None
