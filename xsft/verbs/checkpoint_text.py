"""The summary of a conversion or an export on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.stages.convert import ConversionResult
from xsft.stages.export import ExportResult


def conversion_lines(result: ConversionResult) -> Iterator[str]:
    plan = result.plan
    found = "found" if result.action == "finished" else "converted"
    yield f"{plan.inputs.source.repo} for {plan.inputs.model}: {found}; {result.why}"
    yield f"checkpoint  {result.checkpoint}"
    for broken in plan.broken:
        yield f"incomplete  {broken} (kept; delete it if you like)"
    if result.record:
        yield f"record      {result.record}"


def interrupted_lines(result: ConversionResult) -> Iterator[str]:
    yield f"interrupted: {result.plan.run_name} is stopped"
    yield f"kept: {result.plan.directory}; the same command converts again, unless the result is complete"


def export_lines(result: ExportResult) -> Iterator[str]:
    plan = result.plan
    found = "found" if result.action == "finished" else "exported"
    yield f"{plan.training}, step {plan.inputs.step}, {plan.inputs.form}: {found}"
    yield f"folder    {result.folder}"
    yield f"verified  {result.why}"
    for broken in plan.broken:
        yield f"incomplete {broken} (kept; delete it if you like)"
    if result.record:
        yield f"record    {result.record}"
