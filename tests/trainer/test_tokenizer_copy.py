from __future__ import annotations

import shlex
from typing import Any

import pytest

from tests.everything import everything
from xsft.catalog.data import located
from xsft.checks.facts import Facts
from xsft.spec.resolve import Run, resolve
from xsft.trainer.maxtext import trainer_argv, trainer_keys
from xsft.trainer.tokenizer_copy import FOLDER, PINNED_PROGRAM, PROGRAM, TokenizerCopy, copy_arguments, split_copying


def _run(**fields: Any) -> Run:
    return resolve(everything(**fields), Facts())[0]


def test_trainer_starts_after_the_tokenizer_copy_and_reads_it() -> None:
    argv = trainer_argv(_run(model__tokenizer_revision=None, model__hf=None))
    assert argv[:7] == ("python3", "-c", PROGRAM, "Qwen/Qwen3-8B", "<|fim_pad|>", "<|fim_prefix|>", FOLDER)
    assert argv[7:9] == ("-m", _run().release.trainer)
    assert f"tokenizer_path={FOLDER}" in argv


OWN = {"repo": "Qwen/Qwen3-8B", "revision": "v1"}
OTHER = {"repo": "Qwen/Qwen3-4B", "revision": "v1"}


@pytest.mark.parametrize(
    ("repository", "hf", "revision"),
    [("v3", OWN, "v3"), ("v3", None, "v3"), (None, OWN, "v1"), (None, OTHER, None), (None, None, None)],
)
def test_a_known_revision_of_the_tokenizer_is_the_one_that_is_copied(
    repository: str, hf: Any, revision: str | None
) -> None:
    run = _run(model__pad_token=None, model__bos_token=None, model__tokenizer_revision=repository, model__hf=hf)
    copied, _ = split_copying(copy_arguments(run))
    assert copied == (TokenizerCopy(tokenizer="Qwen/Qwen3-8B", revision=revision) if revision else None)
    assert trainer_keys(run)["tokenizer_path"] == (FOLDER if revision else "Qwen/Qwen3-8B")


def test_workload_without_own_tokens_uses_the_unchanged_tokenizer() -> None:
    run = _run(model__pad_token=None, model__bos_token=None, model__tokenizer_revision=None, model__hf=None)
    assert copy_arguments(run) == ()
    assert trainer_keys(run)["tokenizer_path"] == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(("unset", "other"), [("pad_token", "bos_token"), ("bos_token", "pad_token")])
def test_unset_token_stays_that_of_the_tokenizer(unset: str, other: str) -> None:
    found, _ = split_copying(copy_arguments(_run(**{f"model__{other}": None})))
    assert found is not None
    assert (getattr(found, unset) != "", getattr(found, other)) == (True, "")


def test_tokenizer_of_the_model_is_copied_if_none_is_named() -> None:
    assert copy_arguments(_run(model__tokenizer=None))[2] == "Qwen/Qwen3-8B"


def test_workload_without_tokenizer_copies_nothing() -> None:
    run = _run(model__tokenizer=None, model__name="default")
    assert copy_arguments(run) == ()
    assert "tokenizer_path" not in trainer_keys(run)


def test_local_tokenizer_copy_is_in_the_folder_of_the_run() -> None:
    """Two runs may have two tokenizers."""
    run = _run(target="local", output="/runs", model__tokenizer="xsft://tiny/tokenizer", run_name_suffix="none")
    folder = "/runs/everything/tokenizer"
    assert copy_arguments(run)[2:6] == (located("xsft://tiny/tokenizer"), "<|fim_pad|>", "<|fim_prefix|>", folder)
    assert trainer_keys(run)["tokenizer_path"] == folder


@pytest.mark.parametrize("program", [PROGRAM, PINNED_PROGRAM])
def test_copy_program_is_one_line_that_a_shell_quotes_simply(program: str) -> None:
    assert "\n" not in program
    assert shlex.quote(program) == f"'{program}'"


@pytest.mark.parametrize("revision", ["v3", None])
@pytest.mark.parametrize("trainer_arguments", [("-m", "module", "key=value"), ()])
def test_split_copying_separates_the_copy_from_the_trainer(
    trainer_arguments: tuple[str, ...], revision: str | None
) -> None:
    tokens = {"pad_token": "<|fim_pad|>", "bos_token": "<|fim_prefix|>"}
    tokenizer_copy = TokenizerCopy(tokenizer="Qwen/Qwen3-8B", revision=revision, **tokens)
    run = _run(model__tokenizer_revision=revision, model__hf=None)
    assert split_copying((*copy_arguments(run), *trainer_arguments)) == (tokenizer_copy, trainer_arguments)
    assert split_copying(trainer_arguments) == (None, trainer_arguments)


@pytest.mark.parametrize("words", [("-c", PROGRAM), ("-c", "print()", "a", "b", "c"), ("-c", PROGRAM, "a", "b", "c")])
def test_split_copying_ignores_another_program(words: tuple[str, ...]) -> None:
    assert split_copying(words) == (None, words)
