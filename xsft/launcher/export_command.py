"""The command of an export's container, which exports, verifies and records its end; on this machine the same program
runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from xsft.base.result_record import to_document
from xsft.launcher.pod_end import noted_end
from xsft.spec.resolve import Run
from xsft.weights.export_plan import ExportPlan
from xsft.weights.export_record import FILE, ExportRecord
from xsft.weights.exporter import COMPARER, MODEL_FILES, comparison_job, model_files_job
from xsft.workers.delivery import pod_argv

PROGRAM = "xsft.workers.export_container"


def exported_argv(plan: ExportPlan, *, run: Run) -> tuple[str, ...]:
    """Return the command that exports, verifies, copies and records the end. `run`: of this attempt."""
    notes = export_notes(plan, argv=plan.argv) | noted_end(run)
    return pod_argv(PROGRAM, notes, plan.argv, carried=run.evaluation_program)


def export_notes(plan: ExportPlan, *, argv: tuple[str, ...], logits: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the program does, wherever it runs. `argv`: the exporter's command, with the machine's interpreter;
    `logits`: how they are compared, or why not."""
    record = ExportRecord(digest=plan.digest, run_name=plan.run_name, argv=argv, inputs=dict(to_builtins(plan.inputs)))
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
