"""What `xsft image` built, pushed or found, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xsft.base.amounts import size_text

ImageReport = Mapping[str, Any]
DID = {
    "held": "here already",
    "in-registry": "already in the registry",
    "pulled": "pulled",
    "built": "built",
    "not-needed": "not needed",
}


def image_text(report: ImageReport) -> str:
    return "\n".join(_report_lines(report)) + "\n"


def _report_lines(report: ImageReport) -> Iterator[str]:
    match report["action"]:
        case "build":
            yield from (_did(report, name) for name in ("deps", "code"))
        case "push":
            yield from (_did(report, name) for name in ("deps", "code"))
            yield from _pushed(report)
        case "list":
            yield from _image_table(report)
        case _:
            yield from _image_lines(report)


def _did(report: ImageReport, name: str) -> str:
    part = report[name]
    seconds = f", {part['seconds']:.1f} s" if part["seconds"] else ""
    return f"{part['tag']}  {DID[part['outcome']]}{seconds}"


def _pushed(report: ImageReport) -> Iterator[str]:
    yield f"{report['ref']}  {'pushed' if report['pushed'] else 'nothing to push'}"
    yield f"lock: {report['lock']['file']}"
    yield f"in a workload: image: {{name: {report['image']}}}"


def _image_lines(report: ImageReport) -> Iterator[str]:
    yield f"image       {report['image']}"
    yield f"repository  {report['repository'] or 'unknown: no --registry or --place given'}"
    yield f"MaxText     {report['maxtext']} ({report['maxtext_source']})"
    yield f"base        {report['base'] or 'none'}"
    for name in ("deps", "code"):
        part = report[name]
        yield f"{name}        {part['tag']}: {part['files']} files, {size_text(part['bytes'])}"
        yield from (f"            {size_text(f['size']):>10}  {f['path']}" for f in part["largest"])
        yield from (f"            {key}={value}" for key, value in part["args"].items())
    yield _lock_line(report)


def _lock_line(report: ImageReport) -> str:
    lock = report["lock"]
    if lock is None:
        return f"lock        no image for {report['repository'] or 'no registry'}: make image push"
    now = (
        "matches the files here"
        if lock["current"]
        else f"differs from the files here ({lock['code']}): make image push"
    )
    return f"lock        {lock['digest']}, pushed {lock['pushed_at']}: {now}"


def _image_table(report: ImageReport) -> Iterator[str]:
    rows = [("WHERE", "TAG", "DIGEST", "SIZE", "WHEN", "")]
    rows += [_cells(one) for one in report["images"]]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row[:5], widths, strict=True))
        yield "  ".join((*cells, row[5])).rstrip()


def _cells(one: ImageReport) -> tuple[str, str, str, str, str, str]:
    marks = ", ".join(word for word, holds in (("current", one["current"]), ("locked", one["locked"])) if holds)
    return (
        one["where"],
        one["tag"],
        (one["digest"] or "-")[:19],
        size_text(one["size"]),
        (one["at"] or "-")[:19],
        marks,
    )
