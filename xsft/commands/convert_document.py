"""The fields of `xsft checkpoint convert --json`, common to this machine and clusters. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import to_builtins

from xsft.commands.failure import problem_documents
from xsft.conversion.plan import ConversionPlan
from xsft.problems import Problem

KIND = "checkpoint-convert"


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
