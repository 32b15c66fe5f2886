"""`xsft plan FILE…`: print exactly what submit would do."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from xsft.base.stage import StagePlan
from xsft.base.terminal_text import wrap_line
from xsft.launcher.audit import AuditRow
from xsft.planning.steps import Plan
from xsft.spec.resolve import Mode
from xsft.stages.stage_plans import PlannedFiles, plan_files
from xsft.trainer.shuffling import Seeds
from xsft.verbs.document import (
    Document,
    ProblemFields,
    VerbDocument,
    document_of,
    print_lines,
    print_problems,
    print_to_stderr,
    problem_documents,
    report_document,
    show_progress,
    status_of,
)
from xsft.verbs.plan_text import (
    RunTimeDocument,
    audit_lines,
    block,
    plan_text,
    screen_lines,
    shell_line,
    time_document,
    trainer_line,
    verdict_text,
    yaml_text,
)


def run(args: argparse.Namespace) -> int:
    with show_progress("xsft") as progress:
        planned = plan_files(
            args.files, settings=args.settings, run_name=args.run_name, offline=args.offline, progress=progress
        )
    document = PlanDocument(
        plans=tuple(map(_plan_fields, planned.plans, planned.stages)),
        problems=problem_documents(planned.unread),
        exit_status=status_of(planned.problems),
    )
    return report_document(document, lambda _document: _print_texts(planned, args.part), as_json=args.json)


def _plan_fields(plan: Plan, stages: tuple[StagePlan, ...]) -> PlanFields:
    return document_of(
        PlanFields,
        plan,
        hub_commits=dict(plan.run.hub_commits),
        jobset=plan.jobset if plan.on_cluster else None,
        time=time_document(plan.time) if plan.time else None,
        stages=stages,
    )


PlanPart = Literal["screen", "xpk", "trainer", "audit", "manifest", "all"]
"""What is printed of a plan: one screen, one part to copy, or all parts."""


class StageOutline(StagePlan, frozen=True, kw_only=True):
    """A stage other than the training, as `xsft run` runs it."""

    problems: tuple[ProblemFields, ...] = ()  # type: ignore[assignment]
    """Problems of this stage only, and the reasons why it cannot be planned."""


class PlanFields(Document, frozen=True, kw_only=True):
    """A plan: exactly what `xsft submit` does."""

    file: str
    run_name: str
    """Name of the run and of its output folder; the same for all attempts."""
    jobset: str | None
    """The JobSet's name: `run_name`, with `-2`, `-3`, … for later attempts. null for `target: local`."""
    spec_digest: str
    """sha256 of the resolved workload, 64 hex digits; equal digests are the same run."""
    target: str
    """`local`, or the launcher for a cluster: `xpk`."""
    mode: Mode
    hub_commits: dict[str, str]
    """Commits, 40 hex digits, that the Hugging Face hub has now of the `tokenizer`, at which it is read unless
    the workload names a branch or tag, and of the `data`, of which each start reads the newest; without those that the
    workload names, or the hub did not tell."""
    trainer_argv: tuple[str, ...]
    """Arguments of the trainer's process, byte for byte, at the first start of this attempt: `python3 -m MODULE …`, or
    `python3 -c PROGRAM …` if that program copies the tokenizer first.
    """
    trainer_env: dict[str, str]
    """Environment variables of the trainer's process."""
    seeds: Seeds | None
    """Changes of `trainer_argv` at later starts; null if all starts read the rows in the same order."""
    conversion_argv: tuple[str, ...] | None
    """Command that converts the Hugging Face weights, once, before the run; null if the workload names a checkpoint, or
    the result exists."""
    xpk_argv: tuple[str, ...] | None
    """The `xpk workload create[-pathways]` line; null for `target: local`, or if a problem prevents rendering it."""
    manifest: dict[str, Any] | None
    """The object that will be created; null if `xpk_argv` is null."""
    audit: tuple[AuditRow, ...]
    by_hand: tuple[str, ...]
    """What you would lose if you ran `xpk_argv` by hand, one sentence each."""
    stages: tuple[StageOutline, ...]
    """Stages other than the training; empty if the plan has errors."""
    time: RunTimeDocument | None
    """null on this machine, and if the catalogue does not have the model or the TPU type."""
    problems: tuple[ProblemFields, ...]


class PlanDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.plan/1"):
    """`xsft plan FILE… --json`. Its own problems are those of files that could not be read."""

    plans: tuple[PlanFields, ...]
    """One per file that could be read, in the order given."""


def _print_texts(planned: PlannedFiles, part: PlanPart) -> None:
    """Print each plan, or its part. The problems of a part go to stderr: it is to be copied."""
    plans = planned.plans
    if part == "manifest":
        sys.stdout.write(yaml_text(plan.manifest for plan in plans if plan.manifest is not None))
    for number, (plan, stages) in enumerate(zip(plans, planned.stages, strict=True)):
        if number and part != "manifest":
            print_lines(("",))
        if len(plans) > 1 and part == "screen":
            print_lines((f"# {plan.file}",))
        _print_part(plan, stages, part)
    if part not in ("screen", "all"):
        print_problems(problem for plan in plans for problem in plan.problems)


def _print_part(plan: Plan, stages: Sequence[StagePlan], part: PlanPart) -> None:
    """Print a plan, wrapped to the terminal's width; a pipe gets whole lines, and so do lines to copy."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    match part:
        case "screen":
            # the decisions, then what is wrong, and last whether the plan can be submitted
            print_lines(screen_lines(plan, stages, width=width))
            problems = [replace(p, file="") for p in problem_documents(plan.problems) if p.severity != "note"]
            if problems:
                print_lines(("",))
            print_problems(problems, stream=sys.stdout)
            print_lines(wrap_line(verdict_text(plan), width=width))
        case "xpk" if plan.xpk_argv:
            print_lines((shell_line(plan.xpk_argv),))
        case "xpk":
            print_to_stderr(f"{plan.file}: no xpk line")
        case "trainer":
            print_lines((trainer_line(plan.trainer_argv, plan.trainer_env),))
        case "audit":
            print_lines(audit_lines(plan.audit, every_row=True))
        case "all":
            sys.stdout.write(plan_text(plan, width=width))
            print_lines(stage_lines(stages))
        case "manifest":
            return


def stage_lines(stages: Sequence[StagePlan]) -> Iterator[str]:
    """Yield the block of the stages: what each writes, and its command; nothing for a training alone."""
    if not stages:
        return
    yield from block("other stages, run by xsft run", "\n".join(map(_summary, stages)))
    for stage in stages:
        if stage.argv and stage.name != "convert":  # the plan shows that line already
            yield from block(f"stage {stage.name}", shell_line(stage.argv))


def _summary(stage: StagePlan) -> str:
    if stage.writes is None:
        why = "; ".join(problem.message for problem in stage.problems)
        return f"{stage.name:<10}{stage.run_name}: not planned: {why}"
    notes = "".join(f"\n{'':<10}{note}" for note in stage.notes)
    digest = f", digest {stage.digest[:12]}" if stage.digest else ""
    return f"{stage.name:<10}{stage.run_name}{digest}: {stage.writes}{notes}"
