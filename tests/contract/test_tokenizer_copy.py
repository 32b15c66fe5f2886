"""`model.pad_token` and `model.bos_token`, held against the tokens that MaxText's own pipeline trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.maxtext import environment
from tests.pipeline import Pipeline, Row
from tests.stories import intent_of, spec_of, varied
from tests.tokenizers import like_deepseek, tiny
from xsft.environments.ask import Interpreter, ask
from xsft.machine import process
from xsft.planning.steps import Intent
from xsft.trainer.tokenizer_copy import TokenizerCopy, copying_words, split_copying

pytestmark = pytest.mark.contract

EOS, BOS, PAD = "<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<｜▁pad▁｜>"
ROUNDS = [("Which day?", "Sunday"), ("And then?", "Monday")]
MESSAGES = [{"role": r, "content": c} for round_ in ROUNDS for r, c in zip(("user", "assistant"), round_, strict=True)]
READ = "".join(f"{BOS}<｜User｜>{asked}<｜Assistant｜>{answer}{EOS}" for asked, answer in ROUNDS)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"messages": MESSAGES}) + "\n")
    return file


def _intent(folder: Path, rows: Path, **tokens: str) -> Intent:
    """A local workload with the tokenizer of `folder`; its run's folder stands beside it."""
    keys = {
        "model.tokenizer": str(folder),
        **{f"model.{name}": token for name, token in tokens.items()},
        "data.hf_train_files": str(rows),
        "train.per_device_batch_size": 1,
        "output": str(folder.parent / "runs"),
    }
    return intent_of(varied(spec_of("tiny_local"), keys))


def _started(intent: Intent, python: Path) -> process.ProcessResult:
    """Run what stands before the trainer for real; a line of Python that says its arguments stands for the trainer."""
    _, trainer_argv = split_copying(intent.trainer_argv[1:])
    copying = intent.trainer_argv[1 : len(intent.trainer_argv) - len(trainer_argv)]
    says = ("-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *trainer_argv)
    return process.run((str(python), *copying, *says), env=environment("/nowhere"), timeout_s=120)


def _rows(intent: Intent, pipeline: Pipeline, **here: bool) -> list[Row]:
    _, trainer_argv = split_copying(intent.trainer_argv[1:])
    return pipeline.rows(("python3", *trainer_argv), here)


@pytest.mark.parametrize("packing", [True, False])
def test_the_end_of_an_answer_is_not_trained_if_pad_is_eos(
    packing: bool, tmp_path: Path, rows: Path, maxtext_pipeline: Pipeline
) -> None:
    (row,) = _rows(_intent(like_deepseek(tmp_path / "own"), rows), maxtext_pipeline, packing=packing)
    assert "".join(row.trained) == "SundayMonday"


@pytest.mark.parametrize("packing", [True, False])
def test_the_copied_tokenizer_trains_each_answer_end_and_reads_the_same_tokens(
    packing: bool, tmp_path: Path, rows: Path, maxtext_python: Path, maxtext_pipeline: Pipeline
) -> None:
    folder = like_deepseek(tmp_path / "own")
    intent = _intent(folder, rows, pad_token=PAD)
    done = _started(intent, maxtext_python)
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == list(split_copying(intent.trainer_argv[1:])[1])
    (row,) = _rows(intent, maxtext_pipeline, packing=packing)
    (copied_row,) = _rows(_intent(folder, rows), maxtext_pipeline, packing=True)
    assert "".join(row.trained) == f"Sunday{EOS}Monday{EOS}"
    assert copied_row.text == READ
    assert row.inputs[: len(copied_row.read)] == copied_row.inputs[: len(copied_row.read)]


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({"bos_token": "<|end|>"}, {"bos_token": "<|system|>"}),
        ({"pad_token": None, "unk_token": "<|end|>"}, {"pad_token": "<|pad|>"}),
    ],
)
def test_an_end_token_that_is_bos_or_pad_is_trained_only_with_the_copied_tokenizer(
    config: Any, tokens: Any, tmp_path: Path, rows: Path, maxtext_python: Path, maxtext_pipeline: Pipeline
) -> None:
    folder = tiny(tmp_path / "own", **config)
    (copied_row,) = _rows(_intent(folder, rows), maxtext_pipeline)
    intent = _intent(folder, rows, **tokens)
    assert _started(intent, maxtext_python).status == 0
    (row,) = _rows(intent, maxtext_pipeline)
    assert ("".join(copied_row.trained), "".join(row.trained)) == ("Sunday\nMonday\n", "Sunday<|end|>\nMonday<|end|>\n")


def test_a_token_that_the_vocabulary_lacks_ends_the_run_before_the_trainer(
    tmp_path: Path, rows: Path, maxtext_python: Path
) -> None:
    done = _started(_intent(like_deepseek(tmp_path / "own"), rows, bos_token="<|nothing|>"), maxtext_python)
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].endswith("has no token <|nothing|>")


@pytest.mark.parametrize("revision", ["v1", "0123456789abcdef" * 2 + "01234567"])
def test_the_copy_and_the_export_read_the_tokenizer_at_its_revision(
    revision: str, tmp_path: Path, maxtext_python: Path
) -> None:
    """The hub's cache has two commits of a repository; the default branch is the other one."""
    repository, copy, folder = (tmp_path / name for name in ("models--org--name", "copy", "exported"))
    for parent in (repository / "refs", folder):
        parent.mkdir(parents=True)
    for ref, commit, pad in (("main", "f" * 40, "<|end|>"), ("v1", "0123456789abcdef" * 2 + "01234567", "<|pad|>")):
        (repository / "refs" / ref).write_text(commit)
        snapshot = tiny(repository / "snapshots" / commit, pad_token=pad)
        (snapshot / "config.json").write_text('{"model_type": "qwen3"}')
    words = copying_words(TokenizerCopy(tokenizer="org/name", revision=revision), folder=str(copy))
    env = {**environment("/nowhere"), "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = process.run((str(maxtext_python), *words, "-c", "print('trained')"), env=env, timeout_s=120)
    assert done.stdout == "trained\n", done.stderr
    job = {"folder": str(folder), "tokenizer": "org/name", "tokenizer_revision": revision, "source": None}
    tokens = {"pad_token": "", "bos_token": "", "template": None}
    ask(Interpreter(python=maxtext_python, env=env), "xsft.workers.model_files", {**job, **tokens})
    for read in (copy, folder):
        assert json.loads((read / "tokenizer_config.json").read_text())["pad_token"] == "<|pad|>"
