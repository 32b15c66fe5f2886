"""The fields of a record beside the plan."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.localruns import local_plan
from tests.replacing import replace
from tests.stories import intent_of, spec_of
from xsft.effects.submit.recording import Provenance, gather_provenance, image_of, manifest_digest, record_of
from xsft.planner import make_plan
from xsft.records.document import read_record, to_json
from xsft.records.model import ClusterAddress, Git, RecordedImage
from xsft.spec.digest import canonical
from xsft.steps import Plan

WHO = Provenance(submitter="0" * 16, at="t", user="me", git=Git(commit="1" * 40, dirty=False), versions={"xsft": "1"})
MANIFEST = {"kind": "JobSet", "metadata": {"name": "a", "labels": {"b": "1", "a": "2"}}}


@pytest.fixture(scope="module")
def plan() -> Plan:
    made = make_plan(intent_of(spec_of("deepseek_ultrachat")), rendered=None, file="w.yaml")
    return replace(made, manifest=MANIFEST)


def test_a_record_holds_what_is_submitted(plan: Plan) -> None:
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
    assert attempt.cluster == ClusterAddress(project=place.project, zone=place.zone, cluster=place.cluster)
    assert {p.severity for p in attempt.problems} <= {"warning", "note"}


@pytest.mark.parametrize(("attempt", "order"), [(1, "repeated"), (2, "reshuffled")])
def test_a_record_says_what_an_attempt_resumes_from_and_in_which_order(plan: Plan, attempt: int, order: str) -> None:
    later = replace(plan, run=replace(plan.run, attempt=attempt))
    made = record_of(later, WHO, number=attempt, resumes_from=120).last
    assert (made.resumed_from, made.order) == (120, order)
    assert record_of(later, WHO, number=attempt).last.order is None


def test_it_survives_its_file(plan: Plan) -> None:
    record = record_of(plan, WHO)
    assert read_record(to_json(record)) == record


def test_a_local_run_has_no_cluster() -> None:
    attempt = record_of(local_plan("/somewhere"), WHO).last
    assert (attempt.cluster, attempt.jobset, attempt.namespace, attempt.xpk_argv, attempt.manifest_digest) == (
        None,
    ) * 5


def test_equal_manifests_have_equal_digests() -> None:
    turned = {"metadata": {"labels": {"a": "2", "b": "1"}, "name": "a"}, "kind": "JobSet"}
    assert manifest_digest(turned) == manifest_digest(MANIFEST)
    assert manifest_digest({**turned, "kind": "Job"}) != manifest_digest(MANIFEST)


def test_a_tag_is_no_digest() -> None:
    assert image_of("registry:5000/a/b:tag") == RecordedImage(ref="registry:5000/a/b:tag")
    assert image_of("a@sha256:0f") == RecordedImage(ref="a@sha256:0f", digest="sha256:0f")


def test_the_checkout_of_the_workload_counts(tmp_path: Path) -> None:
    git = ("git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.com")
    (tmp_path / "w.yaml").write_text("a: 1\n")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "m")):
        subprocess.run((*git, *arguments), check=True)
    clean = gather_provenance(str(tmp_path / "w.yaml"))
    (tmp_path / "w.yaml").write_text("a: 2\n")
    dirty = gather_provenance(str(tmp_path / "w.yaml"))
    assert clean.git is not None
    assert dirty.git == replace(clean.git, dirty=True)
    assert clean.git.dirty is False
    assert (len(clean.git.commit), len(clean.submitter)) == (40, 16)
    assert clean.submitter != dirty.submitter
    assert clean.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(clean.versions) == {"xsft", "xpk", "python"}


def test_without_a_checkout_nothing_is_printed(tmp_path: Path) -> None:
    assert gather_provenance(str(tmp_path / "w.yaml")).git is None
