"""The fields of the record of an attempt."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests import cpujobs, slicejobs
from tests.localruns import local_plan
from tests.replacing import replace
from tests.stories import intent_of, spec_of
from xsft.base.problems import Problem
from xsft.launch.recording import Provenance, gather_provenance, image_of, manifest_digest, record_of
from xsft.planning.planner import make_plan
from xsft.planning.steps import JobPlan, Plan
from xsft.records.document import read_record, to_json
from xsft.records.record import Attempt, ClusterAddress, Git, Record, RecordedImage
from xsft.records.run_cluster import address_of
from xsft.spec.digest import canonical

WHO = Provenance(submitter="0" * 16, at="t", user="me", git=Git(commit="1" * 40, dirty=False), versions={"xsft": "1"})
PROBLEMS = tuple(
    Problem(id=severity, severity=severity, where="", message="m", fix="f") for severity in ("error", "warning", "note")
)
MANIFEST = {"kind": "JobSet", "metadata": {"name": "a", "labels": {"b": "1", "a": "2"}}}


@pytest.fixture(scope="module")
def plan() -> Plan:
    run_plan = make_plan(intent_of(spec_of("deepseek_ultrachat")), rendered=None, file="w.yaml")
    return replace(run_plan, manifest=MANIFEST)


def test_a_record_contains_the_plan(plan: Plan) -> None:
    record = record_of(plan, WHO, number=2, action="attempt")
    assert (record.run_name, record.spec_digest, record.target) == (plan.run_name, plan.spec_digest, "xpk")
    assert record.spec == json.loads(canonical(plan.run))
    assert record.steps == plan.run.spec.train.steps
    attempt = record.last
    assert (attempt.argv, attempt.env, attempt.xpk_argv) == (plan.trainer_argv, plan.trainer_env, plan.xpk_argv)
    assert (attempt.number, attempt.action, attempt.outcome, attempt.submitter) == (
        2,
        "attempt",
        "submitting",
        "0" * 16,
    )
    assert (attempt.jobset, attempt.namespace) == (plan.jobset, plan.run.namespace)
    assert attempt.resolved["chips"] == 512
    assert attempt.resolved["mode_reason"] == plan.mode.reason
    assert (attempt.user, attempt.git, attempt.started_at) == ("me", WHO.git, "t")
    assert attempt.versions == {"xsft": "1", "maxtext": "0.2.5"}
    assert attempt.manifest_digest == manifest_digest(MANIFEST)
    place = plan.run.place
    assert place is not None
    assert attempt.cluster == address_of(place)
    other = place.model_copy(update={"context": "lab"})
    assert address_of(other) == ClusterAddress(
        project=place.project, zone=place.zone, cluster=place.cluster, context="lab"
    )
    assert {p.severity for p in attempt.problems} <= {"warning", "note"}


@pytest.mark.parametrize(("attempt", "order"), [(1, "repeated"), (2, "reshuffled")])
def test_a_record_contains_the_resumed_step_and_the_order_of_the_data(plan: Plan, attempt: int, order: str) -> None:
    later = replace(plan, run=replace(plan.run, attempt=attempt))
    last = record_of(later, WHO, number=attempt, resumes_from=120).last
    assert (last.resumed_from, last.order) == (120, order)
    assert record_of(later, WHO, number=attempt).last.order is None


def test_a_record_is_read_back_from_its_file(plan: Plan) -> None:
    record = record_of(plan, WHO)
    assert read_record(to_json(record)) == record


def test_every_field_that_is_known_at_submission_is_recorded(plan: Plan) -> None:
    """The other fields belong to the created object, or to the outcome of the attempt."""
    with_image = _with_image(plan, f"a/b@sha256:{'0' * 64}")
    run = replace(with_image.run, attempt=2)
    changed_plan = replace(plan, run=run, xpk_argv=("xpk",), problems=PROBLEMS)
    record = record_of(changed_plan, WHO, number=2, action="attempt", resumes_from=120)
    assert _unset(record, Record(run_name="")) == {"losses", "schema", "unread"}
    assert _unset(record.last, Attempt(number=1)) == {
        *("finished_at", "reason", "state_reason", "uid", "created_at", "created_by", "read_back"),
        *("log", "exit_status", "last_step", "receipt", "private_pids"),
    }
    assert record.last.problems == PROBLEMS[1:]
    assert record.last.image == RecordedImage(ref=run.spec.image.ref, digest=f"sha256:{'0' * 64}")
    assert (record.mode, record.output) == (run.mode.value, run.output)


def test_fields_that_have_no_value_are_not_recorded(plan: Plan) -> None:
    attempt = record_of(replace(_with_image(plan, None), manifest=None), WHO).last
    assert (attempt.manifest_digest, attempt.image, attempt.resumed_from, attempt.resumed_order) == (None,) * 4


def test_a_record_contains_the_decisions_of_planning() -> None:
    run_plan = make_plan(intent_of(spec_of("gemma2_ultrachat")), rendered=None, file="w.yaml")
    run = run_plan.run
    assert run.slice is not None
    assert run_plan.time is not None
    assert run_plan.conversion_argv
    expected = {
        "mode_reason": "the workload says mode: mcjax",
        "tpu": "v6e-8",
        "num_slices": 1,
        "chips": 8,
        "devices": 8,
        "queue": "multislice-queue",
        "checkpoint": run.checkpoint,
        "checkpoint_period": 100,
        "conversion_argv": list(run_plan.conversion_argv),
        "step_time_bound": {"seconds": run_plan.time.step_s, "compiled": False},
    }
    assert record_of(run_plan, WHO).last.resolved == expected
    unbounded = replace(run_plan, time=None)
    assert record_of(unbounded, WHO).last.resolved == {k: v for k, v in expected.items() if k != "step_time_bound"}


def test_a_local_record_contains_the_decisions_of_planning() -> None:
    assert record_of(local_plan("/somewhere"), WHO).last.resolved == {
        "mode_reason": "one Python process on this machine",
        "num_slices": 1,
        "chips": 1,
        "devices": 1,
        "checkpoint_period": 10,
    }


CONVERTED = {
    "work": "convert",
    "for_run": "gemma2-ultrachat",
    "writes": cpujobs.WRITES,
    "memory_bytes": 12 * 2**30,
    "disk_bytes": 8 * 2**30,
    "cpus": 3,
    "queue": "multislice-queue",
}
EVALUATED = {
    "work": "evaluate",
    "for_run": "qwen3-gsm8k",
    "writes": slicejobs.job().writes,
    "program": slicejobs.job().program,
    "program_in": "image",
    "limit_s": 1800,
    "tpu": "v6e-8",
    "num_slices": 1,
    "chips": 8,
    "queue": "multislice-queue",
}
EVALUATION = slicejobs.planned()
IN_COMMAND = replace(
    EVALUATION, job=replace(EVALUATION.job, run=replace(EVALUATION.job.run, evaluation_program="another"))
)


@pytest.mark.parametrize(
    ("planned", "resolved"),
    [
        (cpujobs.planned(), {**CONVERTED, "machine": "n2-standard-4"}),
        (cpujobs.planned(on_tpu=True), {**CONVERTED, "machine": "ct6e-standard-4t"}),
        (EVALUATION, EVALUATED),
        (IN_COMMAND, {**EVALUATED, "program_in": "command"}),
    ],
    ids=["on a CPU node", "on a slice", "by a program in the image", "by a program in the command"],
)
def test_a_record_of_a_job_contains_its_arguments_and_decisions(
    planned: JobPlan[Any], resolved: dict[str, Any]
) -> None:
    record = record_of(planned, WHO)
    assert (record.last.argv, record.last.env, record.steps) == (planned.job.argv, planned.job.env, 0)
    assert record.last.resolved == resolved
    assert read_record(to_json(record)) == record


def _with_image(plan: Plan, ref: str | None) -> Plan:
    spec = plan.run.spec
    image = spec.image.model_copy(update={"ref": ref})
    return replace(plan, run=replace(plan.run, spec=spec.model_copy(update={"image": image})))


def _unset(made: Any, blank: Any) -> set[str]:
    return {field.name for field in fields(made) if getattr(made, field.name) == getattr(blank, field.name)}


def test_a_local_record_has_no_cluster(plan: Plan) -> None:
    local = local_plan("/somewhere")
    attempt = record_of(replace(local, run=replace(local.run, place=plan.run.place)), WHO).last
    assert (attempt.cluster, attempt.jobset, attempt.namespace, attempt.xpk_argv, attempt.manifest_digest) == (
        None,
    ) * 5


def test_equal_manifests_have_equal_digests() -> None:
    turned = {"metadata": {"labels": {"a": "2", "b": "1"}, "name": "a"}, "kind": "JobSet"}
    assert manifest_digest(turned) == manifest_digest(MANIFEST)
    assert manifest_digest({**turned, "kind": "Job"}) != manifest_digest(MANIFEST)
    text = '{"a":"é","b":[1,2]}'  # another writer of canonical JSON has the same digest
    assert manifest_digest({"b": [1, 2], "a": "é"}) == hashlib.sha256(text.encode()).hexdigest()


def test_image_of_reads_a_digest_and_not_a_tag() -> None:
    assert image_of("registry:5000/a/b:tag") == RecordedImage(ref="registry:5000/a/b:tag")
    assert image_of("a@sha256:0f") == RecordedImage(ref="a@sha256:0f", digest="sha256:0f")


def test_provenance_contains_the_checkout_of_the_workload(tmp_path: Path) -> None:
    git = ("git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.com")
    (tmp_path / "w.yaml").write_text("a: 1\n")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "m")):
        subprocess.run((*git, *arguments), check=True)
    clean = gather_provenance(str(tmp_path / "w.yaml"), target="xpk")
    (tmp_path / "w.yaml").write_text("a: 2\n")
    dirty = gather_provenance(str(tmp_path / "w.yaml"), target="xpk")
    assert clean.git is not None
    assert dirty.git == replace(clean.git, dirty=True)
    assert clean.git.dirty is False
    assert (len(clean.git.commit), len(clean.submitter)) == (40, 16)
    assert clean.submitter != dirty.submitter
    assert clean.versions["xsft"] == importlib.metadata.version("xsft")
    assert clean.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(clean.versions) == {"xsft", "xpk", "python"}


def test_provenance_has_no_git_without_a_checkout(tmp_path: Path) -> None:
    assert gather_provenance(str(tmp_path / "w.yaml"), target="xpk").git is None
