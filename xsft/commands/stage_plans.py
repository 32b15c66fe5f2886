"""The plans of the stages beside the training, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from xsft.commands.failure import problem_documents
from xsft.commands.plan_text import block, shell_line
from xsft.errors import XsftError
from xsft.problems import Problem
from xsft.stages.stage import Stage, StageName, StagePlan


class StageOutlook(Struct, frozen=True, kw_only=True):
    """The plan of one stage, or why it cannot be planned."""

    name: StageName
    run_name: str
    plan: StagePlan | None
    problems: tuple[Problem, ...] = ()


def outlooks(stages: Sequence[Stage]) -> tuple[StageOutlook, ...]:
    """Return the plan of each stage but the training, which `xsft plan` shows in full."""
    return tuple(_outlook(stage) for stage in stages if stage.name != "train")


def _outlook(stage: Stage) -> StageOutlook:
    try:
        plan = stage.plan()
    except XsftError as failed:
        return StageOutlook(name=stage.name, run_name=stage.run_name, plan=None, problems=failed.problems)
    return StageOutlook(name=stage.name, run_name=stage.run_name, plan=plan, problems=plan.problems)


def stage_lines(found: Sequence[StageOutlook]) -> Iterator[str]:
    """Yield the block of the stages: what each writes, and its command; nothing for a training alone."""
    if not found:
        return
    yield from block("stages beside the training, done by xsft run", "\n".join(_summary(one) for one in found))
    for one in found:
        if one.plan is not None and one.plan.argv and one.name != "convert":  # the plan shows that line already
            yield from block(f"stage {one.name}", shell_line(one.plan.argv))


def _summary(one: StageOutlook) -> str:
    if one.plan is None:
        why = "; ".join(problem.message for problem in one.problems)
        return f"{one.name:<10}{one.run_name}: not planned: {why}"
    notes = "".join(f"\n{'':<10}{note}" for note in one.plan.notes)
    digest = f", digest {one.plan.digest[:12]}" if one.plan.digest else ""
    return f"{one.name:<10}{one.run_name}{digest}: {one.plan.writes}{notes}"


def stage_documents(found: Sequence[StageOutlook]) -> list[dict[str, Any]]:
    return [_document(one) for one in found]


def _document(one: StageOutlook) -> dict[str, Any]:
    plan = one.plan
    return {
        "name": one.name,
        "run_name": one.run_name,
        "digest": plan.digest if plan else None,
        "writes": plan.writes if plan else None,
        "argv": list(plan.argv) if plan else [],
        "xpk_argv": list(plan.xpk_argv) if plan and plan.xpk_argv else None,
        "manifest": plan.manifest if plan else None,
        "dependents": list(plan.dependents) if plan else [],
        "notes": list(plan.notes) if plan else [],
        "problems": problem_documents(one.problems),
    }
