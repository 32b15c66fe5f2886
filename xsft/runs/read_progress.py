"""Progress of runs: from their trainers' log lines, else from the files beside their output; read in parallel, with a
deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.amounts import seconds_between
from xsft.base.errors import Unreachable, XsftError
from xsft.base.secrets import redact
from xsft.base.stage import is_complete
from xsft.cluster.cluster import Cluster
from xsft.cluster.errors import last_net
from xsft.cluster.objects import ObjectList
from xsft.cluster.observation import LogTail, Observation, Recorded, RunObject, Unread, What
from xsft.cluster.pod_fields import Pod
from xsft.cluster.reads import ContainerLogRequest, read_log
from xsft.launcher.encoding import XPK_START
from xsft.machine.objects import latest_step
from xsft.machine.parallel import StartedCall, answers
from xsft.records import CONVERSION_KEY, EXPORT_KEY
from xsft.records import FOLDER as OWN_FOLDER
from xsft.records.record_files import RecordStore
from xsft.runs.lastknown import recorded_of
from xsft.runs.pod_reasons import by_server_clock, oom_killed, started_at, trouble
from xsft.runs.read_scope import lacks_progress, may_have_progress
from xsft.trainer.lines import Step
from xsft.trainer.metrics import FOLDER, metric_rows, newest_files, progress_of_metrics
from xsft.trainer.progress import LoggedLine, Progress, progress_of

T = TypeVar("T")
NOT_READ = "not read in time"
NOT_ASKED = "not read: only the newest active runs are read; name the run to read it"
TAIL = 80
"""Lines read of a log. A step prints two, a save some twenty. Parsing them is most of the cost of reading a run."""
LONG_TAIL = 800
"""Lines read if the short tail has no step: the run is starting, or another writer fills the log. Also read for runs
that are named on the command line, so that the last save is included, which may be hundreds of steps ago.
"""
ROTATED_AFTER_S = 600.0
"""A container that has run for less has its whole log, also if another program than xpk's script began it."""
LOG_GONE = Unread(what="log", why="the pod that prints the steps is gone, and so is its log")
THREADS = 8
"""Maximum number of threads. Each has its own connection, whose TLS handshake costs both sides more than a log."""


RECORDS = {"convert": CONVERSION_KEY, "export": EXPORT_KEY}
"""Work whose result is a folder -> name of the record in it."""


class ProgressSource(Struct, frozen=True, kw_only=True):
    """The sources from which the progress of a namespace's runs is read."""

    cluster: Cluster
    store: RecordStore
    outputs: Mapping[str, str] = {}
    """base_output_directory of runs that were submitted from this machine, by the run's name."""
    first_pods: tuple[StartedCall[ObjectList[Pod]], ...] = ()
    """The lists that hold the pods that print the steps."""

    def now(self) -> str:
        """Return the time of the API server's clock."""
        return self.cluster.time_there(self.store.now())

    def output(self, observation: Observation) -> str | None:
        """Return the run's base_output_directory, or None if it is unknown."""
        output = observation.jobset.output if observation.jobset else None
        return output or self.outputs.get(observation.run_name) or (observation.was.output if observation.was else None)

    def recorded(self, observation: Observation) -> Recorded | None:
        """Return the record beside the run's output; of a job whose result is complete, that it completed, even if its
        pod was killed before it could record that. Raises XsftError."""
        place = self.output(observation)
        records = self.store.read_run(place, observation.run_name) if place else ()
        recorded = recorded_of(records, observation.uid)
        if recorded is None or recorded.outcome == "completed" or not self._is_result_complete(observation.jobset):
            return recorded
        return replace(recorded, outcome="completed", reason=None)

    def _is_result_complete(self, job: RunObject | None) -> bool:
        """Return whether the file beside the job's result says that it is complete. Raises XsftError."""
        if job is None or job.writes is None:
            return False
        path = job.writes  # an evaluation is this file
        if job.work in RECORDS:
            path = f"{path.removesuffix('/0/items')}/{OWN_FOLDER}/{RECORDS[job.work]}.json"
        content = self.store.objects_at(path).read(path, limit=MAX_BYTES)
        return is_complete(content or b"", digest=job.spec_digest)


def read_progress(
    observations: Sequence[Observation], *, source: ProgressSource, deadline_s: float, tail: int = TAIL
) -> tuple[Observation, ...]:
    """Return the same observations, with their progress, the first ones first. What was not read in time is in
    `unread`. `tail`: number of lines of each log. Never raises.
    """
    requests = [_begin_reading(observation) for observation in observations]
    reads = [partial(_read_one_progress, request, source, tail=tail) for request in requests]
    read = answers(reads, threads=THREADS, timeout_s=deadline_s)
    return tuple(
        answer or _passed_over(request.seen, NOT_READ, what=request.what)
        for request, answer in zip(requests, read, strict=True)
    )


