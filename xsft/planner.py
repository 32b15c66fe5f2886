"""spec + facts -> intent -> plan. Pure; the only place where modes, trainers, launchers and checks meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from xsft.checks import check, silence
from xsft.facts import Facts
from xsft.launchers.audit import audit, audit_problems
from xsft.launchers.expect import expectations
from xsft.launchers.launcher import launcher_of
from xsft.launchers.patch import apply
from xsft.launchers.rendering import Rendering, XpkRendering
from xsft.problems import Problem, error, errors_in
from xsft.spec.digest import spec_digest
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import Run, resolve
from xsft.steps import Intent, Plan
from xsft.trainers.conversion import conversion_argv
from xsft.trainers.maxtext import trainer_argv, trainer_env
from xsft.trainers.shuffling import seeds


def make_intent(spec: WorkloadSpec, facts: Facts) -> Intent:
    """Decide everything the launcher must be told, and check it."""
    run, unresolved = resolve(spec, facts)
    problems = silence((*unresolved, *check(run, facts)), spec.checks)
    digest = spec_digest(run)
    rendering, unencodable = _rendering(run, problems)
    return Intent(
        run=run,
        spec_digest=digest,
        trainer_argv=trainer_argv(run),
        trainer_env=trainer_env(run),
        conversion_argv=conversion_argv(run),
        rendering=rendering,
        changes=launcher_of(spec.target).changes(run, digest=digest) if rendering else (),
        expectations=expectations(run, digest=digest) if rendering else (),
        problems=(*problems, *unencodable),
    )


def make_plan(intent: Intent, *, rendered: dict[str, Any] | None, file: str = "") -> Plan:
    """Join the intent with what was rendered for it; None for local runs and for intents without a rendering."""
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
"""Problems that leave a launcher nothing it could render."""


def _rendering(run: Run, problems: Iterable[Problem]) -> tuple[Rendering | None, tuple[Problem, ...]]:
    """What the launcher renders, or None with the reason where it can render nothing."""
    if run.spec.on_this_machine or run.slice is None or any(p.id in UNRENDERABLE for p in errors_in(problems)):
        return None, ()
    try:
        return launcher_of(run.spec.target).rendering(run), ()
    except ValueError as e:
        return None, (
            error("command-encoding", "", f"the trainer's command cannot be sent: {e}", "Change that value."),
        )


def _by_hand(intent: Intent, rendered: dict[str, Any]) -> tuple[str, ...]:
    """The reasons of the changes that xpk's own manifest still needs; another launcher has no line to run by hand."""
    if not isinstance(intent.rendering, XpkRendering):
        return ()
    needed = (change.why for change in intent.changes if apply((change,), rendered) != rendered)
    return tuple(dict.fromkeys((*_reach(intent.run), *needed)))


def _reach(run: Run) -> Iterator[str]:
    if run.place and run.place.context:
        yield f"xpk cannot be told a kubeconfig context ({run.place.context}): the line names a stand-in cluster"
