"""`xsft diff`: what two workloads would do differently."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import asdict

from tests.localruns import local_plan
from xsft.verbs.diff import DiffDocument, Difference, diff_text, plan_differences


def test_diff_distinguishes_1_from_true(tmp_path: Path) -> None:
    one = local_plan(tmp_path, overrides__maxtext__profile_cleanly=1)
    true = local_plan(tmp_path, overrides__maxtext__profile_cleanly=True)
    found = plan_differences(one, true)
    assert found.keys == (Difference(key="overrides.maxtext.profile_cleanly", a=1, b=True),)
    shown = diff_text(DiffDocument(a="a", b="b", same=False, differences=found))
    assert "- overrides.maxtext.profile_cleanly: 1\n+ overrides.maxtext.profile_cleanly: true\n" in shown
    assert not any(asdict(plan_differences(one, one)).values())


def test_diff_treats_1_and_1_0_as_equal(tmp_path: Path) -> None:
    plans = [local_plan(tmp_path, train__learning_rate=value) for value in (1, 1.0)]
    assert plan_differences(*plans).keys == ()
