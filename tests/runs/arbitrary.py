"""Any observation, also such as no cluster gives: words it knows and words it does not, every combination of None."""

from __future__ import annotations

from typing import Any, TypeVar, get_args, get_type_hints

from hypothesis import strategies as st

from tests.kubeobjects import kueue_workload
from tests.runs import seen
from xsft.base.state_names import STATES
from xsft.cluster.objects import Condition
from xsft.cluster.observation import (
    Before,
    Observation,
    Recorded,
    ReplicatedJob,
    RunObject,
    Status,
    Unread,
)
from xsft.trainer.progress import Phase, Progress

T = TypeVar("T")

TYPES = (
    "Completed",
    "Failed",
    "Suspended",
    "StartupPolicyInProgress",
    "QuotaReserved",
    "Admitted",
    "Evicted",
    "Finished",
)
REASONS = (
    "Pending",
    "Inadmissible",
    "Preempted",
    "Deactivated",
    "Succeeded",
    "Failed",
    "ReachedMaxRestarts",
    "OutOfSync",
)
WAITING = ("ErrImagePull", "CreateContainerConfigError", "CrashLoopBackOff", "ContainerCreating", "OOMKilled", "Error")
TIMES = (
    "2026-11-21T10:00:00Z",
    "2026-11-21T11:59:58Z",
    "2026-11-21T12:00:00+00:00",
    "0001-01-01T00:00:00+14:00",
    "soon",
)

text = st.text(max_size=6)
times = st.sampled_from(TIMES) | st.datetimes().map(lambda at: at.isoformat()) | text
counts = st.integers(min_value=-1, max_value=3)
steps = st.none() | st.integers(min_value=-1, max_value=5)
numbers = st.none() | st.floats()

conditions = st.builds(
    Condition,
    type=st.sampled_from(TYPES) | text,
    status=st.sampled_from(("True", "False", "Unknown")) | text,
    reason=st.sampled_from(REASONS) | text,
    message=text,
    at=times,
)
pod_conditions = st.builds(
    Condition,
    type=st.just("PodScheduled") | text,
    status=st.sampled_from(("True", "False")),
    reason=st.just("Unschedulable") | text,
    message=text,
)


def listed(strategy: st.SearchStrategy[T], size: int = 3) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(strategy, max_size=size).map(tuple)


reasons = st.sampled_from(WAITING) | text
codes = st.none() | st.integers(0, 255)
of_any: dict[str, Any] = {"name": text, "restarts": counts}
ended = st.builds(seen.terminated, codes, reasons, message=text, finished_at=st.none() | times, **of_any)
again: dict[str, Any] = {"last": st.none() | ended, **of_any}
running = st.builds(seen.container, started_at=st.none() | times, **again)
containers = ended | running | st.builds(seen.waiting, reasons, message=text, **again)
pods = st.builds(
    seen.pod,
    slice_index=counts,
    host=counts,
    phase=st.sampled_from(("Pending", "Running", "Succeeded", "Failed", "Unknown")) | text,
    name=text,
    jobset=text,
    replicated_job=text,
    conditions=listed(pod_conditions, 2),
    containers=listed(containers, 2),
    node=st.booleans(),
    attempt=counts,
    deleting=st.booleans(),
    created_at=times,
    memory=st.none() | text,
)
replicated_jobs = st.builds(
    ReplicatedJob,
    name=text,
    replicas=counts,
    ready=counts,
    active=counts,
    succeeded=counts,
    failed=counts,
    suspended=counts,
)
jobsets = st.builds(
    RunObject,
    name=text,
    namespace=text,
    uid=text,
    created_at=times,
    run_name=text,
    ours=st.booleans(),
    steps=steps,
    suspended=st.booleans(),
    terminal=st.none() | st.sampled_from(("Completed", "Failed")) | text,
    conditions=listed(conditions),
    jobs=listed(replicated_jobs),
    has_status=st.booleans(),
    restarts=counts,
    max_restarts=st.none() | counts,
    deleting_at=st.none() | times,
)
workloads = st.builds(
    kueue_workload, name=text, conditions=listed(conditions), active=st.booleans(), cluster_queue=st.none() | text
)
progresses = st.builds(
    Progress,
    source=st.sampled_from(("log", "metrics", "record", "checkpoints")),
    read_at=times,
    phase=st.none() | st.sampled_from(get_args(Phase)),
    step=steps,
    loss=numbers,
    step_seconds=numbers,
    said_at=st.none() | times,
    began_at=st.none() | times,
    saved_step=steps,
    resumed_from=steps,
    data_ended=st.booleans(),
    aborted=st.none() | text,
    no_target_steps=st.integers(0, 5),
    not_finite_steps=st.integers(0, 5),
    zero_loss_steps=st.integers(0, 5),
)
OUTCOMES = (
    "submitting",
    "not-created",
    "created",
    "running",
    "completed",
    "short",
    "failed",
    "interrupted",
    "cancelled",
)
records = st.builds(
    Recorded,
    outcome=st.sampled_from(OUTCOMES) | text,
    reason=st.none() | text,
    state_reason=st.sampled_from(("", "no-target-tokens", "loss-not-finite")) | text,
    alive=st.booleans(),
)
statuses = st.builds(
    Status, state=st.sampled_from(STATES), reason=text, evidence=listed(st.sampled_from(("jobset", "log")))
)
ends = statuses | st.just(Status(state="failed", reason="oom-killed", evidence=("jobset", "pods")))
befores = st.builds(
    Before, at=times, state=st.sampled_from(STATES), reason=text, step=steps, saved_step=steps, found=text
)
unread = st.builds(Unread, what=st.sampled_from(get_args(get_type_hints(Unread)["what"])), why=text)
observations = st.builds(
    Observation,
    run_name=text,
    target=st.sampled_from(("xpk", "local")),
    observed_at=times,
    steps=steps,
    jobset=st.none() | jobsets,
    workload=st.none() | workloads,
    pods=st.none() | listed(pods),
    progress=st.none() | progresses,
    record=st.none() | records,
    unread=listed(unread),
    last_known=st.none() | statuses,
    known_end=st.none() | ends,
    before=st.none() | befores,
    found=text,
    was=st.none() | jobsets,
    output=st.none() | text,
)


def with_other_messages(value: Any) -> Any:
    """The same, every message and every other word for people replaced, however deep."""
    if isinstance(value, tuple):
        return tuple(with_other_messages(member) for member in value)
    if not hasattr(value, "__struct_fields__"):
        return value
    changed = {name: with_other_messages(getattr(value, name)) for name in value.__struct_fields__}
    for name in ("message", "why"):
        if name in changed:
            changed[name] = f"other: {changed[name]}"
    if (
        isinstance(value, Recorded) and value.reason
    ):  # that one is there says that the trainer failed after its last step
        changed["reason"] = f"other: {value.reason}"
    return type(value)(**changed)
