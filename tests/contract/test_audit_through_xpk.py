"""Every field of a workload, in both modes, through the real xpk: what is asked for is there, or patched in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.everything import EVERYTHING, OTHER, changed
from tests.launcher.decoding import decode_command
from tests.stories import plans_of
from xsft.base.pointers import find_pointer
from xsft.checks.facts import Facts
from xsft.launcher.encoding import command_in_wrapper
from xsft.planning.planner import make_intent
from xsft.planning.steps import Intent, Plan
from xsft.records.jobset_paths import places
from xsft.spec.model import WorkloadSpec

pytestmark = pytest.mark.contract

MODES = ("mcjax", "pathways")
CONFLICTS = {"tpu.capacity": {"tpu.reservation": None}}
"""Fields that make no sense beside another one; checks refuse the pair."""


def _cases() -> dict[str, WorkloadSpec]:
    cases: dict[str, WorkloadSpec] = {}
    for mode in MODES:
        base = changed(EVERYTHING, {"mode": mode})
        cases[mode] = WorkloadSpec.model_validate(base)
        for path in sorted(set(OTHER) - {"mode", "target"}):
            tree = changed(base, {**CONFLICTS.get(path, {}), path: OTHER[path]})
            cases[f"{mode} {path}"] = WorkloadSpec.model_validate(tree)
    return cases


CASES = _cases()


@pytest.fixture(scope="module")
def plans(xpk_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    intents: dict[str, Intent] = {name: make_intent(spec, Facts()) for name, spec in CASES.items()}
    assert [name for name, intent in intents.items() if intent.xpk_argv is None] == []
    return plans_of(intents, python=xpk_python, scratch=tmp_path_factory.mktemp("renders"))


@pytest.mark.parametrize("name", CASES)
def test_every_field_lands_or_is_patched(name: str, plans: dict[str, Plan]) -> None:
    rows = plans[name].audit
    assert len(rows) > 30
    assert [row for row in rows if row.outcome not in ("landed", "patched")] == []


@pytest.mark.parametrize("name", CASES)
def test_the_container_gets_the_trainers_argv(name: str, plans: dict[str, Plan]) -> None:
    plan = plans[name]
    _, script = find_pointer(plan.manifest, (*places(plan.mode.value).trainer, "command"))
    environment, argv = decode_command(command_in_wrapper(script[2]))
    assert argv == plan.trainer_argv
    assert dict(environment).items() <= plan.trainer_env.items()


@pytest.mark.parametrize("mode", MODES)
def test_the_note_beside_the_xpk_line_names_what_the_line_lacks(mode: str, plans: dict[str, Plan]) -> None:
    """Pathways lacks what xpk drops since it renders a plain JobSet; McJAX has it."""
    reasons = " ".join(plans[mode].by_hand)
    for dropped in ("--max-restarts", "--ttl-seconds-after-finished", "--docker-image-pull-secret", "--priority"):
        assert (dropped in reasons) == (mode == "pathways"), dropped
    assert "Secret" in reasons
    assert "identity" in reasons
