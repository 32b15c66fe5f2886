"""`xsft cancel RUN`: delete exactly that run's JobSet, or its server's Deployment, by its UID, after saying what that
loses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import Literal

from msgspec.structs import replace

from xsft.base.errors import Refused, UserRefusal
from xsft.base.reporting import AskUser
from xsft.base.state_names import State
from xsft.cluster.sources import PlaceQuery
from xsft.machine.signals import when_interrupted
from xsft.runs.cancel import CancelResult, cancel_run
from xsft.runs.read_all import RunAccess, runs_for
from xsft.verbs.document import VerbDocument, asker, problem_documents, report_document, request_of, show_spinner


class CancelDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.cancel/1"):
    """`xsft cancel RUN --json`."""

    run_name: str
    action: Literal["cancelled", "nothing"]
    why: str
    """Why there was nothing to cancel; empty if it was cancelled."""
    jobset: str | None
    """JobSet that was deleted; null for a run on this machine."""
    namespace: str | None
    cluster: str | None
    uid: str | None
    ours: bool | None = None
    """False if another tool submitted the JobSet (it has no xsft labels); null without a JobSet."""
    state: State
    """State that was read before the run was cancelled."""
    step: int | None
    saved_step: int | None
    """Latest complete checkpoint, by the output and the log; null if there is none, or it is unknown."""
    lost_steps: int | None
    """Steps since then; null if unknown, or if nothing was cancelled."""
    freed_chips: int | None
    kind: Literal["JobSet", "Deployment"] | None = None
    """Kind of the object that was deleted; null for a run on this machine, and if nothing was cancelled."""
    checkpoints: str | None = None
    """Folder of the checkpoints of a cancelled run, which are kept; null for a server, and if it is unknown."""


def run(args: argparse.Namespace) -> int:
    runs = runs_for(request_of(args, PlaceQuery), names=(args.run,), everything=True)
    return cancel(args.run, runs=runs, confirm=asker(yes=False), yes=args.yes, json=args.json)


def cancel(name: str, *, runs: RunAccess, confirm: AskUser | None, yes: bool, json: bool) -> int:
    """Cancel the run and return 0, also if there is nothing to cancel. `confirm`: None without a terminal.

    Raises Refused if the user declines or cannot be asked, UsageError for a name that no run has, Unreachable if its
    cluster does not answer.
    """
    agree = partial(_ask_to_cancel, confirm=confirm, yes=yes)
    done = cancel_run(name, runs=runs, agree=agree, waiting=partial(show_spinner, "cancel"))
    return report_document(_cancel_document(done), _cancelled_lines, as_json=json)


def _ask_to_cancel(about: tuple[str, ...], *, confirm: AskUser | None, yes: bool) -> None:
    sys.stderr.writelines([f"{line}\n" for line in about])
    if yes:
        return
    if confirm is None:
        raise Refused("Nothing was cancelled: cannot prompt without a terminal.", fix="Pass --yes to cancel it.")
    with when_interrupted("Nothing was cancelled."):
        meant = confirm("Cancel it? [y/N] ")
    if not meant:
        raise UserRefusal("Nothing was cancelled.")


def _cancelled_lines(document: CancelDocument) -> Iterator[str]:
    name = document.run_name
    if document.action == "nothing":
        yield f"{name}: nothing to cancel: {document.why}"
        return
    if document.kind is None:
        yield f"{name}: interrupted; its xsft stops the trainer and keeps the record"
        return
    freed = f"; {document.freed_chips} chips are freed" if document.freed_chips else ""
    yield f"{name}: cancelled: {document.kind} {document.jobset}, uid {document.uid}, is deleted{freed}"
    if document.checkpoints:
        saved = document.saved_step
        resumes = "" if saved is None else f"; submitting again resumes from step {saved}"
        yield f"checkpoints  {document.checkpoints} (kept{resumes})"


def _cancel_document(done: CancelResult) -> CancelDocument:
    row, jobset, loss = done.row, done.jobset, done.loss
    checkpoints = None
    if row.output and jobset and jobset.ours and not jobset.serves:
        checkpoints = f"{row.output.rstrip('/')}/{row.run_name}/checkpoints"
    document = CancelDocument(
        run_name=row.run_name,
        action=done.action,
        why=done.why,
        jobset=row.jobset,
        namespace=row.namespace,
        cluster=row.cluster,
        uid=row.uid,
        state=row.state,
        step=row.step,
        saved_step=row.progress.saved_step,
        lost_steps=None,
        freed_chips=None,
        checkpoints=checkpoints,
        problems=problem_documents(done.problems),
    )
    if jobset:
        document = replace(document, jobset=jobset.name, uid=jobset.uid, ours=jobset.ours, kind=jobset.kind)
    if loss:
        document = replace(document, saved_step=loss.saved_step, lost_steps=loss.steps, freed_chips=loss.chips)
    return document
