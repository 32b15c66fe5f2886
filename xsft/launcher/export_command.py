"""The command of an export's container, which exports, verifies and records its end. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from xsft.base.result_record import to_document
from xsft.launcher.pod_end import noted_end
from xsft.spec.resolve import Run
from xsft.weights.export_plan import ExportPlan
from xsft.weights.export_record import FILE, ExportRecord
from xsft.weights.export_verification import Verification
from xsft.weights.exporter import COMPARER, MODEL_FILES, comparison_job, model_files_job
from xsft.workers.sent import BOOT, sent_argv

PROGRAM = "xsft.workers.export_container"


def exported_argv(plan: ExportPlan, *, run: Run) -> tuple[str, ...]:
    """Return the command that exports, verifies, copies and records the end. `run`: of this attempt."""
    notes = {
        **_program_notes(plan),
        **noted_end(run),
        "model_files": {"module": MODEL_FILES, "notes": model_files_job(plan, folder=plan.folder)},
        "comparison": {"module": COMPARER, "notes": comparison_job(plan, folders=(plan.folder,), seed=0)},
    }
    return sent_argv(PROGRAM, notes, plan.argv, besides=(BOOT, COMPARER, MODEL_FILES))


def uploaded_argv(plan: ExportPlan, verification: Verification | None) -> tuple[str, ...]:
    """Return the command that copies the verified files of `plan.folder` to their destination, on this machine."""
    return sent_argv(PROGRAM, {**_program_notes(plan), "verification": to_builtins(verification)}, ())


def _program_notes(plan: ExportPlan) -> dict[str, Any]:
    """Return the arguments of the program, wherever it runs."""
    record = ExportRecord(
        digest=plan.digest, run_name=plan.run_name, argv=plan.argv, inputs=dict(to_builtins(plan.inputs))
    )
    return {
        "record": to_document(record),
        "record_path": f"{plan.directory}/{FILE}",
        "directory": plan.directory,
        "folder": plan.folder,
        "hub": plan.inputs.hub,
        "title": f"xsft export {plan.digest}",
    }
