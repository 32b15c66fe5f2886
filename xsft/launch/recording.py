"""What a record has beside the plan: user, time, checkout, versions; and the record of a stage's own run on this
machine.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, Refused, UsageError
from xsft.base.targets import THIS_MACHINE, registered_launcher
from xsft.cluster.jobset_fields import JobSet
from xsft.environments import environments
from xsft.launch.local_folder import RunFolder
from xsft.launch.local_machine import Machine
from xsft.launcher.cpujob import CpuJob
from xsft.launcher.slicejob import SliceJob
from xsft.machine import clock
from xsft.machine.files import system_words, write_atomic
from xsft.machine.paths import checkout, random_hex
from xsft.machine.process import user_name
from xsft.machine.regular import read_text
from xsft.machine.signals import as_ctrl_c
from xsft.planning import gather
from xsft.planning.steps import JobPlan, Plan, Planned
from xsft.records.document import to_json
from xsft.records.record import Attempt, Git, Outcome, Record, RecordedImage
from xsft.records.record_files import record_store
from xsft.records.resumption import complete_record
from xsft.records.run_cluster import address_of
from xsft.spec.digest import canonical
from xsft.trainer.shuffling import order_at_first

T = TypeVar("T")


class Provenance(Struct, frozen=True, kw_only=True):
    """The origin of a submission, gathered once."""

    submitter: str
    """16 random hex digits."""
    at: str
    """UTC, ISO 8601."""
    user: str
    git: Git | None
    versions: Mapping[str, str]


def gather_provenance(file: str, *, target: str) -> Provenance:
    """Return the provenance of a workload at `file`; the git checkout is that of its folder. Never raises: what cannot
    be determined is left out. `target`: its launcher.
    """
    folder = gather.workload_folder(file)
    repository = checkout(folder)
    tools = map(environments.environment_for, registered_launcher(target).tools)
    pinned = {tool.package: tool.pins[tool.package] for tool in tools}
    return Provenance(
        submitter=random_hex(8),
        at=clock.now(),
        user=user_name(),
        git=Git(commit=repository.commit, dirty=repository.dirty) if repository else None,
        versions={"xsft": _own_version(), **pinned, "python": platform.python_version()},
    )


def record_of(
    plan: Planned, provenance: Provenance, *, number: int = 1, action: str = "created", resumes_from: int | None = None
) -> Record:
    """Return the record to begin: one attempt, `submitting`. `action`: what submit is about to do. `resumes_from`: the
    last saved step.
    """
    run = plan.run
    argv, env = _process_of(plan)
    attempt = Attempt(
        number=number,
        spec_digest=plan.spec_digest,
        started_at=provenance.at,
        argv=argv,
        env=env,
        outcome="submitting",
        problems=tuple(problem for problem in plan.problems if problem.severity != "error"),
        submitter=provenance.submitter,
        action=action,
        jobset=plan.jobset if plan.on_cluster else None,
        namespace=run.namespace if plan.on_cluster else None,
        cluster=address_of(plan.run.place) if plan.on_cluster and plan.run.place else None,
        xpk_argv=plan.xpk_argv,
        manifest_digest=manifest_digest(plan.manifest) if plan.manifest else None,
        resolved=_resolved_workload(plan),
        image=image_of(run.spec.image.ref) if run.spec.image.ref else None,
        git=provenance.git,
        versions={**provenance.versions, "maxtext": run.release.version},
        user=provenance.user,
        resumed_from=resumes_from,
        resumed_order=None if resumes_from is None else order_at_first(plan.run),
    )
    return Record(
        run_name=plan.run_name,
        spec_digest=plan.spec_digest,
        spec=json.loads(canonical(run)),
        steps=run.spec.train.steps if isinstance(plan, Plan) else 0,
        target=plan.target,
        mode=run.mode.value,
        output=run.output,
        attempts=(attempt,),
    )


def record_of_found(plan: Planned, provenance: Provenance, jobset: JobSet) -> Record:
    """Return the record of a JobSet that an earlier call created, as far as the plan and the cluster show it."""
    record = record_of(plan, provenance, number=jobset.attempt)
    last = replace(record.last, outcome="created", jobset=jobset.name, uid=jobset.uid)
    return replace(record, attempts=(last,))


def _process_of(plan: Planned) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return the arguments of the plan's process, and the environment variables that xsft sets for it."""
    match plan:
        case Plan():
            return plan.trainer_argv, plan.trainer_env
        case JobPlan():
            return plan.job.argv, plan.job.env


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Return the sha256 over sorted keys without spaces, 64 hex digits: equal for equal manifests, whatever their
    formatting.
    """
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def image_of(ref: str) -> RecordedImage:
    _, _, digest = ref.partition("@")
    return RecordedImage(ref=ref, digest=digest or None)


def _resolved_workload(plan: Planned) -> dict[str, Any]:
    match plan if isinstance(plan, Plan) else plan.job:
        case Plan() as training:
            return _resolved_training(training)
        case CpuJob() as job:
            return {
                "work": job.work,
                "for_run": job.training,
                "writes": job.writes,
                "memory_bytes": job.memory,
                "disk_bytes": job.disk,
                "cpus": job.cpus,
                "machine": job.run.slice.machine_type if job.run.slice else job.machine.machine,
                "queue": job.run.queue,
            }
        case SliceJob(run=run) as job:
            return {
                "work": job.work,
                "for_run": job.training,
                "writes": job.writes,
                "program": job.program,
                "program_in": "image" if job.is_carried else "command",
                "limit_s": job.limit_s,
                "tpu": run.slice.xpk_type if run.slice else None,
                "num_slices": run.num_slices,
                "chips": run.chips,
                "queue": run.queue,
            }


def _resolved_training(plan: Plan) -> dict[str, Any]:
    run = plan.run
    document = {
        "mode_reason": plan.mode.reason,
        "tpu": run.spec.tpu.type if run.spec.tpu else None,
        "num_slices": run.num_slices,
        "chips": run.chips,
        "devices": run.devices,
        "queue": run.queue if plan.on_cluster else None,
        "checkpoint": run.checkpoint,
        "checkpoint_period": run.checkpoint_period,
        "conversion_argv": list(plan.conversion_argv) if plan.conversion_argv else None,
        "step_time_bound": {"seconds": plan.time.step_s, "compiled": False} if plan.time else None,
        "hub_commits": dict(run.hub_commits) or None,
    }
    return {key: value for key, value in document.items() if value is not None}


def _own_version() -> str:
    try:
        return importlib.metadata.version("xsft")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


class StageRun(Struct, frozen=True, kw_only=True):
    """A stage's run on this machine, as its record names it."""

    run_name: str
    digest: str
    output: str
    key: str
    """Key of the stage under `spec`; the record of another kind of run does not have it."""
    inputs: Mapping[str, Any]

    @property
    def folder(self) -> RunFolder:
        """`<output>/<run_name>`. Raises UsageError if the output is not a folder of this machine."""
        if not Path(self.output).is_absolute():
            raise UsageError(
                f"{self.output!r} is not an absolute path, and this stage writes to this machine",
                fix="name a folder, e.g. output: ./runs",
            )
        return RunFolder(path=Path(self.output) / self.run_name)


