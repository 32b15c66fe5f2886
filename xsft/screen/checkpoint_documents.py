"""The fields of `xsft checkpoint convert --json` and `export --json`, on this machine and on clusters. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import to_builtins

from xsft.conversion.plan import ConversionPlan
from xsft.export.plan import ExportPlan
from xsft.export.verification import Verification
from xsft.problems import Problem
from xsft.screen.failure import problem_documents

CONVERT = "checkpoint-convert"
EXPORT = "checkpoint-export"


def conversion_fields(
    made: ConversionPlan, *, action: str, why: str, checkpoint: str | None, problems: Iterable[Problem]
) -> dict[str, Any]:
    """Return the document's fields. `action`: as `ConversionDocument` explains it."""
    return {
        **_fields(made, action=action, why=why, problems=problems),
        "checkpoint": checkpoint,
        "source": to_builtins(made.inputs.source),
        "model": made.inputs.model,
        "estimate": to_builtins(made.estimate),
    }


def export_fields(
    made: ExportPlan,
    *,
    action: str,
    why: str,
    folder: str | None,
    verification: Verification | None = None,
    problems: Iterable[Problem] = (),
) -> dict[str, Any]:
    """Return the document's fields. `action`: as `ConversionDocument` explains it."""
    return {
        **_fields(made, action=action, why=why, problems=problems),
        "step": made.inputs.step,
        "form": made.inputs.form,
        "dtype": made.inputs.dtype,
        "folder": folder,
        "verification": to_builtins(verification),
    }


def _fields(made: ConversionPlan | ExportPlan, *, action: str, why: str, problems: Iterable[Problem]) -> dict[str, Any]:
    return {
        "run_name": made.run_name,
        "training": made.training,
        "action": action,
        "why": why,
        "digest": made.digest,
        "not_whole": list(made.broken),
        "argv": list(made.argv),
        "record": None,
        "log": None,
        "job": None,
        "problems": problem_documents(tuple(problems)),
    }
