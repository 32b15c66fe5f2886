"""The processes of a run that have a log, by their positions in its JobSet. Pure."""

from __future__ import annotations

from msgspec import Struct

from xsft.base.errors import UsageError
from xsft.catalog.tpu import parse_tpu_type
from xsft.cluster.observation import RunObject
from xsft.cluster.pod_fields import JOB_INDEX, REPLICATED_JOB
from xsft.records.jobset_paths import COMPLETION_INDEX, JOBSET_NAME

STREAMS = 8
"""Maximum logs that --all opens by default: two slices of v6e-256 have 128."""


class ProcessRole(Struct, frozen=True, kw_only=True):
    """A process, identified by its place in the JobSet; its pod may be replaced."""

    replicated_job: str
    slice_index: int
    host: int

    def selector(self, jobset: RunObject) -> str:
        """Return the label selector of the process's pods."""
        if jobset.serves:
            return jobset.selector
        return (
            f"{JOBSET_NAME}={jobset.name},{REPLICATED_JOB}={self.replicated_job},"
            f"{JOB_INDEX}={self.slice_index},{COMPLETION_INDEX}={self.host}"
        )


class LogRequest(Struct, frozen=True, kw_only=True):
    """A request for a run's logs. None: the default, or no limit."""

    slice_index: int | None = None
    host: int | None = None
    every: bool = False
    at_most: int = STREAMS
    since_s: float | None = None
    """Age of the oldest line in seconds."""
    tail: int | None = None
    follow: bool = False
    attempt: int | None = None


def chosen_roles(
    jobset: RunObject, *, slice_index: int | None, host: int | None, every: bool
) -> tuple[ProcessRole, ...]:
    """Return the process that prints steps, or those that are named. A slice without a host means its host 0.

    Under Pathways the slices' processes are the workers; without a slice the head is shown. Raises UsageError for a
    slice or host that the run does not have.
    """
    roles = all_roles(jobset)
    if roles and every and (slice_index, host) == (None, None):
        return roles
    if not every and (slice_index, host) == (None, None):
        return (ProcessRole(replicated_job=jobset.trainer_job or "", slice_index=0, host=0),)
    slices = [role for role in roles if role.replicated_job == jobset.slice_job]
    chosen = [role for role in slices if slice_index in (None, role.slice_index)]
    hosts = [role for role in chosen if (every and host is None) or role.host == (host or 0)]
    if slice_index is None:
        hosts = [role for role in hosts if every or role.slice_index == 0]
    if not hosts:
        raise UsageError(f"That run has no such process: {_extent(slices)}.", fix="Slices and hosts count from 0.")
    return tuple(hosts)


def all_roles(jobset: RunObject) -> tuple[ProcessRole, ...]:
    """Return every process that writes a log, the one that prints steps first."""
    first = jobset.trainer_job
    rows = sorted(jobset.jobs, key=lambda job: (job.name != first, job.name))
    return tuple(
        ProcessRole(replicated_job=job.name, slice_index=index, host=host)
        for job in rows
        for index in range(job.replicas)
        for host in range(_hosts(jobset, job.name))
    )


def role_text(jobset: RunObject, role: ProcessRole) -> str:
    """Return the process as text: `head`, `server`, or `slice 1 host 37`."""
    if jobset.serves:
        return role.replicated_job
    if role.replicated_job == jobset.slice_job:
        return f"slice {role.slice_index} host {role.host}"
    return "head" if role.replicated_job == jobset.trainer_job else role.replicated_job


def _hosts(jobset: RunObject, job: str) -> int:
    if jobset.serves or job != jobset.slice_job:
        return 1  # a server has one machine, whatever slices of its topology have
    try:
        return parse_tpu_type(jobset.tpu).hosts if jobset.tpu else 1
    except ValueError:
        return 1


def _extent(slices: list[ProcessRole]) -> str:
    last_hosts: dict[int, int] = {}
    for role in slices:
        last_hosts[role.slice_index] = max(role.host, last_hosts.get(role.slice_index, 0))
    texts = [f"slice {index} has hosts 0 to {host}" for index, host in sorted(last_hosts.items())]
    return "; ".join(texts) or "none is known"
