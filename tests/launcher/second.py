"""A second launcher, to prove the seam: it writes the JobSet itself, without xpk."""

from __future__ import annotations

from typing import Any

from xsft.launcher.cpujob import CpuJob, command, proxy_args
from xsft.launcher.encoding import escape_expansion
from xsft.launcher.launcher import ReadyRendering
from xsft.launcher.patch import changes as changes  # noqa: PLC0414 -- what identifies a run is the same everywhere
from xsft.launcher.slicejob import SliceJob
from xsft.records.jobset_paths import FAIL_JOBSET_RULE, TRAINER_CONTAINER, pod_failure_policy
from xsft.spec.modes import mode_rules
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of

Json = dict[str, Any]
COORDINATOR = {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/coordinator']"}}


def rendering(run: Run) -> ReadyRendering:
    return ReadyRendering(document=jobset(run))


def cpu_rendering(job: CpuJob) -> ReadyRendering:
    env = [{"name": name, "value": escape_expansion(value)} for name, value in job.env.items()]
    script = ["bash", "-c", job.command]
    process = {"name": TRAINER_CONTAINER, "image": job.run.spec.image.ref, "env": env, "command": script}
    slice_job = {"name": "slice-job", "replicas": 1} | _job(job.run, _pod(job.run, process), hosts=1)
    return ReadyRendering(document=_document(job.run, [slice_job], max_restarts=0))


def slice_rendering(job: SliceJob) -> ReadyRendering:
    run = job.run
    container = {**_trainer(run, chips=True), "command": ["bash", "-c", job.command]}
    return ReadyRendering(
        document=_document(run, [_slices(run, container=container)], max_restarts=run.spec.restarts.max)
    )


def jobset(run: Run) -> Json:
    most = run.spec.restarts.max
    if run.mode.value == "mcjax":
        return _document(run, [_slices(run, container=_trainer(run, chips=True))], max_restarts=most)
    jobs = [_head(run), _slices(run, container=_worker(run))]
    return _document(run, jobs, max_restarts=most, coordinator={"replicatedJob": "pathways-head"})


def _document(run: Run, jobs: list[Json], *, max_restarts: int, **more: Json) -> Json:
    policy = {"maxRestarts": max_restarts, "rules": [FAIL_JOBSET_RULE]}
    ttl = run.spec.ttl_seconds_after_finished
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": run.jobset, "labels": _labels(run)},
        "spec": {**more, "ttlSecondsAfterFinished": ttl, "failurePolicy": policy, "replicatedJobs": jobs},
    }


def _slices(run: Run, *, container: Json) -> Json:
    assert run.slice is not None
    selector = {
        "cloud.google.com/gke-tpu-accelerator": run.slice.accelerator_label,
        "cloud.google.com/gke-tpu-topology": run.slice.topology,
    }
    pod = {**_pod(run, container), "nodeSelector": selector}
    return {"name": mode_rules(run.mode.value).replicated_job, "replicas": run.num_slices} | _job(
        run, pod, hosts=run.slice.hosts
    )


def _head(run: Run) -> Json:
    servers = run.servers
    manager = [*(run.spec.pathways.server_args if run.spec.pathways else ()), f"--instance_count={run.num_slices}"]
    sidecars = [
        _server("pathways-proxy", image=servers.proxy_image, args=[*proxy_args(run)], run=run),
        _server("pathways-rm", image=servers.server_image, args=manager, run=run),
    ]
    pod = {
        **_pod(run, _trainer(run, chips=False)),
        "initContainers": [{**s, "restartPolicy": "Always"} for s in sidecars],
    }
    return {"name": "pathways-head", "replicas": 1} | _job(run, pod, hosts=1)


def _worker(run: Run) -> Json:
    args = [*(run.spec.pathways.worker_args if run.spec.pathways else ())]
    server = _server("pathways-worker", image=run.servers.server_image, args=args, run=run)
    assert run.slice is not None
    return {**server, "resources": {"limits": {"google.com/tpu": str(run.slice.chips_per_host)}}}


def _server(name: str, *, image: str | None, args: list[str], run: Run) -> Json:
    """One of Pathways' own containers."""
    scratch = [f"--gcs_scratch_location={run.servers.scratch}"]
    head = [{"name": "PATHWAYS_HEAD", "valueFrom": COORDINATOR}]
    return {"name": name, "image": image, "args": [*scratch, *args], "env": head}


def _trainer(run: Run, *, chips: bool) -> Json:
    env = [
        {"name": name, "value": escape_expansion(value)} for name, value in trainer_of(run).container_env(run).items()
    ]
    script = ["bash", "-c", command(run)]
    trainer = {"name": TRAINER_CONTAINER, "image": run.spec.image.ref, "env": env, "command": script}
    tpu = {"google.com/tpu": run.slice.chips_per_host} if chips and run.slice else {}
    return {**trainer, "resources": {"limits": tpu}}


def _job(run: Run, pod: Json, *, hosts: int) -> Json:
    counts = {"parallelism": hosts, "completions": hosts, "completionMode": "Indexed", "backoffLimit": 0}
    trains = any(pod_container["name"] == TRAINER_CONTAINER for pod_container in pod["containers"])
    policy = {"podFailurePolicy": pod_failure_policy(run.spec.restarts.on_exit_codes)} if trains else {}
    return {"template": {"spec": {**counts, **policy, "template": {"metadata": {"labels": _labels(run)}, "spec": pod}}}}


def _pod(run: Run, container: Json) -> Json:
    """`restartPolicy: Never` is what a podFailurePolicy asks for."""
    grace = run.spec.restarts.grace_period_s
    ends = {} if grace is None else {"terminationGracePeriodSeconds": grace}
    taint = {"operator": "Exists", "key": "google.com/tpu"}
    return {
        "restartPolicy": "Never",
        "priorityClassName": run.spec.priority,
        "tolerations": [taint],
        **ends,
        "containers": [container],
    }


def _labels(run: Run) -> Json:
    """xpk's label too: `status` and the audit know a run's pods by it."""
    return {"xpk.google.com/workload": run.jobset}
