"""What a verb computes and prints: documents, of which JSON is one form and text another."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable
from math import isfinite
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct, convert, field, to_builtins
from msgspec.structs import asdict, replace

from xsft.base.errors import UsageError
from xsft.base.problems import Problem, errors_in


class Document(Struct, frozen=True, kw_only=True):
    """Base of all documents and their parts. A part that the code has as a value is that value's own type."""


class ProblemFields(Document, frozen=True, kw_only=True):
    """One problem that was found."""

    id: str
    """Stable id; docs/checks.md explains it."""
    severity: Literal["error", "warning", "note"]
    """An error blocks the command; a warning can be accepted under `checks:`; a note is information."""
    message: str
    """What was given and what is allowed."""
    fix: str
    """The next step; empty if there is none."""
    where: str
    """Key path in the workload, e.g. `train.steps`; empty if the problem concerns the whole file."""
    file: str
    """Name of the file as given; empty for a problem of the command itself."""


class VerbDocument(Document, frozen=True, kw_only=True):
    """Base of what verbs print under --json. Its tag is the name of its schema."""

    problems: tuple[ProblemFields, ...] = ()
    exit_status: int = 0
    """Exit status of the command; docs/reference/exit-status.md."""


class ErrorDocument(VerbDocument, frozen=True, kw_only=True):
    """Document that any verb prints under --json if it fails."""

    schema_: Annotated[str, Meta(pattern=r"^xsft\.[a-z]+/1$")] = field(name="schema")
    """Schema name of the verb's own document."""


AnyDocument = TypeVar("AnyDocument", bound=Struct)


def document_of(kind: type[AnyDocument], source: Struct, /, **fields: Any) -> AnyDocument:
    """Return the document with these fields; the others are the fields of the same name of `source`."""
    return convert({**asdict(source), **fields}, kind, from_attributes=True)


def finite(record: AnyDocument) -> AnyDocument:
    """Return the record with None for each of its numbers that is not finite: JSON has neither NaN nor infinity."""
    numbers = {name: part for name, part in asdict(record).items() if isinstance(part, float)}
    return replace(record, **{name: None for name, number in numbers.items() if not isfinite(number)})


def problem_documents(problems: Iterable[Problem]) -> tuple[ProblemFields, ...]:
    return tuple(convert(problem, ProblemFields, from_attributes=True) for problem in problems)


def status_of(problems: Iterable[Problem]) -> int:
    """Return 0, or the exit status of a failed check."""
    return UsageError.exit_status if errors_in(problems) else 0


def print_document(document: Document) -> None:
    """Print exactly one document on stdout, on one line, before the process ends or waits."""
    text = json.dumps(to_builtins(document), ensure_ascii=False)
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines at once: the next one may take minutes, and the log of a nightly job is read while it waits."""
    sys.stdout.writelines([f"{line}\n" for line in lines])
    sys.stdout.flush()


def wrap_line(line: str, *, width: int | None, indent: int = 4) -> list[str]:
    """Return the line wrapped for reading, its continuations indented; commands in it stay whole. None: not a
    terminal, which gets whole lines."""
    if width is None or len(line) <= width:
        return [line]
    return textwrap.wrap(
        line.strip(),
        width=max(width, 40),
        initial_indent=line[: len(line) - len(line.lstrip())],
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
