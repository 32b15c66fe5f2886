"""The launcher xpk: the command line of a run. Pure. Flags that xpk ignores in a mode are not passed; the patch sets
them instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xsft.launcher.cpujob import CpuJob, command, proxy_args
from xsft.launcher.encoding import encode_env_value
from xsft.launcher.launcher import XpkRendering
from xsft.launcher.patch import changes as changes  # noqa: PLC0414 -- its answer as a launcher
from xsft.launcher.slicejob import SliceJob
from xsft.spec.model import DEFAULT_PRIORITY
from xsft.spec.modes import mode_rules
from xsft.spec.place import Place
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of

XPK_DEFAULT_TTL_S = 43200
"""xpk's default TTL in seconds. source: xpk@1.16.0 parser/workload.py; defaults are not repeated on the line."""

STAND_IN_CLUSTER = "kubeconfig-context"
"""Cluster name for a kubeconfig context: xpk reaches clusters by GKE name only; the manifest does not hold it."""

DRY_RUN_ZONE = "us-central1-a"
"""Zone for a kubeconfig context: xpk needs a zone even to render (AttributeError otherwise), and writes it nowhere."""


def rendering(run: Run) -> XpkRendering:
    return XpkRendering(xpk_argv=xpk_argv(run))


def cpu_rendering(job: CpuJob) -> XpkRendering:
    """Return the rendering of a CPU job: one machine or one slice, never restarted in place."""
    run = job.run
    device = _slice_flags(run) if job.on_tpu else (f"--device-type={job.machine.name}",)
    flags = (*_run_arguments(run), *device, *_priority_argument(run), *_cleanup_arguments(run), *_env(job.env))
    return XpkRendering(xpk_argv=("xpk", "workload", "create", *flags, f"--command={job.command}"))


def slice_rendering(job: SliceJob) -> XpkRendering:
    """Return the rendering of a job on the training's slices."""
    run = job.run
    flags = (*_run_arguments(run), *_slice_flags(run), *_flags(run), *_env(job.env))
    return XpkRendering(xpk_argv=("xpk", "workload", "create", *flags, f"--command={job.command}"))


def xpk_argv(run: Run) -> tuple[str, ...]:
    """Return `xpk workload create[-pathways] --flag=value …`, the command last, as a person would run it."""
    verb = mode_rules(run.mode.value).xpk_verb
    flags = (*_run_arguments(run), *_slice_flags(run), *_flags(run), *_env(trainer_of(run).container_env(run)))
    return ("xpk", "workload", verb, *flags, f"--command={command(run)}")


def _run_arguments(run: Run) -> Iterator[str]:
    place = run.place or Place()
    yield f"--cluster={place.cluster or STAND_IN_CLUSTER}"
    if place.project:
        yield f"--project={place.project}"
    yield f"--zone={place.zone or DRY_RUN_ZONE}"
    if run.namespace != "default":
        yield f"--namespace={run.namespace}"
    yield f"--docker-image={run.spec.image.ref}"
    yield f"--workload={run.jobset}"


def _slice_flags(run: Run) -> tuple[str, ...]:
    return (f"--tpu-type={run.slice.xpk_type if run.slice else None}", f"--num-slices={run.num_slices}")


def _flags(run: Run) -> Iterator[str]:
    spec = run.spec
    yield from _priority_argument(run)
    if spec.restarts.grace_period_s is not None:
        yield f"--termination-grace-period-seconds={spec.restarts.grace_period_s}"
    match run.mode.value:
        case "mcjax":
            if spec.restarts.max:
                yield f"--max-restarts={spec.restarts.max}"
            if spec.restarts.on_exit_codes:
                yield f"--restart-on-exit-codes={','.join(map(str, sorted(set(spec.restarts.on_exit_codes))))}"
            yield from _cleanup_arguments(run)
        case "pathways":
            yield from _pathways_flags(run)


def _priority_argument(run: Run) -> Iterator[str]:
    if run.spec.priority != DEFAULT_PRIORITY:
        yield f"--priority={run.spec.priority}"


def _cleanup_arguments(run: Run) -> Iterator[str]:
    spec = run.spec
    if spec.ttl_seconds_after_finished != XPK_DEFAULT_TTL_S:
        yield f"--ttl-seconds-after-finished={spec.ttl_seconds_after_finished}"
    if spec.image.pull_secret:
        yield f"--docker-image-pull-secret={spec.image.pull_secret}"


def _pathways_flags(run: Run) -> Iterator[str]:
    images = run.servers
    section = run.spec.pathways
    flags = {
        "--proxy-server-image": images.proxy_image,
        "--server-image": images.server_image,
        "--pathways-gcs-location": images.scratch,
        "--custom-pathways-server-args": " ".join(section.server_args) if section else "",
        "--custom-pathways-proxy-server-args": " ".join(proxy_args(run)),
        "--custom-pathways-worker-args": " ".join(section.worker_args) if section else "",
    }
    yield from (f"{flag}={value}" for flag, value in flags.items() if value)


def _env(env: Mapping[str, str]) -> Iterator[str]:
    for name, value in env.items():
        yield f"--env={name}={encode_env_value(value)}"