def stage_record(run: StageRun) -> Record:
    """Return the run's record with the earlier attempts. Raises Refused if another kind of run has the folder."""
    before = read_stage(run.folder, key=run.key)
    attempts: tuple[Attempt, ...] = ()
    if before is not None:
        attempts = tuple(map(_killed_attempt, before.attempts))
    return Record(
        run_name=run.run_name,
        spec_digest=run.digest,
        spec={run.key: dict(run.inputs)},
        target=THIS_MACHINE,
        output=run.output,
        attempts=attempts,
    )


def read_stage(folder: RunFolder, *, key: str) -> Record | None:
    """Return the record of a stage's run; None without one. Raises Refused if another kind of run has the folder."""
    try:
        record = complete_record(read_text(folder.record))
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as broken:
        fix = "move the file away; nothing was changed"
        raise Refused(f"{folder.record} cannot be read: {system_words(broken)}", fix=fix) from broken
    if key in record.spec:
        return record
    raise Refused(
        f"{folder.path} is the folder of another run, named {folder.path.name} as well",
        fix="use another name for one of the two runs",
        id="stage-name-taken",
    )


def begin_attempt(
    record: Record, argv: tuple[str, ...], *, folder: RunFolder, machine: Machine, save: Callable[[Record], None]
) -> Record:
    """Return the record with the attempt that begins now: `argv` with the machine's Python, and its own log file. It is
    saved, and added to the index of runs.
    """
    number = 1 + max((earlier.number for earlier in record.attempts), default=0)
    attempt = Attempt(
        number=number,
        argv=(str(machine.python), *argv[1:]),
        log=str(folder.own / f"trainer-{number}.log"),
        started_at=machine.now(),
        spec_digest=record.spec_digest,
        private_pids=machine.contain().private,
    )
    record = replace(record, attempts=(*record.attempts, attempt))
    save(record)
    record_store(machine.env).index(record, str(folder.record))
    return record


def with_end(record: Record, *, outcome: Outcome, reason: str | None, status: int | None, at: str) -> Record:
    last = replace(record.last, outcome=outcome, reason=reason, exit_status=status, finished_at=at)
    return replace(record, attempts=(*record.attempts[:-1], last))


def save_record(record: Record, folder: RunFolder) -> None:
    write_atomic(folder.record, to_json(record))


def beside_fields(record: Record) -> dict[str, Any]:
    """Return the fields that the record beside a result (`ResultRecord`) has from the run's record."""
    names = ("outcome", "started_at", "finished_at", "reason", "argv")
    last = {name: getattr(record.last, name) for name in names}
    return {"digest": record.spec_digest, "run_name": record.run_name, **last}


def run_recorded(work: Callable[[], T], *, record: Callable[[Outcome, str], T]) -> T:
    """Return what `work` returns, which records its own end. If it is interrupted, return what `record` does with that
    outcome and the reason; any other exception is recorded and raised again.
    """
    try:
        with as_ctrl_c():
            return work()
    except KeyboardInterrupt as stop:
        return record("interrupted", interruption(stop))
    except BaseException as failed:
        record("failed", str(failed))
        raise


def interruption(stop: KeyboardInterrupt) -> str:
    """Return the reason of an outcome: the signal (`signals.as_ctrl_c`), or Ctrl-C."""
    return f"ended by {stop}" if str(stop) else "interrupted by the user"


@contextmanager
def check_usable(folder: Path) -> Iterator[None]:
    """Raise an error with the fix if the folder cannot be written or the disk is full."""
    try:
        yield
    except OSError as failed:
        raise EnvironmentMissing(
            f"{folder} cannot be used: {system_words(failed)}",
            fix="free some space or name another output; saved files are kept",
        ) from failed


def _killed_attempt(attempt: Attempt) -> Attempt:
    if attempt.outcome != "running":
        return attempt
    return replace(attempt, outcome="failed", reason="xsft or the machine stopped")
