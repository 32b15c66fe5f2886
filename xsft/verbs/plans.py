"""Plans of files: as text, as manifests or as one document."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import yaml

from xsft.base.stage import StagePlan
from xsft.base.terminal_text import safe_text
from xsft.launcher.audit import AuditRow
from xsft.planning.steps import Plan
from xsft.spec.resolve import Mode
from xsft.stages.stage_plans import PlannedFiles
from xsft.trainer.shuffling import Seeds
from xsft.verbs.document import (
    Document,
    ProblemFields,
    VerbDocument,
    document_of,
    print_document,
    problem_documents,
    status_of,
)
from xsft.verbs.failure import print_problems
from xsft.verbs.plan_text import block, plan_text, shell_line
from xsft.verbs.run_time import RunTimeDocument, time_document

PlanFormat = Literal["text", "audit", "manifests", "json"]


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
    trainer_argv: tuple[str, ...]
    """Arguments of the trainer's process, byte for byte, at the first start of this attempt; starts
    `python3 -m MODULE`.
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


def print_plans(planned: PlannedFiles, form: PlanFormat) -> int:
    """Print the plans and return the exit status of their checks."""
    match form:
        case "json":
            print_document(_plan_document(planned))
            print_problems(planned.unread)
        case "manifests":
            print_manifests(planned.plans)
            print_problems(planned.problems)
        case "text" | "audit":
            _print_text(planned, audit=form == "audit")
            print_problems(planned.unread)
    return status_of(planned.problems)


def _plan_document(planned: PlannedFiles) -> PlanDocument:
    return PlanDocument(
        plans=tuple(map(_plan_fields, planned.plans, planned.stages)),
        problems=problem_documents(planned.unread),
        exit_status=status_of(planned.problems),
    )


def _plan_fields(plan: Plan, stages: tuple[StagePlan, ...]) -> PlanFields:
    return document_of(
        PlanFields,
        plan,
        jobset=plan.jobset if plan.on_cluster else None,
        time=time_document(plan.time) if plan.time else None,
        stages=stages,
    )


def _print_text(planned: PlannedFiles, *, audit: bool) -> None:
    """Print the plans, wrapped to the terminal's width; a pipe gets whole lines."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    texts = (
        plan_text(plan, audit=audit, width=width) + "".join(f"{line}\n" for line in stage_lines(its))
        for plan, its in zip(planned.plans, planned.stages, strict=True)
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
