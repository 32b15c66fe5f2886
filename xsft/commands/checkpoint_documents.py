"""The fields of `xsft checkpoint convert --json` and `export --json`, on this machine and on clusters. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import to_builtins

from xsft.commands.failure import problem_documents
from xsft.conversion.plan import ConversionPlan
from xsft.export.plan import ExportPlan
from xsft.export.verification import Verification
from xsft.problems import Problem

CONVERT = "checkpoint-convert"


EXPORT = "checkpoint-export"


def conversion_fields(
    made: ConversionPlan, *, action: str, why: str, checkpoint: str | None, problems: Iterable[Problem]
) -> dict[str, Any]:
    """Return the document's fields. `action`: as `ConversionDocument` explains it."""
    return {
        "run_name": made.run_name,
        "training": made.training,
        "action": action,
        "why": why,
        "digest": made.digest,
        "checkpoint": checkpoint,
        "not_whole": list(made.broken),
        "source": to_builtins(made.inputs.source),
        "model": made.inputs.model,
        "argv": list(made.argv),
        "estimate": to_builtins(made.estimate),
        "record": None,
        "log": None,
        "problems": problem_documents(tuple(problems)),
    }


def export_fields(
    plan: ExportPlan,
    *,
    action: str,
    why: str,
    folder: str | None,
    verification: Verification | None = None,
    problems: Iterable[Problem] = (),
) -> dict[str, Any]:
    """Return the document's fields. `action`: as `ExportDocument` explains it."""
    return {
        "run_name": plan.run_name,
        "training": plan.training,
        "action": action,
        "why": why,
        "digest": plan.digest,
        "step": plan.inputs.step,
        "form": plan.inputs.form,
        "dtype": plan.inputs.dtype,
        "folder": folder,
        "not_whole": list(plan.broken),
        "argv": list(plan.argv),
        "verification": to_builtins(verification),
        "record": None,
        "log": None,
        "job": None,
        "problems": problem_documents(tuple(problems)),
    }
