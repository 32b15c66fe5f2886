"""spec + facts -> intent -> plan. Pure; the only place where modes, trainers, launchers and checks meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from xsft.checks import check, silence
from xsft.facts import Facts
from xsft.launchers.audit import audit, audit_problems
from xsft.launchers.expect import expectations
from xsft.launchers.patch import apply, changes
from xsft.launchers.xpk import xpk_argv
from xsft.problems import Problem, error, errors_in
from xsft.spec.digest import spec_digest
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import Run, resolve
from xsft.steps import Intent, Plan
from xsft.trainers.conversion import conversion_argv
from xsft.trainers.maxtext import trainer_argv, trainer_env
from xsft.trainers.shuffling import seeds


def make_intent(spec: WorkloadSpec, facts: Facts) -> Intent:
    """Decide everything xpk must be told, and check it."""
    run, unresolved = resolve(spec, facts)
    problems = silence((*unresolved, *check(run, facts)), spec.checks)
    digest = spec_digest(run)
    line, unencodable = _xpk_line(run, problems)
    return Intent(
        run=run,
        spec_digest=digest,
        trainer_argv=trainer_argv(run),
        trainer_env=trainer_env(run),
        conversion_argv=conversion_argv(run),
        xpk_argv=line,
        changes=changes(run, digest=digest) if line else (),
        expectations=expectations(run, digest=digest) if line else (),
        problems=(*problems, *unencodable),
    )


def make_plan(intent: Intent, *, rendered: dict[str, Any] | None, file: str = "") -> Plan:
    """Join the intent with what xpk rendered for it; None for local runs and for intents without an xpk line."""
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
    )


UNRENDERABLE = frozenset(
    {
        "tpu-missing",
        "tpu-unknown",
        "image-missing",
        "place-missing",
        "place-unknown",
        "pathways-args",
        "env-value",
        "env-name",
    }
)
"""Problems that leave xpk nothing it could render."""


def _xpk_line(run: Run, problems: Iterable[Problem]) -> tuple[tuple[str, ...] | None, tuple[Problem, ...]]:
    """The line, or None with the reason where there is none to render."""
    if run.spec.target == "local" or run.slice is None or any(p.id in UNRENDERABLE for p in errors_in(problems)):
        return None, ()
    try:
        return xpk_argv(run), ()
    except ValueError as e:
        return None, (
            error("command-encoding", "", f"the trainer's command cannot be sent: {e}", "Change that value."),
        )


def _by_hand(intent: Intent, rendered: dict[str, Any]) -> tuple[str, ...]:
    """The reasons of the changes that xpk's own manifest still needs."""
    needed = (change.why for change in intent.changes if apply((change,), rendered) != rendered)
    return tuple(dict.fromkeys((*_reach(intent.run), *needed)))


def _reach(run: Run) -> Iterator[str]:
    if run.place and run.place.context:
        yield f"xpk cannot be told a kubeconfig context ({run.place.context}): the line names a stand-in cluster"
