"""`xsft checkpoint inspect PATH`: describe a checkpoint by its small files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from msgspec.structs import asdict

from xsft.base.amounts import size_text
from xsft.base.errors import Unreachable, UsageError
from xsft.records.record_files import record_store
from xsft.verbs.plan_document import print_json, print_lines
from xsft.verbs.progress import show_spinner
from xsft.weights.checkpoint_report import CheckpointReport, Writer
from xsft.weights.inspect import inspect_checkpoint
from xsft.weights.newest import checkpoint_path


def run(args: argparse.Namespace) -> int:
    store = record_store()
    with show_spinner("checkpoint", "reading the checkpoint's small files"):
        found = inspect_checkpoint(checkpoint_path(args.what, store=store), store=store)
    if args.json:
        _print_report(found)
    else:
        print_lines(checkpoint_lines(found))
    return exit_status(found)


def exit_status(found: CheckpointReport) -> int:
    match found.status:
        case "complete":
            return 0
        case "torn" | "missing" | "not-a-checkpoint":
            return UsageError.exit_status
        case "unreadable":
            return Unreachable.exit_status


def checkpoint_lines(found: CheckpointReport) -> Iterator[str]:
    """Yield a line of label and value for each fact; unknown ones say so."""
    yield f"checkpoint  {found.path}"
    yield f"status      {found.status}{f': {found.detail}' if found.detail else ''}"
    if found.status not in ("complete", "torn"):
        return
    step = f", step {found.step}" if found.step is not None else ""
    yield f"layout      {found.layout or 'unknown'}{step}"
    yield f"format      {_format(found)}"
    yield f"layers      {_layers(found)}"
    yield f"dtypes      {_dtypes(found)}"
    yield f"parameters  {_count_or_unknown(found.parameters)} in {found.arrays} arrays"
    yield f"models      {', '.join(found.models) or 'no model of the catalogue has these names and shapes'}"
    yield f"modes       {', '.join(found.modes) or 'none'}"
    yield f"size        {_bytes(found.bytes)}; {_bytes(found.bytes_read)} read"
    if found.written_by:
        yield f"written by  {_writer(found.written_by)}"


def _writer(by: Writer) -> str:
    what = f"run {by.run_name}" if by.source is None else f"conversion {by.run_name} of {by.source}"
    return f"{what}, digest {by.spec_digest[:12]}"


def _format(found: CheckpointReport) -> str:
    zarr = {True: "zarr v3", False: "zarr v2", None: "zarr of an unknown version"}[found.use_zarr3]
    return f"{zarr}, {'with' if found.use_ocdbt else 'without'} OCDBT"


def _layers(found: CheckpointReport) -> str:
    match found.scan_layers:
        case None:
            return "unknown"
        case False:
            return "scan_layers: false"
        case True:
            axis = "unknown" if found.param_scan_axis is None else found.param_scan_axis
            return f"scan_layers: true, param_scan_axis: {axis}"


def _dtypes(found: CheckpointReport) -> str:
    if found.dtypes is None:
        return f"unknown: {found.dtypes_detail}"
    return f"{', '.join(found.dtypes)}{f' ({found.dtypes_detail})' if found.dtypes_detail else ''}"


def _count_or_unknown(parameters: int | None) -> str:
    return "unknown" if parameters is None else f"{parameters:,}"


def _bytes(size: int | None) -> str:
    return "too many files to add up" if size is None else size_text(size)


def _print_report(found: CheckpointReport) -> None:
    writer = asdict(found.written_by) if found.written_by else None
    print_json("checkpoint", {"action": "inspect", **asdict(found), "written_by": writer})
