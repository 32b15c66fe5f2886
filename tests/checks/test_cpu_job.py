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
def made(run: Run) -> ConversionPlan:
    found = conversion_plan(run)
    assert found is not None
    return found


def ids(made: ConversionPlan, run: Run) -> list[tuple[str, str]]:
    return [(p.id, p.severity) for p in check_conversion_job(made, run)]


def test_conversion_of_a_hub_model_has_no_problems(made: ConversionPlan, run: Run) -> None:
    assert ids(made, run) == []


def test_conversion_of_a_local_folder_on_a_cluster_is_refused(made: ConversionPlan, run: Run) -> None:
    inputs = replace(made.inputs, source=replace(made.inputs.source, repo="/home/me/weights"))
    assert ids(replace(made, inputs=inputs), run) == [("conversion-folder", "error")]


def test_conversion_of_a_model_of_unknown_size_is_refused(made: ConversionPlan, run: Run) -> None:
    assert ids(replace(made, estimate=None), run) == [("conversion-size", "error")]


def test_conversion_beyond_every_xpk_machine_is_a_warning(made: ConversionPlan, run: Run) -> None:
    huge = ConversionEstimate(memory=1500 * GIB, output=GIB, download=GIB)
    assert ids(replace(made, estimate=huge), run) == [("conversion-machine", "warning")]


@pytest.mark.parametrize(("length", "found"), [(38, []), (39, [("conversion-name", "error")])])
def test_conversion_name_without_room_for_a_second_attempt_is_refused(
    made: ConversionPlan, run: Run, length: int, found: list[tuple[str, str]]
) -> None:
    assert ids(replace(made, run_name="x" * length), run) == found


def test_a_conversion_on_a_slice_shows_the_idle_chips(made: ConversionPlan, run: Run) -> None:
    (told,) = check_conversion_job(made, run, on_tpu=True)
    assert (told.id, told.severity) == ("conversion-on-tpu", "warning")
    assert run.slice
    assert run.slice.describe in told.message
    huge = replace(made, estimate=ConversionEstimate(memory=700 * GIB, output=GIB, download=100 * GIB))
    large, _ = check_conversion_job(huge, run, on_tpu=True)
    assert (large.id, large.severity, large.can_be_accepted) == ("conversion-memory", "error", True)
    assert "800 GiB of memory, with its download; a ct6e-standard-4t has 720 GiB" in large.message
    (refused,) = check_conversion_job(made, replace(run, slice=None), on_tpu=True)
    assert (refused.id, refused.severity) == ("conversion-no-slice", "error")
