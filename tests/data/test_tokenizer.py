from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tokenizers import DEEPSEEK_TEMPLATE, like_deepseek, tiny
from xsft.data.facts import TokenizerFacts
from xsft.data.tokenizer import read_tokenizer, tokenizer_problem
from xsft.machine.paths import hub_cache

NOWHERE = Path("/nowhere")


def read(folder: Path, *expected: str) -> TokenizerFacts:
    tokenizer_facts = read_tokenizer(str(folder), hub_cache=NOWHERE, wanted=expected)
    assert tokenizer_facts is not None
    return tokenizer_facts


def test_the_shipped_tokenizer_is_read() -> None:
    tokenizer_facts = read_tokenizer("xsft://tiny/tokenizer", hub_cache=NOWHERE)
    assert tokenizer_facts is not None
    assert (tokenizer_facts.bos, tokenizer_facts.eos, tokenizer_facts.pad, tokenizer_facts.unk) == (
        "<|system|>",
        "<|end|>",
        "<|pad|>",
        "",
    )
    assert tokenizer_facts.special == ("<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|pad|>")
    assert tokenizer_facts.template is not None
    assert "<|end|>" in tokenizer_facts.template


def test_tokens_are_read_from_objects_and_null(tmp_path: Path) -> None:
    tokenizer_facts = read(like_deepseek(tmp_path / "t"), "<｜▁pad▁｜>", "Ġthe", "<none>")
    assert (tokenizer_facts.eos, tokenizer_facts.pad, tokenizer_facts.unk) == (
        "<｜end▁of▁sentence｜>",
        "<｜end▁of▁sentence｜>",
        "",
    )
    assert tokenizer_facts.template == DEEPSEEK_TEMPLATE
    assert "<none>" in tokenizer_facts.missing
    assert "<｜▁pad▁｜>" not in tokenizer_facts.missing


def test_a_token_that_its_class_decides_is_unknown(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "t", tokenizer_class="LlamaTokenizerFast")
    assert (read(folder).pad, read(folder).unk) == ("<|pad|>", None)


def test_a_template_file_wins_over_the_configuration_and_default_over_others(tmp_path: Path) -> None:
    several = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    folder = tiny(tmp_path / "t", chat_template=several)
    assert read(folder).template == "D"
    (folder / "chat_template.jinja").write_text("J")
    assert read(folder).template == "J"


@pytest.mark.parametrize(("decoder", "pad"), [({}, "<|end|>"), ({"added_tokens_decoder": {}}, "<|pad|>")])
def test_special_tokens_map_is_used_if_the_configuration_lists_no_tokens(
    decoder: dict[str, Any], pad: str, tmp_path: Path
) -> None:
    folder = tiny(tmp_path / "t", **decoder)
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": {"content": "<|end|>"}}))
    assert read(folder).pad == pad


def test_the_padding_of_tokenizer_json_is_used_if_the_configuration_has_none(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "t")
    document = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**document, "padding": {"pad_token": "<|end|>"}}))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    assert read(folder).pad == "<|pad|>"
    del config["pad_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert read(folder).pad == "<|end|>"


@pytest.mark.parametrize("vocab", [[["a", -1.5], ["b", -2.0]], {"a": 0, "b": 1}])
def test_a_vocabulary_is_read_from_a_list_or_a_mapping(vocab: Any, tmp_path: Path) -> None:
    folder = tiny(tmp_path / "t")
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}, "added_tokens": []}))
    assert read(folder, "a", "c").missing == ("c",)


def test_a_tokenizer_without_tokenizer_json_misses_no_token(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "t")
    (folder / "tokenizer.json").unlink()
    assert read(folder, "<none>").missing == ()


COMMIT = "0123456789abcdef" * 2 + "01234567"


def test_a_tokenizer_in_the_hub_cache_is_found_by_its_ref(tmp_path: Path) -> None:
    repository = tmp_path / "models--org--name"
    tiny(repository / "snapshots" / "abc", pad_token="<|end|>")
    assert read_tokenizer("org/name", hub_cache=tmp_path) is None
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc\n")
    tokenizer_facts = read_tokenizer("org/name", hub_cache=tmp_path)
    assert tokenizer_facts is not None
    assert tokenizer_facts.pad == "<|end|>"
    tiny(repository / "snapshots" / COMMIT, pad_token="<|pad|>")
    (repository / "refs" / "v1").write_text(COMMIT)
    for revision in ("v1", COMMIT):
        tokenizer_facts = read_tokenizer("org/name", hub_cache=tmp_path, revision=revision)
        assert tokenizer_facts is not None
        assert tokenizer_facts.pad == "<|pad|>"


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"pad_token": {"content": 1}}', '{"pad_token": {}}', '{"chat_template": [1]}', "\x00"]
)
def test_a_broken_tokenizer_config_is_unknown(text: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(text)
    assert read_tokenizer(str(tmp_path), hub_cache=NOWHERE) is None


def test_tokenizer_problem_accepts_what_transformers_can_load(tmp_path: Path) -> None:
    complete = tiny(tmp_path / "whole")
    assert tokenizer_problem(str(complete)) is None
    (complete / "tokenizer_config.json").unlink()
    assert tokenizer_problem(str(complete)) is None
    assert read(complete).template is None
    own_class = {"tokenizer_class": "LlamaTokenizer", "auto_map": {"AutoTokenizer": ["kimi.KimiTokenizer", None]}}
    (complete / "tokenizer_config.json").write_text(json.dumps(own_class))
    assert tokenizer_problem(str(complete)) is None, "transformers has the class too"
    assert tokenizer_problem("org/name") is None, "a repository on the hub"
    empty, broken = tmp_path / "empty", tiny(tmp_path / "broken")
    empty.mkdir()
    (broken / "tokenizer.json").write_text("{")
    for folder, words in ((empty, "has no vocabulary"), (broken, "is not JSON"), (tmp_path / "none", "not a folder")):
        problem = tokenizer_problem(str(folder))
        assert problem is not None
        assert words in problem.message


def test_hub_cache_follows_the_environment_variables() -> None:
    assert hub_cache({"HOME": "/h"}) == Path("/h/.cache/huggingface/hub")
    assert hub_cache({"HOME": "/h", "XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/hub")
    assert hub_cache({"HOME": "/h", "HF_HOME": "/f"}) == Path("/f/hub")
    assert hub_cache({"HF_HOME": "/f", "HF_HUB_CACHE": "/x"}) == Path("/x")
