"""The seam of trainers: a second trainer passes the checks, the plan, the audit and the log."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from types import MappingProxyType
from typing import Any, get_args

import pytest
import yaml
from msgspec.structs import replace

from tests.everything import changed
from tests.launcher.test_second import MODES, document, plan
from tests.stories import facts_for
from xsft.base import targets
from xsft.base.errors import SpecError
from xsft.base.names import ModeName
from xsft.base.problems import Problem, errors_in
from xsft.base.targets import DEFAULT_TRAINER, RegisteredTrainer
from xsft.catalog import releases
from xsft.checks.subjects import check_run
from xsft.fit.trainer_step import step_to_compile
from xsft.importing.build import import_paste
from xsft.launcher.xpk import xpk_argv
from xsft.planning.planner import make_intent
from xsft.planning.steps import Intent
from xsft.spec.explain import read_spec
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import resolve
from xsft.trainer import lines
from xsft.trainer.trainer import Trainer, trainer_named

SECOND = "second"


@pytest.fixture(autouse=True)
def second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that adding a trainer takes in the registry."""
    ours = RegisteredTrainer(answers="tests.trainer.second", lines="tests.trainer.second_lines")
    trainers = MappingProxyType({**targets.TRAINERS, SECOND: ours})
    monkeypatch.setattr(targets, "TRAINERS", trainers)
    launcher = targets.RegisteredLauncher(module="tests.launcher.second")
    launchers = MappingProxyType({**targets.LAUNCHERS, SECOND: launcher})
    monkeypatch.setattr(targets, "LAUNCHERS", launchers)


def spec(mode: str = "mcjax", *, target: str = "xpk", trainer: str = SECOND, **changes: Any) -> WorkloadSpec:
    return read_spec(yaml.safe_dump(document(mode, target=target, trainer=trainer, **changes)))


def intent_of(workload: WorkloadSpec) -> Intent:
    return make_intent(workload, facts_for(workload))


@pytest.mark.parametrize("mode", MODES)
def test_second_trainer_is_planned_with_its_module_and_passes_the_audit(mode: str) -> None:
    run_plan = plan(spec(mode, target=SECOND))
    assert run_plan.trainer_argv[:3] == ("python3", "-m", "maxtext.trainers.post_train.rl.train_rl")
    assert "rl.num_generations=4" in run_plan.trainer_argv
    assert not [word for word in run_plan.trainer_argv if word.startswith("sft_")]
    assert {row.outcome for row in run_plan.audit} == {"landed", "patched"}
    assert "env.RL" in {row.field for row in run_plan.audit}
    assert run_plan.ok, errors_in(run_plan.problems)


def test_xpk_gets_the_command_of_the_second_trainer() -> None:
    (command,) = (word for word in intent_of(spec()).xpk_argv or () if word.startswith("--command="))
    assert " -m maxtext.trainers.post_train.rl.train_rl " in command


def test_second_trainer_has_another_digest_than_sft() -> None:
    """Another trainer makes another run; a file that names no trainer keeps the digest it always had."""
    named, default = spec(trainer=DEFAULT_TRAINER), read_spec(yaml.safe_dump(document("mcjax")))
    assert intent_of(named).spec_digest == intent_of(default).spec_digest != intent_of(spec()).spec_digest


def test_pasted_command_of_second_trainer_is_imported() -> None:
    run, _ = resolve(spec(), facts_for(spec()))
    imported = import_paste(" ".join(_quoted(word) for word in xpk_argv(run)))
    assert yaml.safe_load(imported.yaml)["trainer"] == SECOND


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def test_log_lines_of_second_trainer_are_read_beside_those_of_sft() -> None:
    assert lines.trainer_event("I1121 a.py:1] rollout 7, reward 0.5") == lines.Step(step=7, loss=-0.5)
    assert isinstance(lines.trainer_event("completed step: 3, seconds: 1.0, loss: 2.5"), lines.Step)


def test_unregistered_trainer_is_refused() -> None:
    with pytest.raises(SpecError) as refused:
        spec(trainer="dpo")
    (problem,) = refused.value.problems
    assert (problem.id, problem.where) == ("trainer-unknown", "trainer")
    assert "second" in problem.fix


