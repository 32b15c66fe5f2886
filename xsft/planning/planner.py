"""spec + facts -> intent -> plan. Pure; the only place where modes, trainers, launchers and checks meet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xsft.base.acceptance import accept_problems
from xsft.base.errors import SpecError
from xsft.base.names import stage_name
from xsft.base.problems import Problem, error
from xsft.checks.facts import Facts
from xsft.checks.step_time import run_time
from xsft.checks.subjects import check_run, late_ids
from xsft.launcher.audit import AuditRow, Expectation, audit, audit_problems, expectations
from xsft.launcher.cpujob import CpuJob
from xsft.launcher.job_patch import cpu_changes, cpu_expectations, slice_changes, slice_job_expectations
from xsft.launcher.launcher import Job, Rendering, launcher_of
from xsft.launcher.patch import Change, apply
from xsft.launcher.slicejob import SliceJob
from xsft.planning.steps import AnyJob, Intent, JobPlan, Plan
from xsft.spec.digest import spec_digest
from xsft.spec.facts import TriesFacts
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import Run, resolve
from xsft.trainer.arguments import conversion_argv, loads_lazily
from xsft.trainer.shuffling import seeds
from xsft.trainer.trainer import trainer_of
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.estimates import estimate


def make_intent(spec: WorkloadSpec, facts: Facts) -> Intent:
    """Return the intent: every decision about the run that the launcher needs, with the problems of the checks."""
    run, unresolved = resolve(spec, facts)
    problems = accept_problems((*unresolved, *check_run(run, facts)), spec.checks, late=late_ids)
    digest = spec_digest(run)
    rendering, unencodable = _render_run(run, problems)
    trainer, conversion = trainer_of(run), conversion_plan(run, facts)
    return Intent(
        run=run,
        spec_digest=digest,
        trainer_argv=trainer.trainer_argv(run),
        trainer_env=trainer.trainer_env(run),
        conversion_argv=None if conversion and conversion.whole else trainer.conversion_argv(run),
        conversion=conversion,
        rendering=rendering,
        changes=launcher_of(spec.target).changes(run, digest=digest) if rendering else (),
        expectations=expectations(run, digest=digest) if rendering else (),
        problems=(*problems, *unencodable),
        time=run_time(run, paces=facts.paces),
    )


def make_plan(intent: Intent, *, rendered: dict[str, Any] | None, file: str = "") -> Plan:
    """Return the plan of an intent and its rendered manifest; None for local runs and for intents without a
    rendering.
    """
    manifest = apply(intent.changes, rendered) if rendered is not None else None
    rows = audit(intent.expectations, rendered=rendered, manifest=manifest) if rendered is not None else ()
    run = intent.run
    return Plan(
        file=file,
        run_name=run.run_name,
        jobset=run.jobset,
        spec_digest=intent.spec_digest,
        target=run.spec.target,
        mode=run.mode,
        trainer_argv=intent.trainer_argv,
        trainer_env=intent.trainer_env,
        seeds=seeds(run),
        conversion_argv=intent.conversion_argv,
        xpk_argv=intent.xpk_argv,
        manifest=manifest,
        audit=rows,
        by_hand=_by_hand(intent, rendered) if rendered is not None else (),
        problems=tuple(p.in_file(file) for p in (*intent.problems, *audit_problems(rows))),
        run=run,
        time=intent.time,
    )


def job_rendering(job: Job) -> Rendering:
    """Return the launcher's rendering of a job. Raises SpecError if its command cannot be sent."""
    launcher = launcher_of(job.run.spec.target)
    try:
        match job:
            case CpuJob():
                return launcher.cpu_rendering(job)
            case SliceJob():
                return launcher.slice_rendering(job)
    except ValueError as e:
        raise SpecError((_unencodable(job.run.spec.target, e),)) from None


def make_job_plan(
    job: AnyJob,
    *,
    rendered: dict[str, Any],
    xpk_argv: tuple[str, ...] | None,
    file: str,
    problems: tuple[Problem, ...] = (),
) -> JobPlan[AnyJob]:
    """Return the plan of a job and its rendered manifest. `problems`: of the workload and of the job."""
    changes, expected = _changes_and_expectations(job)
    manifest = apply(changes, rendered)
    rows: tuple[AuditRow, ...] = audit(expected, rendered=rendered, manifest=manifest)
    return JobPlan(
        file=file,
        job=job,
        xpk_argv=xpk_argv,
        manifest=manifest,
        audit=rows,
        by_hand=_needed_changes(job.run, changes, rendered) if xpk_argv else (),
        problems=tuple(p.in_file(file) for p in (*problems, *audit_problems(rows))),
    )


def _changes_and_expectations(job: Job) -> tuple[tuple[Change, ...], Iterable[Expectation]]:
    match job:
        case CpuJob():
            return cpu_changes(job), cpu_expectations(job)
        case SliceJob():
            return slice_changes(job), slice_job_expectations(job)


def _render_run(run: Run, problems: Iterable[Problem]) -> tuple[Rendering | None, tuple[Problem, ...]]:
    """Return the launcher's rendering, or None with the reason why there is none."""
    if run.spec.on_this_machine or run.slice is None or any(p.kind == "unrenderable" for p in problems):
        return None, ()
    try:
        return launcher_of(run.spec.target).rendering(run), ()
    except ValueError as e:
        return None, (_unencodable(run.spec.target, e),)


def _by_hand(intent: Intent, rendered: dict[str, Any]) -> tuple[str, ...]:
    """Return the reasons of the changes that xpk's own manifest still needs; another launcher has no line to run by
    hand."""
    if intent.xpk_argv is None:
        return ()
    return _needed_changes(intent.run, intent.changes, rendered)


def _needed_changes(run: Run, changes: Iterable[Change], rendered: dict[str, Any]) -> tuple[str, ...]:
    needed = [change.why for change in changes if apply((change,), rendered) != rendered]
    if run.place and run.place.context:
        context = run.place.context
        needed.insert(0, f"xpk has no flag for a kubeconfig context ({context}); the line has a stand-in cluster")
    return tuple(dict.fromkeys(needed))


def _unencodable(target: str, why: ValueError) -> Problem:
    return error("command-encoding", "", f"the command cannot be passed to {target}: {why}", "Change that value.")


STAGE = "convert"


def conversion_plan(run: Run, facts: Facts | None = None) -> ConversionPlan | None:
    """Return the plan that converts the run's weights into the folder of the next attempt; None if the workload names a
    checkpoint or trains from scratch."""
    argv = conversion_argv(run)
    if run.conversion is None or run.converted is None or run.output is None or argv is None:
        return None
    facts = facts or Facts()
    source_bytes = facts.source.weights_bytes if facts.source else None
    tries = facts.tries or TriesFacts()
    return ConversionPlan(
        run_name=stage_name(run_name=run.run_name, stage=STAGE),
        training=run.run_name,
        output=run.output,
        inputs=run.conversion,
        first=run.converted,
        directory=run.next_try or run.converted,
        argv=argv,
        estimate=estimate(run.conversion, lazy=loads_lazily(run), source_bytes=source_bytes),
        whole=run.checkpoint if facts.checkpoint and facts.checkpoint.status == "read" else None,
        recorded=tries.recorded,
        why_not=facts.checkpoint.detail if facts.checkpoint and facts.checkpoint.status != "read" else "",
        unread=facts.checkpoint is not None and facts.checkpoint.status == "unreadable",
        broken=tries.broken,
    )
