"""The commands of containers that record the end of their own run: conversions and exports. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from xsft.base.result_record import to_document
from xsft.records import attempt_stem
from xsft.records.document import facts_to_json
from xsft.records.record import AttemptFacts
from xsft.spec.conversion_inputs import RECORD_FILE, ConversionRecord
from xsft.spec.resolve import Run
from xsft.weights.export_plan import ExportPlan
from xsft.weights.export_record import FILE, ExportRecord
from xsft.weights.exporter import COMPARER, MODEL_FILES, comparison_job, model_files_job
from xsft.workers.delivery import pod_argv


def noted_end(run: Run) -> dict[str, Any]:
    """Return the document of the end, without outcome and time, and its path, without `.<outcome>.json`. `run`: of this
    attempt."""
    end = AttemptFacts(outcome="completed", at="", submitter="container")
    return {
        "attempt": json.loads(facts_to_json(end, run_name=run.run_name, number=run.attempt)),
        "attempt_stem": attempt_stem(str(run.output), run.run_name, run.attempt),
    }


CONVERSION_PROGRAM = "xsft.workers.conversion_container"


def recorded_argv(
    argv: tuple[str, ...],
    *,
    record: ConversionRecord,
    end: Mapping[str, Any],
    checkpoint: str,
    comparison: Mapping[str, Any] | None = None,
    carried: str | None = None,
) -> tuple[str, ...]:
    """Return the command that runs `argv` and records its end, even if no xsft waits for it: a program of the
    image's Python (`container`).

    Arguments:
        record: Written beside the result before the converter starts, and again at its end.
        end: `attempt`, the document of the end of the run's attempt without outcome and time, and `attempt_stem`, its
            path without `.<outcome>.json`.
        checkpoint: Path of the result, `<try>/0/items`.
        comparison: Question to the program that compares it with its source, `{"module", "notes"}`; None: the image's
            MaxText has no tables for it.
        carried: As in `pod_argv`.
    """
    path = f"{checkpoint.removesuffix('/0/items')}/{RECORD_FILE}"
    notes = {"record": to_document(record), **end, "checkpoint": checkpoint, "record_path": path}
    if comparison is not None:
        notes["comparison"] = comparison
    return pod_argv(CONVERSION_PROGRAM, notes, argv, carried=carried)


EXPORT_PROGRAM = "xsft.workers.export_container"


def exported_argv(plan: ExportPlan, *, run: Run) -> tuple[str, ...]:
    """Return the command that exports, verifies, copies and records the end. `run`: of this attempt."""
    notes = export_notes(plan, argv=plan.argv) | noted_end(run)
    return pod_argv(EXPORT_PROGRAM, notes, plan.argv, carried=run.evaluation_program)


def export_notes(plan: ExportPlan, *, argv: tuple[str, ...], logits: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the program does, wherever it runs. `argv`: the exporter's command, with the machine's interpreter;
    `logits`: how they are compared, or why not."""
    inputs = dict(to_builtins(plan.inputs))
    record = ExportRecord(digest=plan.digest, run_name=plan.run_name, argv=argv, inputs=inputs)
    return {
        "record": to_document(record),
        "record_path": f"{plan.directory}/{FILE}",
        "directory": plan.directory,
        "folder": plan.folder,
        "hub": plan.inputs.hub,
        "title": f"xsft export {plan.digest}",
        "model_files": {"module": MODEL_FILES, "notes": model_files_job(plan, folder=plan.folder)},
        "comparison": {"module": COMPARER, "notes": comparison_job(plan, folders=(plan.folder,), seed=0)},
        **(logits or {}),
    }