def not_asked(observation: Observation) -> Observation:
    """Return the observation, marked as not read if it can have progress."""
    return (
        _passed_over(observation, NOT_ASKED, what=_begin_reading(observation).what)
        if lacks_progress(observation)
        else observation
    )


class _ProgressRequest(Struct, kw_only=True):
    """The state of one read: written by the thread that reads, and read by the thread that stops waiting."""

    seen: Observation
    """The observation, with the parts read so far."""
    what: What
    """The part that is being read."""


def _begin_reading(observation: Observation) -> _ProgressRequest:
    return _ProgressRequest(seen=observation, what="record" if observation.jobset is None else "log")


def _read_one_progress(doing: _ProgressRequest, source: ProgressSource, *, tail: int) -> Observation:
    """Return the observation with its progress: from the log first; from the files beside the output if there is no log
    or it does not reach the end of the run.
    """
    observation = doing.seen
    job = observation.jobset
    if job is not None and job.work is not None and job.terminal == "Failed":
        observation = _with_record(observation, source)  # its result may have been complete when it failed
    observation = _with_log(observation, source, tail=tail)
    logged = observation.progress
    if logged is not None and not _falls_short(observation, logged):
        return observation
    if logged is None and not may_have_progress(observation):
        return observation  # its output is of an earlier start
    if job is None or (job.work == "evaluate" and observation.record is None):
        observation = _with_record(observation, source)
    doing.seen = observation
    written, lacking = _progress_in_output(observation, source, doing)
    if logged is not None and written is not None:
        logged = replace(logged, saved_step=max_of(logged.saved_step, written.saved_step))
    return replace(observation, progress=logged or written, unread=(*observation.unread, *lacking))


def _falls_short(observation: Observation, logged: Progress) -> bool:
    """Return whether the run has ended, and its log does not show whether the last step was done and saved: a run that
    finds its last checkpoint prints no step, and one that fails after its last step may not print that it was saved.
    """
    if observation.jobset is not None and observation.jobset.terminal is None:
        return False
    done = max_of(logged.step, logged.saved_step)
    if observation.jobset is not None and observation.jobset.terminal == "Failed":
        return (
            observation.steps is not None
            and done is not None
            and done >= observation.steps - 1
            and logged.saved_step != observation.steps
        )
    return done is None or observation.steps is None or done < observation.steps


def _with_log(observation: Observation, source: ProgressSource, *, tail: int) -> Observation:
    """Return the observation with the end of its log and the progress in it, or with why the log could not be read."""
    jobset = observation.jobset
    if jobset is None:
        return observation
    try:
        with last_net(observation.cluster or ""):
            pod = _find_printer(observation, jobset, source)
            if pod is not None:
                observation = _with_printer(observation, pod)
                observation = _with_tail(observation, jobset, pod, source, tail=tail)
    except XsftError as failed:
        return replace(observation, unread=(*observation.unread, unread_of("log", failed)))
    if observation.progress is None and may_have_progress(observation):
        return replace(observation, unread=(*observation.unread, LOG_GONE))
    return observation  # without progress it has no log yet


def _with_printer(observation: Observation, pod: Pod) -> Observation:
    """Return the observation with the pod if it shows what is wrong, and no other list contains it."""
    pods = observation.pods or ()
    if pod not in pods and (oom_killed([pod]) or trouble([pod])):
        return replace(observation, pods=(*pods, pod))
    return observation


def _with_tail(
    observation: Observation, jobset: RunObject, pod: Pod, source: ProgressSource, *, tail: int
) -> Observation:
    """Return the observation with the end of the pod's log, or with a longer part if that has no step; unchanged if
    there is no log. Raises Unreachable, also if the log was rotated and has no line of the trainer since then.
    """
    request = ContainerLogRequest(namespace=jobset.namespace, pod=pod.name, container=pod.trainer_container, tail=tail)
    lines = read_log(source.cluster.reads.api, request)
    if lines is None:
        return observation
    now = source.now()
    began_at = by_server_clock(min(started_at([pod]), default=None), pod)
    complete = len(lines) < tail
    rotated = _is_rotated(lines, began_at=began_at, now=now)
    progress = progress_of(lines, read_at=now, from_start=complete and not rotated)
    if complete and rotated and jobset.ours and progress.phase is None and progress.step is None:
        raise Unreachable(
            "the log was rotated, and has no line of the trainer since then", fix="Try again in a minute."
        )
    progress = replace(progress, began_at=began_at, said_at=by_server_clock(progress.said_at, pod))
    observation = replace(observation, progress=progress, log=LogTail(pod=pod.name, lines=lines))
    if progress.step is not None or complete or tail >= LONG_TAIL:
        return observation
    return _with_tail(observation, jobset, pod, source, tail=LONG_TAIL)


