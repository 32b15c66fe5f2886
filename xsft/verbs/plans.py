"""Print the plans of files: as text, as manifests or as one document."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import yaml
from msgspec import to_builtins

from xsft.base.stage import StagePlan
from xsft.base.terminal_text import safe_text
from xsft.planning.steps import Plan
from xsft.stages.stage_plans import PlannedFiles
from xsft.verbs.failure import print_problems, problem_documents
from xsft.verbs.plan_document import plan_document, print_json, status_of
from xsft.verbs.plan_text import block, plan_text, shell_line

PlanFormat = Literal["text", "audit", "manifests", "json"]


def print_plans(found: PlannedFiles, form: PlanFormat) -> int:
    """Print the plans and return the exit status of their checks."""
    match form:
        case "json":
            _print_documents(found)
            print_problems(found.unread)
        case "manifests":
            print_manifests(found.plans)
            print_problems(found.problems)
        case "text" | "audit":
            _print_text(found, audit=form == "audit")
            print_problems(found.unread)
    return status_of(found.problems)


def _print_documents(found: PlannedFiles) -> None:
    unread = found.unread
    extra = {"problems": problem_documents(unread), "exit_status": status_of(found.problems)} if unread else {}
    plans = [_document_of_plan(*pair) for pair in zip(found.plans, found.stages, strict=True)]
    print_json("plan", {"plans": plans, **extra})


def _document_of_plan(plan: Plan, stages: tuple[StagePlan, ...]) -> dict[str, Any]:
    beside = [{**to_builtins(one), "problems": problem_documents(one.problems)} for one in stages]
    return {**plan_document(plan), "stages": beside}


def _print_text(found: PlannedFiles, *, audit: bool) -> None:
    """Print the plans, wrapped to the terminal's width; a pipe gets whole lines."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    texts = (
        plan_text(plan, audit=audit, width=width) + "".join(f"{line}\n" for line in stage_lines(its))
        for plan, its in zip(found.plans, found.stages, strict=True)
    )
    sys.stdout.write("\n".join(texts))


def print_manifests(plans: Sequence[Plan]) -> None:
    """Print YAML documents for `kubectl create -f -`, with texts quoted so that nothing in them is misread."""
    manifests = [plan.manifest for plan in plans if plan.manifest is not None]
    sys.stdout.write(
        yaml.dump_all(manifests, Dumper=_manifest_dumper(), sort_keys=False, allow_unicode=True, width=10**9)
    )


def _manifest_dumper() -> Any:
    """Return a dumper that quotes what standard output escapes, so that it is read back as the same text."""

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        pass

    def text(dumper: Any, value: str) -> Any:
        style = None if safe_text(value) == value else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def stage_lines(found: Sequence[StagePlan]) -> Iterator[str]:
    """Yield the block of the stages: what each writes, and its command; nothing for a training alone."""
    if not found:
        return
    yield from block("other stages, run by xsft run", "\n".join(_summary(one) for one in found))
    for one in found:
        if one.argv and one.name != "convert":  # the plan shows that line already
            yield from block(f"stage {one.name}", shell_line(one.argv))


def _summary(one: StagePlan) -> str:
    if one.writes is None:
        why = "; ".join(problem.message for problem in one.problems)
        return f"{one.name:<10}{one.run_name}: not planned: {why}"
    notes = "".join(f"\n{'':<10}{note}" for note in one.notes)
    digest = f", digest {one.digest[:12]}" if one.digest else ""
    return f"{one.name:<10}{one.run_name}{digest}: {one.writes}{notes}"
