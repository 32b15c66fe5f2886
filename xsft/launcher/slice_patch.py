"""The JobSet of a job on a training's slices: the changes to xpk's manifest, and the expected content of the final one.
Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.pointers import Pointer
from xsft.launcher.audit import (
    Expectation,
    process_expectations,
    pull_secret_expectations,
    setting_expectations,
    slice_expectations,
)
from xsft.launcher.cpu_patch import expected_identity, job_identity
from xsft.launcher.patch import Change, capacity_changes, pull_secret_changes, setting_changes
from xsft.launcher.pod_settings import shared_settings
from xsft.launcher.slicejob import SliceJob
from xsft.records.jobset_paths import places, pod_failure_policy

FAIL_RULE = {"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy", "DeadlineExceeded"]}
"""JobSet's rule: a second failure, or an exceeded time limit, is not restarted. source: k8s.io/api batch/v1
JobReasonDeadlineExceeded; jobset@v0.10.1 api/jobset/v1alpha2/jobset_types.go onJobFailureReasons."""
DEADLINE: Pointer = ("activeDeadlineSeconds",)
RULES: Pointer = ("spec", "failurePolicy", "rules")


def slice_changes(job: SliceJob) -> tuple[Change, ...]:
    """Return the changes to the manifest for what xpk cannot express."""
    run = job.run
    paths = places(run.mode.value)
    limit = "xpk has no time limit for a workload"
    return (
        *job_identity(job, paths),
        *setting_changes(shared_settings(run, paths)),
        *pull_secret_changes(run, paths),
        *capacity_changes(run, paths),
        Change(path=(*paths.trainer_job, *DEADLINE), value=job.limit_s, why=limit),
        Change(path=RULES, value=[FAIL_RULE], why=limit),
    )


def slice_job_expectations(job: SliceJob) -> Iterator[Expectation]:
    """Yield what the job's manifest must hold."""
    paths = places(job.run.mode.value)
    spec = job.run.spec
    yield from expected_identity(job, paths)
    yield from process_expectations(job.run, paths, argv=job.argv, command=job.command, env=job.env)
    yield from slice_expectations(job.run, paths)
    # It starts again from its beginning after a preemption.
    yield Expectation(field="restarts.max", path=("spec", "failurePolicy", "maxRestarts"), value=spec.restarts.max)
    yield Expectation(field="restarts.on_exit_codes", path=RULES, value=[FAIL_RULE])
    failure = pod_failure_policy(spec.restarts.on_exit_codes)
    yield Expectation(field="restarts.on_exit_codes", path=(*paths.trainer_job, "podFailurePolicy"), value=failure)
    yield Expectation(field="stages.evaluate.limit_s", path=(*paths.trainer_job, *DEADLINE), value=job.limit_s)
    ttl: Pointer = ("spec", "ttlSecondsAfterFinished")
    yield Expectation(field="ttl_seconds_after_finished", path=ttl, value=spec.ttl_seconds_after_finished)
    yield Expectation(field="priority", path=(*paths.trainer_pod, "priorityClassName"), value=spec.priority)
    yield from setting_expectations(shared_settings(job.run, paths))
    yield from pull_secret_expectations(job.run, paths)
