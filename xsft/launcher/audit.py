"""The audit: check that everything the workload requests is in the manifest, unchanged, field by field. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from xsft.base.pointers import MISSING, Item, JsonValue, MissingValue, NamedEntry, Pointer, find_pointer
from xsft.base.problems import Problem, error
from xsft.launcher.cpujob import command, proxy_args
from xsft.launcher.encoding import RESTARTS, command_in_wrapper, escape_expansion
from xsft.launcher.patch import NODE_TERMS, RESERVATION_LABEL, RESTARTS_FROM, SPOT_LABEL
from xsft.launcher.pod_settings import PodSetting, training_settings
from xsft.records.jobset_paths import (
    DATA_ANNOTATION,
    DIGEST_ANNOTATION,
    FAIL_JOBSET_RULE,
    JOBSET_LABEL,
    MODE_LABEL,
    ON_DEMAND_TERMS,
    OUTPUT_ANNOTATION,
    RUN_LABEL,
    SPOT_TOLERATIONS,
    STEPS_ANNOTATION,
    JobSetPaths,
    places,
    pod_failure_policy,
    reservation_name,
    target_label,
)
from xsft.spec.resolve import Run
from xsft.trainer.shuffling import counted_seeds, reshuffles
from xsft.trainer.trainer import trainer_of

ArgumentOutcome = Literal["landed", "patched", "dropped", "altered"]


class Expectation(Struct, frozen=True, kw_only=True):
    """A field of the workload and what the manifest must hold for it."""

    field: str
    """Key path in the workload, e.g. `restarts.max`."""
    path: Pointer
    value: Any
    """JSON value; for `reads="command"` the encoded command."""
    requested: Any = None
    """The requested value, if `value` is an encoding of it."""
    reads: Literal["value", "command"] = "value"


class AuditRow(Struct, frozen=True, kw_only=True):
    """One field of the workload, looked up in the manifest."""

    field: str
    """Key path in the workload."""
    outcome: ArgumentOutcome
    """landed: xpk rendered it · patched: xsft added it · dropped, altered: the manifest differs from the workload; the
    plan is refused."""
    where: str
    """JSON pointer into the manifest; for a cluster that xpk would make, the command."""
    requested: Any
    """The value that the workload requests."""
    rendered: Any
    """Value at that pointer in the manifest that will be created."""


def audit(expectations: Iterable[Expectation], *, rendered: JsonValue, manifest: JsonValue) -> tuple[AuditRow, ...]:
    """Return one row per expectation. `landed`: xpk rendered it. `patched`: xsft added it. `dropped`, `altered`: it
    differs from the request."""
    rows = []
    for expectation in expectations:
        where, final = find_pointer(manifest, expectation.path)
        final = _read_command(expectation, final)
        before = _read_command(expectation, find_pointer(rendered, expectation.path)[1])
        row = AuditRow(
            field=expectation.field,
            outcome=_outcome(expectation.value, final=final, before=before),
            where=where,
            requested=expectation.value if expectation.requested is None else expectation.requested,
            rendered=None if isinstance(final, MissingValue) else final,
        )
        rows.append(row)
    return tuple(rows)


def audit_problems(rows: Iterable[AuditRow]) -> Iterator[Problem]:
    """Yield an error for each field that did not arrive: the plan would not be what runs."""
    for row in rows:
        match row.outcome:
            case "dropped" | "altered":
                yield error(
                    f"audit-{row.outcome}",
                    row.field,
                    f"requested {row.requested!r}, but the manifest has {row.rendered!r} at {row.where}.",
                    "This xpk renders it differently from the pinned one: run `xsft doctor`, or remove the field.",
                )
            case "landed" | "patched":
                pass


def _outcome(requested: Any, *, final: Any, before: Any) -> ArgumentOutcome:
    if isinstance(final, MissingValue):
        return "dropped"
    if not _is_same_json(final, requested):
        return "altered"
    return "landed" if _is_same_json(before, requested) else "patched"


def _is_same_json(a: Any, b: Any) -> bool:
    """Return whether two values are equal as JSON, at any depth: `4` and `"4"` differ to Kubernetes, and True equals 1
    in Python."""
    return json.dumps(a, sort_keys=True, default=repr) == json.dumps(b, sort_keys=True, default=repr)


def _read_command(expectation: Expectation, value: Any) -> Any:
    """Return the command that xpk's script wraps; another launcher's script is the command."""
    if expectation.reads == "value" or value is MISSING:
        return value
    try:
        script = value[2]
    except (LookupError, TypeError):
        return value
    try:
        return command_in_wrapper(script)
    except (ValueError, AttributeError):
        return script


def expectations(run: Run, *, digest: str) -> tuple[Expectation, ...]:
    paths = places(run.mode.value)
    return (
        *_expect_identity(run, paths, digest=digest),
        *slice_expectations(run, paths),
        *process_expectations(
            run,
            paths,
            argv=trainer_of(run).trainer_argv(run),
            command=command(run),
            env=trainer_of(run).container_env(run),
        ),
        *_policies(run, paths),
        *setting_expectations(training_settings(run, paths)),
        *pull_secret_expectations(run, paths),
        *(_expect_pathways(run, paths) if run.mode.single_controller else ()),
    )


def _expect_identity(run: Run, paths: JobSetPaths, *, digest: str) -> Iterator[Expectation]:
    labels: Pointer = ("metadata", "labels")
    annotations: Pointer = ("metadata", "annotations")
    steps = run.spec.train.steps
    yield Expectation(field="name", path=("metadata", "name"), value=run.jobset)
    yield Expectation(field="name", path=(*labels, RUN_LABEL), value=run.run_name)
    yield Expectation(field="name", path=(*labels, JOBSET_LABEL), value=run.jobset)
    yield Expectation(field="name", path=(*labels, "xpk.google.com/workload"), value=run.jobset)
    for pod in dict.fromkeys((paths.trainer_pod, paths.slice_pod)):
        yield Expectation(field="name", path=(*pod[:-1], *labels, RUN_LABEL), value=run.run_name)
        yield Expectation(field="name", path=(*pod[:-1], *labels, "xpk.google.com/workload"), value=run.jobset)
    yield Expectation(field="mode", path=(*labels, MODE_LABEL), value=run.mode.value)
    for label, value in target_label(run.spec.target).items():
        yield Expectation(field="target", path=(*labels, label), value=value)
    yield Expectation(field="place.namespace", path=("metadata", "namespace"), value=run.namespace)
    yield Expectation(field="queue", path=(*labels, "kueue.x-k8s.io/queue-name"), value=run.queue)
    yield Expectation(field="train.steps", path=(*annotations, STEPS_ANNOTATION), value=str(steps), requested=steps)
    yield Expectation(field="output", path=(*annotations, OUTPUT_ANNOTATION), value=run.output or "")
    yield Expectation(field="spec_digest", path=(*annotations, DIGEST_ANNOTATION), value=digest)


def slice_expectations(run: Run, paths: JobSetPaths) -> Iterator[Expectation]:
    """Yield what the manifest must hold for the slices; nothing for a run without any."""
    tpu = run.slice
    if tpu is None:
        return
    job = (*paths.slices, "template", "spec")
    selector = (*paths.slice_pod, "nodeSelector")
    yield Expectation(field="tpu.num_slices", path=(*paths.slices, "replicas"), value=run.num_slices)
    yield Expectation(field="tpu.type", path=(*job, "parallelism"), value=tpu.hosts)
    yield Expectation(field="tpu.type", path=(*job, "completions"), value=tpu.hosts)
    yield Expectation(
        field="tpu.type", path=(*selector, "cloud.google.com/gke-tpu-accelerator"), value=tpu.accelerator_label
    )
    yield Expectation(field="tpu.type", path=(*selector, "cloud.google.com/gke-tpu-topology"), value=tpu.topology)
    # xpk writes a number for McJAX and a text for Pathways, which Kubernetes takes for the same.
    chips: int | str = tpu.chips_per_host if not run.mode.single_controller else str(tpu.chips_per_host)
    yield Expectation(field="tpu.type", path=paths.chips, value=chips, requested=tpu.chips_per_host)
    section = run.spec.tpu
    if section and section.capacity == "spot":
        yield Expectation(field="tpu.capacity", path=(*selector, SPOT_LABEL), value="true", requested="spot")
        tolerations = (*paths.slice_pod, "tolerations")
        yield Expectation(field="tpu.capacity", path=tolerations, value=list(SPOT_TOLERATIONS), requested="spot")
    if section and section.capacity == "on-demand":
        terms = (*paths.slice_pod, *NODE_TERMS)
        yield Expectation(field="tpu.capacity", path=terms, value=list(ON_DEMAND_TERMS), requested="on-demand")
    if section and section.reservation:
        name = reservation_name(section.reservation)
        path = (*selector, RESERVATION_LABEL)
        yield Expectation(field="tpu.reservation", path=path, value=name, requested=section.reservation)


def process_expectations(
    run: Run, paths: JobSetPaths, *, argv: Sequence[str], command: str, env: Mapping[str, str]
) -> Iterator[Expectation]:
    """Yield what the manifest must hold for the process of the trainer's container. `command`: `argv`, encoded."""
    path = (*paths.trainer, "command")
    yield Expectation(field="image.ref", path=(*paths.trainer, "image"), value=run.spec.image.ref)
    yield Expectation(field="command", path=path, value=command, requested=list(argv), reads="command")
    for name, value in env.items():
        path = (*paths.trainer, "env", NamedEntry(name), "value")
        yield Expectation(field=f"env.{name}", path=path, value=escape_expansion(value), requested=value)


