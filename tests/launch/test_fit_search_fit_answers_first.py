"""A run that may not fit is compiled before its submission, if the user says so or it is known to be done soon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.stories import intent_of, spec_of, varied
from xsft.catalog.tpu import parse_tpu_type
from xsft.fit.cache import compiler_versions, fit_cache
from xsft.fit.step import compiler_name
from xsft.fit.trainer_step import step_to_compile
from xsft.fit.verdict import CompiledStep, Fits
from xsft.launch.fit_search import wants_compiler
from xsft.planning.steps import Intent

DOUBTFUL = {"train.per_device_batch_size": 24, "train.max_target_length": 2048}
FITS = Fits(peak_gib=9.0, sum_gib=9.0, limit_gib=31.24, by=None)
HOPELESS = {"train.per_device_batch_size": 128, "train.max_target_length": 2048}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))


def intent(settings: dict[str, Any], **checks: str) -> Intent:
    return intent_of(varied(spec_of("qwen3_gsm8k"), {**settings, "checks": checks}))


def keep(intent: Intent, *, tpu: str, cpu_s: float) -> None:
    """Keep a verdict on the run's step, compiled for another slice."""
    step = step_to_compile(intent.run)
    assert step is not None
    entry = CompiledStep(
        verdict=FITS, tokens=step.tokens, versions=compiler_versions(), made_at="2026-11-27", cpu_s=cpu_s
    )
    fit_cache().keep(replace(step, topology=compiler_name(parse_tpu_type(tpu))), entry)


def test_the_user_is_asked_about_a_run_that_may_not_fit() -> None:
    questions: list[str] = []
    assert not wants_compiler(intent(DOUBTFUL), ask=lambda question: bool(questions.append(question)))
    assert questions == ["qwen3-gsm8k: not compiled, and may not fit: takes about 6m of CPU. Compile? [y/N] "]
    assert wants_compiler(intent(DOUBTFUL), ask=lambda _question: True)


def test_nothing_is_asked_about_a_run_that_should_fit_or_whose_warning_is_accepted() -> None:
    for silent in (intent({}), intent(DOUBTFUL, **{"fit-unknown": "tried by hand"})):
        assert not wants_compiler(silent, ask=lambda _question: True)


@pytest.mark.parametrize(("cpu_s", "compiled"), [(100.0, True), (300.0, False)])
def test_without_a_terminal_only_what_is_known_to_be_quick_is_compiled(cpu_s: float, compiled: bool) -> None:
    doubtful = intent(DOUBTFUL)
    assert not wants_compiler(doubtful, ask=None), "nothing is known"
    keep(doubtful, tpu="v6e-16", cpu_s=cpu_s)
    assert wants_compiler(doubtful, ask=None) is compiled


def test_a_run_far_above_the_chip_is_refused_quickly() -> None:
    assert wants_compiler(intent(HOPELESS), ask=None)
