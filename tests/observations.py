"""Observations made by hand, for tests of what is shown of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.kubeobjects import kueue_workload
from tests.replacing import replace
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.base.state_names import State
from xsft.cluster.exactly_once import DeleteOutcome
from xsft.cluster.objects import Condition
from xsft.cluster.observation import Observation, Recorded, RunObject, Status
from xsft.runs.lookup import Classify, RunsAnswer, RunsRead, answer_of
from xsft.runs.losing import SavedSteps
from xsft.trainer.progress import Progress

NOW = "2026-11-21T12:00:00+00:00"
EARLIER = "2026-11-21T11:59:56Z"


def jobset(name: str = "gemma", **changed: Any) -> RunObject:
    run_object = RunObject(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        created_at="2026-11-21T10:00:00Z",
        run_name=name,
        ours=True,
        mode="mcjax",
        tpu="v6e-256",
        num_slices=2,
        steps=1000,
        output="gs://my-bucket/runs",
        spec_digest="ab" * 32,
        queue="multislice-queue",
        max_restarts=3,
    )
    return replace(run_object, **changed)


def said(step: int = 120, **changed: Any) -> Progress:
    progress = Progress(
        source="log",
        read_at=EARLIER,
        phase="training",
        step=step,
        loss=2.3456,
        step_seconds=4.546,
        tflops_per_device=417.4,
        tokens_per_second=7207.0,
        said_at=EARLIER,
        saved_step=100,
    )
    return replace(progress, **changed)


def observed(name: str = "gemma", **changed: Any) -> Observation:
    observation = Observation(
        run_name=name,
        target="xpk",
        observed_at=EARLIER,
        cluster="my-project/us-east5-b/my-cluster",
        jobset=jobset(name),
        progress=said(),
    )
    return replace(observation, **changed)


def local(name: str = "tiny", **changed: Any) -> Observation:
    observation = Observation(
        run_name=name,
        target="local",
        observed_at=NOW,
        mode="mcjax",
        steps=40,
        progress=said(40, source="record", tflops_per_device=None, step_seconds=0.2),
        record=Recorded(outcome="completed", started_at="2026-11-21T09:00:00Z", finished_at="2026-11-21T09:01:00Z"),
    )
    return replace(observation, **changed)


def queued(name: str, *, position: int | None = 0) -> Observation:
    workload = kueue_workload(f"jobset-{name}", queue_name="multislice-queue")
    return observed(name, workload=workload, position=position, progress=None)


def finished(name: str, *, at: str, **changed: Any) -> Observation:
    done = Condition(type="Completed", status="True", reason="AllJobsCompleted", at=at)
    return observed(name, jobset=jobset(name, conditions=(done,), terminal="Completed", **changed))


def runs_read(
    observations: tuple[Observation, ...] = (),
    problems: tuple[Problem, ...] = (),
    *,
    answered: bool = True,
    whole: bool = True,
) -> RunsRead:
    """Return the result of a read."""
    return RunsRead(observations=observations, problems=problems, answered=answered, whole=whole)


def judged(seen: Observation) -> Status:
    """A classifier that is simple enough to see through; the real one has tests of its own."""
    if seen.jobset is None and seen.record is None:
        return Status(state="unknown")
    if seen.record is not None and seen.jobset is None:
        states: dict[str, State] = {"completed": "succeeded", "running": "training", "cancelled": "cancelled"}
        return Status(state=states.get(seen.record.outcome, "failed"), evidence=("record",))
    assert seen.jobset is not None
    if seen.jobset.terminal:
        ended: State = "succeeded" if seen.jobset.terminal == "Completed" else "failed"
        return Status(state=ended, evidence=("jobset",))
    if seen.position is not None:
        return Status(state="queued", reason="no-quota", evidence=("jobset", "workload"))
    return Status(state="training", evidence=("jobset", "log")) if seen.progress else Status(state="starting")


class FakeRuns:
    """`run_access.RunAccess` with reads made by hand: each in turn, and the last one from then on. Nothing can be
    cancelled."""

    def __init__(self, *reads: RunsRead, classify: Classify = judged, now: Callable[[], str] = lambda: NOW) -> None:
        self.left = list(reads)
        self.kept: list[tuple[Observation, Status]] = []
        self._classify, self._now = classify, now

    def now(self) -> str:
        return self._now()

    def look(self) -> RunsAnswer:
        read = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        return answer_of(read, classify=self._classify, now=self.now())

    def listen(self, say: ShowLine, /) -> None: ...

    def keep(self, pairs: Iterable[tuple[Observation, Status]], /) -> None:
        self.kept += pairs

    def delete(self, observation: Observation, jobset: RunObject, /) -> DeleteOutcome:
        raise NotImplementedError

    def record_cancel(self, observation: Observation, jobset: RunObject, /) -> tuple[Problem, ...]:
        raise NotImplementedError

    def stop_local(self, observation: Observation, /) -> bool:
        raise NotImplementedError

    def saved(self, observation: Observation, /) -> SavedSteps:
        raise NotImplementedError