def _policies(run: Run, paths: JobSetPaths) -> Iterator[Expectation]:
    spec = run.spec
    policy: Pointer = ("spec", "failurePolicy")
    ttl: Pointer = ("spec", "ttlSecondsAfterFinished")
    yield Expectation(field="restarts.max", path=(*policy, "maxRestarts"), value=spec.restarts.max)
    yield Expectation(field="restarts.on_exit_codes", path=(*policy, "rules"), value=[FAIL_JOBSET_RULE])
    yield Expectation(
        field="restarts.on_exit_codes",
        path=(*paths.trainer_job, "podFailurePolicy"),
        value=pod_failure_policy(spec.restarts.on_exit_codes),
        requested=spec.restarts.on_exit_codes,
    )
    data: Pointer = ("metadata", "annotations", DATA_ANNOTATION)
    yield Expectation(field="restarts.data", path=data, value="reshuffle" if reshuffles(run) else "repeat")
    if counted_seeds(run):
        count: Pointer = (*paths.trainer, "env", NamedEntry(RESTARTS), "valueFrom")
        yield Expectation(field="restarts.data", path=count, value=RESTARTS_FROM, requested="reshuffle")
    yield Expectation(field="ttl_seconds_after_finished", path=ttl, value=spec.ttl_seconds_after_finished)
    for pod in dict.fromkeys((paths.trainer_pod, paths.slice_pod)):
        yield Expectation(field="priority", path=(*pod, "priorityClassName"), value=spec.priority)
        if spec.restarts.grace_period_s is not None:
            path = (*pod, "terminationGracePeriodSeconds")
            yield Expectation(field="restarts.grace_period_s", path=path, value=spec.restarts.grace_period_s)


