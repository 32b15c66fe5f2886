"""`xsft diff`: what two workloads would do differently."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import asdict

from tests.localruns import local_plan
from xsft.verbs.diff import DiffDocument, Difference, Differences, diff_lines, plan_differences


def test_diff_distinguishes_1_from_true(tmp_path: Path) -> None:
    plan = local_plan(tmp_path, overrides__maxtext__profile_cleanly=1)
    true = local_plan(tmp_path, overrides__maxtext__profile_cleanly=True)
    differences_found = plan_differences(plan, true)
    assert differences_found.keys == (Difference(key="overrides.maxtext.profile_cleanly", a=1, b=True),)
    shown = "\n".join(
        diff_lines(DiffDocument(a="a", b="b", same=False, differences=differences_found), with_manifest=False)
    )
    assert "- overrides.maxtext.profile_cleanly: 1\n+ overrides.maxtext.profile_cleanly: true\n" in shown
    assert not any(asdict(plan_differences(plan, plan)).values())


def test_diff_treats_1_and_1_0_as_equal(tmp_path: Path) -> None:
    plans = [local_plan(tmp_path, train__learning_rate=value) for value in (1, 1.0)]
    assert plan_differences(*plans).keys == ()


def test_what_follows_from_the_keys_is_counted_unless_it_is_wanted() -> None:
    change = Difference(key="a", a=1, b=2)
    differences = Differences(keys=(change,), trainer_argv=(), trainer_env=(), xpk_argv=(), manifest=(change, change))
    document = DiffDocument(a="a", b="b", same=False, differences=differences)
    assert "## manifest" in "\n".join(diff_lines(document, with_manifest=True))
    assert list(diff_lines(document, with_manifest=False))[-1] == (
        "and 2 fields of xpk's line and the manifest that follow: --manifest"
    )
