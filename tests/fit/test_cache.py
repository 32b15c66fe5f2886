from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from xsft.fit.cache import FitCache, compiler_versions, versions_digest
from xsft.fit.step import StepToCompile
from xsft.fit.verdict import CompiledStep, Fits

STEP = StepToCompile(topology="v6e-8", num_slices=1, devices_per_chip=1, arguments=("model_name=a",), tokens=2048)
ENTRY = CompiledStep(
    verdict=Fits(peak_gib=1.0, sum_gib=1.0, limit_gib=31.24, by=None),
    tokens=2048,
    versions=compiler_versions(),
    made_at="2026-11-23T00:00:00Z",
)


@pytest.mark.parametrize("field", StepToCompile.__struct_fields__)
def test_each_field_but_the_tokens_changes_the_family_of_a_step(field: str) -> None:
    assert (replace(STEP, **{field: "another"}).family == STEP.family) == (field == "tokens")


def test_a_verdict_is_found_again(tmp_path: Path) -> None:
    cache = FitCache(folder=tmp_path)
    assert cache.known(STEP) is None
    path = cache.keep(STEP, ENTRY)
    cached = cache.known(STEP)
    assert cached is not None
    assert (cached.entry, cached.derived) == (ENTRY, False)
    assert versions_digest()[:16] in path.parts, "another MaxText or libtpu finds nothing"


def test_verdicts_of_other_versions_are_not_read(tmp_path: Path) -> None:
    cache = FitCache(folder=tmp_path)
    cache.keep(STEP, replace(ENTRY, versions={**ENTRY.versions, "libtpu": "0.0.43"}))
    assert cache.known(STEP) is None


def test_a_torn_file_is_not_read(tmp_path: Path) -> None:
    cache = FitCache(folder=tmp_path)
    path = cache.keep(STEP, ENTRY)
    path.write_bytes(path.read_bytes()[:100])
    assert cache.known(STEP) is None


def test_compiler_versions_are_those_of_the_lock() -> None:
    assert compiler_versions()["libtpu"] == "0.0.44"
    assert compiler_versions()["maxtext"] == "0.2.5"
