"""The check of special tokens agrees with the tokens that MaxText's own pipeline reads and trains."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline import Pipeline, Row
from tests.stories import spec_of, varied
from tests.tokenizers import DEEPSEEK_TEMPLATE, like_deepseek, tiny
from xsft.catalog.tokenizers import SpecialTokens, special_tokens
from xsft.checks.facts import Facts
from xsft.checks.special_tokens import masked_tokens, special_tokens_of, trained_tokens
from xsft.data.tokenizer import read_tokenizer
from xsft.spec.resolve import resolve
from xsft.trainer.maxtext import trainer_argv, trainer_keys

pytestmark = pytest.mark.contract

SYSTEM = {"role": "system", "content": ""}
ROUNDS = [("Which day?", "Sunday"), ("And then?", "Monday")]
MESSAGES = [{"role": r, "content": c} for round_ in ROUNDS for r, c in zip(("user", "assistant"), round_, strict=True)]
QWEN3 = "assets/tokenizers/qwen3-tokenizer"
"""In MaxText's package."""


@pytest.fixture
def package(maxtext_python: Path) -> Path:
    (path,) = maxtext_python.parent.parent.glob("lib/python3*/site-packages/maxtext")
    return path


def _asked(
    folder: Path, messages: Any, tmp_path: Path, pipeline: Pipeline, **maxtext: Any
) -> tuple[SpecialTokens, Row]:
    """(what the check knows, the row that MaxText makes) of one conversation."""
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"messages": messages}) + "\n")
    if maxtext.get("dataset_type") == "grain":
        parquet = pipeline.parquet([{"messages": messages}], file=tmp_path / "rows.parquet")
        maxtext |= {"grain_file_type": "parquet", "grain_train_files": str(parquet)}
    keys = {"model.tokenizer": str(folder), "data.hf_train_files": str(file), "train.per_device_batch_size": 1}
    spec = varied(spec_of("tiny_local"), keys)
    run = resolve(spec.model_copy(update={"overrides": _with(spec, maxtext)}), Facts())[0]
    read = read_tokenizer(str(folder), hub_cache=tmp_path)
    tokens = special_tokens_of(run, trainer_keys(run), read)
    assert tokens is not None
    (row,) = pipeline.rows(trainer_argv(run))
    return tokens, row


def _with(spec: Any, maxtext: Any) -> Any:
    return spec.overrides.model_copy(update={"maxtext": {**spec.overrides.maxtext, **maxtext}})


@pytest.mark.parametrize(
    "make_tokenizer",
    [
        tiny,
        lambda folder: tiny(folder, bos_token="<|end|>"),
        lambda folder: tiny(folder, pad_token=None, unk_token="<|end|>"),
        lambda folder: tiny(folder, pad_token=None, unk_token=None, bos_token=None),
        like_deepseek,
        None,
    ],
    ids=["tiny", "bos=eos", "unk=eos", "neither", "deepseek", "qwen3"],
)
def test_the_check_knows_which_special_tokens_are_trained(
    make_tokenizer: Callable[[Path], Path] | None, tmp_path: Path, package: Path, maxtext_pipeline: Pipeline
) -> None:
    folder = make_tokenizer(tmp_path / "own") if make_tokenizer else package / QWEN3
    tokens, row = _asked(folder, MESSAGES, tmp_path, maxtext_pipeline)
    special = {*(tokens.ends or ()), *masked_tokens(tokens), tokens.eos}
    assert tokens.ends
    assert set(row.trained) & special == set(trained_tokens(tokens))
    repeated = tokens.repeats or ""
    assert row.text.count(repeated) == 2 if repeated else row.text.count(tokens.ends[-1]) >= 2


@pytest.mark.parametrize("marks", [True, False], ids=["marks", "no-marks"])
@pytest.mark.parametrize(
    "make_tokenizer",
    [tiny, lambda folder: tiny(folder, bos_token="<|end|>"), like_deepseek],
    ids=["tiny", "bos=eos", "deepseek"],
)
def test_grain_trains_the_special_tokens_that_the_check_names(
    make_tokenizer: Callable[[Path], Path], marks: bool, tmp_path: Path, maxtext_pipeline: Pipeline
) -> None:
    keys = {"dataset_type": "grain", "add_bos": marks, "add_eos": marks}
    tokens, row = _asked(make_tokenizer(tmp_path / "own"), MESSAGES, tmp_path, maxtext_pipeline, **keys)
    assert tokens.ends
    special = {*tokens.ends, *masked_tokens(tokens), tokens.eos}
    assert set(row.trained) & special == set(trained_tokens(tokens))
    _, plain = _asked(tmp_path / "own", MESSAGES, tmp_path, maxtext_pipeline)
    assert (row.text == plain.text) is not marks


def test_the_catalogue_agrees_with_maxtexts_copy_of_qwen3s_tokenizer(
    tmp_path: Path, package: Path, maxtext_pipeline: Pipeline
) -> None:
    tokens, _ = _asked(package / QWEN3, MESSAGES, tmp_path, maxtext_pipeline)
    assert tokens == special_tokens("Qwen/Qwen3-0.6B")


def test_a_system_message_and_a_template_that_heeds_it_leave_one_bos(
    tmp_path: Path, maxtext_pipeline: Pipeline
) -> None:
    bos = "<｜begin▁of▁sentence｜>"
    once = "{% if messages[0].role == 'system' %}{{ bos_token }}{% endif %}" + DEEPSEEK_TEMPLATE.removeprefix(
        "{{ bos_token }}"
    )
    folder = like_deepseek(tmp_path / "own")
    tokens, row = _asked(folder, [SYSTEM, *MESSAGES], tmp_path, maxtext_pipeline, chat_template=once)
    assert tokens.repeats == ""
    assert (row.text.startswith(bos), row.text.count(bos)) == (True, 1)
    _, with_system = _asked(folder, [SYSTEM, *MESSAGES], tmp_path, maxtext_pipeline)
    assert with_system.text.count(bos) == 2