def setting_expectations(settings: Iterable[PodSetting]) -> Iterator[Expectation]:
    for setting in settings:
        yield Expectation(field=setting.field, path=setting.path, value=setting.value)


def pull_secret_expectations(run: Run, paths: JobSetPaths) -> Iterator[Expectation]:
    pull = run.spec.image.pull_secret
    if pull:
        for pod in dict.fromkeys((paths.trainer_pod, paths.slice_pod)):
            yield Expectation(field="image.pull_secret", path=(*pod, "imagePullSecrets"), value=[{"name": pull}])


def _expect_pathways(run: Run, paths: JobSetPaths) -> Iterator[Expectation]:
    images = run.servers
    section = run.spec.pathways
    proxy = (*paths.trainer_pod, "initContainers", NamedEntry("pathways-proxy"))
    manager = (*paths.trainer_pod, "initContainers", NamedEntry("pathways-rm"))
    worker = (*paths.slice_pod, "containers", NamedEntry("pathways-worker"))
    requested = (
        ("pathways.proxy_image", proxy, images.proxy_image),
        ("pathways.server_image", manager, images.server_image),
        ("pathways.server_image", worker, images.server_image),
    )
    for field, container, image in requested:
        if image is not None:  # a check reports that it is missing
            yield Expectation(field=field, path=(*container, "image"), value=image)
    scratch = () if images.scratch is None else (f"--gcs_scratch_location={images.scratch}",)
    tokens = (
        ("pathways.scratch", proxy, scratch),
        ("pathways.scratch", manager, scratch),
        ("pathways.scratch", worker, scratch),
        ("pathways.proxy_args", proxy, proxy_args(run)),
        ("pathways.server_args", manager, tuple(section.server_args) if section else ()),
        ("pathways.worker_args", worker, tuple(section.worker_args) if section else ()),
    )
    for field, container, args in tokens:
        for arg in args:
            yield Expectation(field=field, path=(*container, "args", Item(arg)), value=arg)
