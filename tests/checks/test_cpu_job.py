"""Conversions that a pod of a cluster cannot run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.stories import intent_of, spec_of
from xsft.catalog.machines import GIB
from xsft.checks.cpu_job import check_conversion_job
from xsft.planning.planner import conversion_plan
from xsft.spec.resolve import Run
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.estimates import ConversionEstimate


@pytest.fixture(scope="module")
def run() -> Run:
    return intent_of(spec_of("gemma2_ultrachat")).run


@pytest.fixture
def conversion(run: Run) -> ConversionPlan:
    found = conversion_plan(run)
    assert found is not None
    return found


def ids(conversion: ConversionPlan, run: Run) -> list[tuple[str, str]]:
    return [(p.id, p.severity) for p in check_conversion_job(conversion, run)]


def test_conversion_of_a_hub_model_has_no_problems(conversion: ConversionPlan, run: Run) -> None:
    assert ids(conversion, run) == []


def test_conversion_of_a_local_folder_on_a_cluster_is_refused(conversion: ConversionPlan, run: Run) -> None:
    inputs = replace(conversion.inputs, source=replace(conversion.inputs.source, repo="/home/me/weights"))
    assert ids(replace(conversion, inputs=inputs), run) == [("conversion-folder", "error")]


def test_conversion_of_a_model_of_unknown_size_is_refused(conversion: ConversionPlan, run: Run) -> None:
    assert ids(replace(conversion, estimate=None), run) == [("conversion-size", "error")]


def test_conversion_beyond_every_xpk_machine_is_a_warning(conversion: ConversionPlan, run: Run) -> None:
    huge = ConversionEstimate(memory=1500 * GIB, output=GIB, download=GIB)
    assert ids(replace(conversion, estimate=huge), run) == [("conversion-machine", "warning")]


@pytest.mark.parametrize(("length", "expected"), [(38, []), (39, [("conversion-name", "error")])])
def test_conversion_name_without_room_for_a_second_attempt_is_refused(
    conversion: ConversionPlan, run: Run, length: int, expected: list[tuple[str, str]]
) -> None:
    assert ids(replace(conversion, run_name="x" * length), run) == expected


def test_a_conversion_on_a_slice_shows_the_idle_chips(conversion: ConversionPlan, run: Run) -> None:
    (problem,) = check_conversion_job(conversion, run, on_tpu=True)
    assert (problem.id, problem.severity) == ("conversion-on-tpu", "warning")
    assert run.slice
    assert run.slice.describe in problem.message
    huge = replace(conversion, estimate=ConversionEstimate(memory=700 * GIB, output=GIB, download=100 * GIB))
    large, _ = check_conversion_job(huge, run, on_tpu=True)
    assert (large.id, large.severity, large.can_be_accepted) == ("conversion-memory", "error", True)
    assert "800 GiB of memory, with its download; a ct6e-standard-4t has 720 GiB" in large.message
    (refused,) = check_conversion_job(conversion, replace(run, slice=None), on_tpu=True)
    assert (refused.id, refused.severity) == ("conversion-no-slice", "error")