def test_a_release_that_starts_another_module_is_refused() -> None:
    """Once it would have been planned with the keys of SFT, without a word."""
    workload = spec(trainer=DEFAULT_TRAINER)
    facts = facts_for(workload)
    run, _ = resolve(workload, facts)
    assert "trainer-module" not in {p.id for p in check_run(run, facts)}
    moved = replace(run, release=replace(run.release, trainer="maxtext.trainers.post_train.rl.train_rl"))
    (found,) = (p for p in check_run(moved, facts) if p.id == "trainer-module")
    assert "train_rl" in found.message


@pytest.mark.parametrize(("trainer", "verdict"), [(DEFAULT_TRAINER, "fit-known"), (SECOND, "fit-unknown")])
def test_second_trainer_gets_no_fit_verdict_of_sft(trainer: str, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even with the keys of SFT, to the last: another objective needs other memory and another time."""
    monkeypatch.setattr(trainer_named(SECOND), "trainer_keys", trainer_named(DEFAULT_TRAINER).trainer_keys)
    intent = intent_of(spec("pathways", trainer=trainer))
    assert {p.id for p in intent.problems if p.id.startswith("fit-")} == {verdict}
    is_compiled = trainer == DEFAULT_TRAINER
    assert [verdict_or_none is not None for verdict_or_none in (intent.time, step_to_compile(intent.run))] == [
        is_compiled
    ] * 2


@pytest.mark.parametrize("name", [DEFAULT_TRAINER, SECOND])
def test_each_module_of_a_trainer_is_started_by_a_release(name: str) -> None:
    trainer = trainer_named(name)
    assert {trainer.module(releases.release(version)) for version in releases.versions()} == trainer.MODULES


BAD: Mapping[str, Any] = {
    "name": "none",
    "env": {"XSFT_RESTARTS": "1", "HF_TOKEN": "x"},
    "image": {},
    "model": {"name": "nope"},
    "overrides": {"maxtext": {"nope": 1, "run_name": "other"}},
    "parallelism": {"ici": {"fsdp": 3}},
    "place": "nowhere",
}
"""Wrong in every subject."""

EVERYWHERE = {
    "env-secret",
    "maxtext-key-unknown",
    "model-unknown",
    "name-misread",
    "override-has-field",
    "tokenizer-missing",
}
ON_A_CLUSTER = {"env-reserved", "image-missing", "mesh-ici-product", "place-unknown", "serve-size"}
IN_PATHWAYS = {"pathways-image-missing", "pathways-scratch-missing"}


def test_a_bad_workload_has_the_same_problems_for_every_target_mode_and_trainer() -> None:
    """What an added launcher, mode or trainer would lose, where a check asks for one of them by name."""
    for target, mode, trainer in product(targets.targets(), get_args(ModeName), targets.trainers()):
        on_cluster = targets.on_cluster(target)
        more = (ON_A_CLUSTER if on_cluster else set()) | (IN_PATHWAYS if on_cluster and mode == "pathways" else set())
        assert _ids(target, mode, trainer) == EVERYWHERE | more, (target, mode, trainer)


@pytest.mark.parametrize("bad", [BAD, {}], ids=["bad", "good"])
def test_warnings_and_notes_are_the_same_for_every_launcher(bad: Mapping[str, Any]) -> None:
    for mode, trainer in product(get_args(ModeName), targets.trainers()):
        xpk, *others = ({(p.id, p.where) for p in _problems(name, mode, trainer, bad)} for name in targets.LAUNCHERS)
        assert others == [xpk]


def _ids(target: str, mode: str, trainer: str) -> set[str]:
    return {p.id for p in errors_in(_problems(target, mode, trainer, BAD))}


def _problems(target: str, mode: str, trainer: str, bad: Mapping[str, Any]) -> tuple[Problem, ...]:
    settings = {**bad, "mode": mode, "target": target, "trainer": trainer}
    return intent_of(WorkloadSpec.model_validate(changed(document("mcjax"), settings))).problems


@pytest.mark.parametrize("name", [DEFAULT_TRAINER, SECOND])
def test_each_trainer_implements_the_whole_protocol(name: str) -> None:
    names_of_protocol = {n for n in vars(Trainer) if not n.startswith("_")} | set(Trainer.__annotations__)
    assert [question for question in sorted(names_of_protocol) if not hasattr(trainer_named(name), question)] == []
