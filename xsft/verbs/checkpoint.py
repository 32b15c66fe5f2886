"""`xsft checkpoint inspect PATH`: describe a checkpoint by its small files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Literal

from xsft.base.amounts import size_text
from xsft.base.errors import Unreachable, UsageError
from xsft.machine.deadline import LOOKS_S, Deadline
from xsft.records.record_files import record_store
from xsft.verbs.document import PrintedDocument, ProblemFields, document_of, report_document, show_progress
from xsft.weights.checkpoint_report import CheckpointReport, Writer
from xsft.weights.inspect import checkpoint_path, inspect_checkpoint


class CheckpointDocument(
    PrintedDocument, CheckpointReport, frozen=True, kw_only=True, tag_field="schema", tag="xsft.checkpoint/1"
):
    """`xsft checkpoint inspect PATH --json`."""

    action: Literal["inspect"] = "inspect"
    problems: tuple[ProblemFields, ...] = ()
    exit_status: int = 0


def run(args: argparse.Namespace) -> int:
    store = record_store()
    with show_progress("checkpoint") as progress:
        report = Deadline.after(LOOKS_S).look(
            args.what, lambda: inspect_checkpoint(checkpoint_path(args.what, store=store), store=store), say=progress
        )
    document = document_of(CheckpointDocument, report, exit_status=_exit_status(report))
    return report_document(document, checkpoint_lines, as_json=args.json)


def _exit_status(report: CheckpointReport) -> int:
    match report.status:
        case "complete":
            return 0
        case "torn" | "missing" | "not-a-checkpoint":
            return UsageError.exit_status
        case "unreadable":
            return Unreachable.exit_status


def checkpoint_lines(report: CheckpointReport) -> Iterator[str]:
    """Yield a line of label and value for each fact; unknown ones say so."""
    yield f"checkpoint  {report.path}"
    yield f"status      {report.status}{f': {report.detail}' if report.detail else ''}"
    if report.status not in ("complete", "torn"):
        return
    step = f", step {report.step}" if report.step is not None else ""
    yield f"layout      {report.layout or 'unknown'}{step}"
    if report.layout == "hugging_face":
        yield from _export_lines(report)
        return
    zarr = {True: "zarr v3", False: "zarr v2", None: "zarr of an unknown version"}[report.use_zarr3]
    yield f"format      {zarr}, {'with' if report.use_ocdbt else 'without'} OCDBT"
    yield f"layers      {_layers(report)}"
    yield f"dtypes      {_dtypes(report)}"
    parameters = "unknown" if report.parameters is None else f"{report.parameters:,}"
    yield f"parameters  {parameters} in {report.arrays} arrays"
    yield f"models      {', '.join(report.models) or 'no model of the catalogue has these names and shapes'}"
    yield f"modes       {', '.join(report.modes) or 'none'}"
    yield f"size        {_bytes(report.bytes)}; {_bytes(report.bytes_read)} read"
    if report.written_by:
        yield f"written by  {_writer(report.written_by)}"


def _export_lines(report: CheckpointReport) -> Iterator[str]:
    """Yield the facts that an export has; engines, not the trainer's modes, read it."""
    yield f"dtypes      {_dtypes(report)}"
    yield f"models      {', '.join(report.models)}"
    yield f"size        {_bytes(report.bytes)}; {_bytes(report.bytes_read)} read"
    if report.written_by:
        yield f"written by  export {report.written_by.run_name} of {report.written_by.source}"


def _writer(by: Writer) -> str:
    what = f"run {by.run_name}"
    if by.source is not None:
        what = f"conversion {by.run_name} of {by.source}"
    return f"{what}, digest {by.spec_digest[:12]}"


def _layers(report: CheckpointReport) -> str:
    match report.scan_layers:
        case None:
            return "unknown"
        case False:
            return "scan_layers: false"
        case True:
            axis = "unknown" if report.param_scan_axis is None else report.param_scan_axis
            return f"scan_layers: true, param_scan_axis: {axis}"


def _dtypes(report: CheckpointReport) -> str:
    if report.dtypes is None:
        return f"unknown: {report.dtypes_detail}"
    dtypes = ", ".join(report.dtypes)
    return f"{dtypes} ({report.dtypes_detail})" if report.dtypes_detail else dtypes


def _bytes(size: int | None) -> str:
    return "too many files to add up" if size is None else size_text(size)