def _is_rotated(lines: Sequence[LoggedLine], *, began_at: str | None, now: str) -> bool:
    """Return whether the lines, all that a container's log has now, do not begin with the container's first line. The
    kubelet begins a new file when a log has 10 MiB, and serves only that.
    """
    if lines and lines[0].text.startswith(XPK_START):
        return False
    return (seconds_between(began_at, now) or 0.0) > ROTATED_AFTER_S


def _find_printer(observation: Observation, jobset: RunObject, source: ProgressSource) -> Pod | None:
    pods = observation.pods or ()
    if not any(jobset.prints_steps(pod) for pod in pods):
        pods = tuple(pod for call in source.first_pods for pod in call.result().objects)
    return printer_of(jobset, pods)


def printer_of(jobset: RunObject, pods: Iterable[Pod]) -> Pod | None:
    """Return the pod of the current attempt that prints steps; a pod that is being deleted only if there is no
    other.
    """
    return max(filter(jobset.prints_steps, pods), key=lambda pod: pod.age_rank, default=None)


def _with_record(observation: Observation, source: ProgressSource) -> Observation:
    """Return the observation with its record: what `submit` or `cancel` wrote beside the output, else the index
    entry.
    """
    record, missing = _try_reading("record", lambda: source.recorded(observation))
    return replace(observation, record=record or observation.record, unread=(*observation.unread, *missing))


def _progress_in_output(
    observation: Observation, source: ProgressSource, doing: _ProgressRequest
) -> tuple[Progress | None, tuple[Unread, ...]]:
    """Return the progress from the metrics and the checkpoints beside the output, and what could not be read."""
    output = source.output(observation)
    if output is None:
        return None, ()
    doing.what = "metrics"
    metrics, no_metrics = _try_reading(
        "metrics", lambda: progress_in_metrics(output, observation.run_name, source.store)
    )
    doing.what = "checkpoints"
    saved, no_saved = _try_reading(
        "checkpoints",
        lambda: latest_step(source.store.objects_at(output), output=output, run_name=observation.run_name),
    )
    missing = (*no_metrics, *no_saved)
    if metrics is not None:
        return replace(metrics, saved_step=saved), missing
    if saved is None:
        return None, missing
    return Progress(source="checkpoints", read_at=source.now(), saved_step=saved), missing


def progress_in_metrics(output: str, run_name: str, store: RecordStore) -> Progress | None:
    """Return the progress from the last two files: the very last may hold no step. Raises Unreachable."""
    rows = read_metrics(store, output=output, run_name=run_name, at_most=2)
    return progress_of_metrics(rows, read_at=store.now())


def _try_reading(what: What, look: Callable[[], T]) -> tuple[T | None, tuple[Unread, ...]]:
    try:
        return look(), ()
    except XsftError as failed:
        return None, (unread_of(what, failed),)


def unread_of(what: What, failed: XsftError) -> Unread:
    """Return the entry for a part that could not be read, with the reason in one line."""
    (first, *_) = failed.problems
    why = redact(" ".join(failed.message.split()))[:300]
    return Unread(what=what, why=why, fix=first.fix, id=first.id, again=first.again)


def _passed_over(observation: Observation, why: str, *, what: What) -> Observation:
    return replace(observation, unread=(*observation.unread, Unread(what=what, why=why, passed_over=True)))


def max_of(*numbers: int | None) -> int | None:
    return max((number for number in numbers if number is not None), default=None)


MAX_BYTES = 16 * 1024 * 1024
"""Maximum bytes of one file; log_period is 100 steps of some 2 KB unless a workload sets another."""


def read_metrics(store: RecordStore, *, output: str, run_name: str, at_most: int) -> tuple[Step, ...]:
    """Return the steps in the newest files, at most so many files, in the order in which they were written. Raises
    Unreachable.
    """
    folder, objects = f"{output.rstrip('/')}/{run_name}/{FOLDER}", store.objects_at(output)
    paths = (f"{folder}/{name}" for name in newest_files(objects.written(folder), at_most=at_most))
    texts = ((objects.read(path, limit=MAX_BYTES) or b"").decode("utf-8", "replace") for path in paths)
    return tuple(row for text in texts for row in metric_rows(text))
