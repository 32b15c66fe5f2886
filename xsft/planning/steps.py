"""The intent and the plan of a run. Pure data: `xsft.planning.planner` makes them, and `xsft.launch` executes them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec import Struct

from xsft.base.problems import Problem, errors_in
from xsft.base.targets import TargetProperties
from xsft.checks.step_time import RunTime
from xsft.launcher.audit import AuditRow, Expectation
from xsft.launcher.cpujob import CpuJob
from xsft.launcher.launcher import Rendering
from xsft.launcher.patch import Change
from xsft.launcher.slicejob import SliceJob
from xsft.spec.resolve import Mode, Run
from xsft.trainer.shuffling import Seeds
from xsft.weights.conversion_plan import ConversionPlan


class Intent(Struct, frozen=True, kw_only=True):
    """The decisions about a run, before it is rendered."""

    run: Run
    spec_digest: str
    trainer_argv: tuple[str, ...]
    trainer_env: dict[str, str]
    conversion_argv: tuple[str, ...] | None
    conversion: ConversionPlan | None
    """The conversion that `xsft checkpoint convert` does; None if the run needs none."""
    rendering: Rendering | None
    """None for `target: local`, and if a problem prevents rendering."""
    changes: tuple[Change, ...]
    expectations: tuple[Expectation, ...]
    problems: tuple[Problem, ...]
    time: RunTime | None = None

    @property
    def xpk_argv(self) -> tuple[str, ...] | None:
        """Return the xpk line; None for other launchers too."""
        return self.rendering.xpk_argv if self.rendering else None


class Plan(TargetProperties, Struct, frozen=True, kw_only=True):
    """Exactly what `submit` does."""

    file: str
    run_name: str
    jobset: str
    spec_digest: str
    target: str
    mode: Mode
    trainer_argv: tuple[str, ...]
    """At the first start of this attempt."""
    trainer_env: dict[str, str]
    seeds: Seeds | None
    """The values of `data_shuffle_seed` at later starts; None if all starts read the rows in the same order."""
    conversion_argv: tuple[str, ...] | None
    xpk_argv: tuple[str, ...] | None
    manifest: dict[str, Any] | None
    audit: tuple[AuditRow, ...]
    by_hand: tuple[str, ...]
    """Parts of the manifest that the xpk line lacks, one sentence each."""
    problems: tuple[Problem, ...]
    run: Run
    time: RunTime | None = None
    """The least time of its steps; None on this machine, and for a model or a TPU that the catalogue lacks."""

    @property
    def ok(self) -> bool:
        return not errors_in(self.problems)


AnyJob = TypeVar("AnyJob", CpuJob, SliceJob)


class JobPlan(TargetProperties, Struct, Generic[AnyJob], frozen=True, kw_only=True):
    """The plan of a job that is not a training: exactly what is put on a cluster."""

    file: str
    job: AnyJob
    xpk_argv: tuple[str, ...] | None
    manifest: dict[str, Any] | None
    audit: tuple[AuditRow, ...]
    by_hand: tuple[str, ...]
    """Parts that the xpk line lacks, as in `Plan.by_hand`."""
    problems: tuple[Problem, ...]

    @property
    def run(self) -> Run:
        return self.job.run

    @property
    def run_name(self) -> str:
        return self.run.run_name

    @property
    def jobset(self) -> str:
        return self.run.jobset

    @property
    def target(self) -> str:
        return self.run.spec.target

    @property
    def spec_digest(self) -> str:
        """Return the digest by which two jobs are the same."""
        return self.job.digest


Planned = Plan | JobPlan[CpuJob] | JobPlan[SliceJob]
"""A plan of something that a cluster runs."""
