"""What a verb computes and prints: documents, of which JSON is one form and text another."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any, Literal, TextIO, TypeVar

from msgspec import Meta, Struct, convert, field, to_builtins
from msgspec.structs import asdict, replace

from xsft.base.amounts import counted_text
from xsft.base.errors import UsageError, XsftError
from xsft.base.problems import Problem, Severity, errors_in
from xsft.base.reporting import AskUser, PlainView, ProgressView
from xsft.base.terminal_text import safe_text
from xsft.machine.parallel import if_slow
from xsft.machine.streams import has_terminal, shows_colours, with_controls
from xsft.spec.keypath import printable

BOLD, RED, GREEN, CYAN = "1", "31", "32", "36"
"""Styles of a terminal; source: ECMA-48 §8.3.117, SGR."""

SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
"""From the least serious to the most serious."""


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


class PrintedDocument(Document, frozen=True, kw_only=True):
    """Base of what verbs print under --json: a VerbDocument, or a value's own type with these two fields. Its tag is
    the name of its schema."""

    @property
    def problems(self) -> tuple[ProblemFields, ...]:
        return ()

    @property
    def exit_status(self) -> int:
        return 0


class VerbDocument(PrintedDocument, frozen=True, kw_only=True):
    """Base of the documents that verbs compute."""

    problems: tuple[ProblemFields, ...] = ()
    exit_status: int = 0
    """Exit status of the command; docs/reference/exit-status.md."""


class ErrorDocument(VerbDocument, frozen=True, kw_only=True):
    """Document that any verb prints under --json if it fails."""

    schema_: Annotated[str, Meta(pattern=r"^xsft\.[a-z]+/1$")] = field(name="schema")
    """Schema name of the verb's own document."""


Request = TypeVar("Request", bound=Struct)
AnyDocument = TypeVar("AnyDocument", bound=Struct)
AnyPrinted = TypeVar("AnyPrinted", bound=PrintedDocument)


def request_of(args: argparse.Namespace, kind: type[Request], /, **more: Any) -> Request:
    """Return the request: each field is the argument of its name, or one of `more`."""
    arguments = {**vars(args), **more}
    return convert({name: arguments[name] for name in kind.__struct_fields__ if name in arguments}, kind)


def refuse_options(options: Mapping[str, object], why: str) -> None:
    """Raise UsageError for the first of these options that was given; `why` follows its name."""
    for option, choice in options.items():
        if choice:
            raise UsageError(f"{option} {why}.", fix="Leave it out.")


def document_of(kind: type[AnyDocument], source: Struct, /, **fields: Any) -> AnyDocument:
    """Return the document with these fields; the others are the fields of the same name of `source`."""
    parts = {**asdict(source), **fields}
    return convert({name: parts[name] for name in kind.__struct_fields__ if name in parts}, kind, from_attributes=True)


def problem_documents(problems: Iterable[Problem]) -> tuple[ProblemFields, ...]:
    return tuple(convert(problem, ProblemFields, from_attributes=True) for problem in problems)


def status_of(problems: Iterable[Problem]) -> int:
    """Return 0, or the exit status of a failed check."""
    return UsageError.exit_status if errors_in(problems) else 0


def report_document(
    document: AnyPrinted,
    text: Callable[[AnyPrinted], Iterable[str] | None] = lambda _document: None,
    *,
    as_json: bool,
    failed: XsftError | None = None,
    shown: bool = False,
) -> int:
    """Print the document as JSON, or as text and then its problems, nearest to the prompt; return its exit status.

    `text`: returns the lines, or draws a table and returns None. A screen may show what the document lacks, for example
    a plan's model and data, which the workload has: it is then a function of the value from which the document was
    made, never of another document.
    `failed`: the error that ended the work; it is raised with the document, which gets its problems and exit status.
    `shown`: the problems were printed already.
    """
    if failed:
        problems = (*document.problems, *problem_documents(failed.problems))
        raise failed.with_document(replace(document, problems=problems, exit_status=failed.exit_status))
    if as_json:
        print_document(document)
        return document.exit_status
    print_lines(text(document) or ())
    print_problems(() if shown else document.problems)
    return document.exit_status


def print_document(document: Struct) -> None:
    """Print exactly one document on stdout, on one line, before the process ends or waits."""
    sys.stdout.write(f"{document_text(document)}\n")
    sys.stdout.flush()


def document_text(document: Struct) -> str:
    """Return the document as JSON, on one line. A number that is not finite becomes null: JSON has neither NaN nor
    infinity."""
    finite = json.loads(json.dumps(to_builtins(document)), parse_constant=lambda _name: None)
    return json.dumps(finite, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines at once: the next one may take minutes, and the log of a nightly job is read while it waits."""
    sys.stdout.writelines([f"{line}\n" for line in lines])
    sys.stdout.flush()


def print_styled(lines: Iterable[str], styles: Mapping[str, str], *, stream: TextIO) -> None:
    """Print the lines; where the stream shows colours, what matches an expression of `styles` is in its style."""
    if not shows_colours(stream):
        stream.writelines(f"{line}\n" for line in lines)
        return
    terminal = with_controls(stream)
    for line in lines:
        text = safe_text(line)
        for expression, style in styles.items():
            text = re.sub(expression, f"\x1b[{style}m\\g<0>\x1b[0m", text)
        terminal.write(f"{text}\n")


def print_problems(problems: Iterable[Problem | ProblemFields], *, stream: TextIO | None = None) -> None:
    """Print the problems, the most serious last, nearest to the prompt; on a terminal with colour, wrapped."""
    ordered = sorted(problems, key=lambda problem: SEVERITIES.index(problem.severity))
    messages = [problem_lines(problem) for problem in ordered]
    stream = stream or sys.stderr
    if messages and stream.isatty():
        from xsft.verbs.console import draw_messages

        draw_messages(messages, stream)
        return
    stream.writelines([f"{line}\n" for lines in messages for line in lines])


def counts_text(problems: Iterable[Problem | ProblemFields]) -> str:
    """Return e.g. `1 error, 2 warnings`, without severities that no problem has."""
    severities = [problem.severity for problem in problems]
    return ", ".join(counted_text(severities.count(word), word) for word in reversed(SEVERITIES) if word in severities)


def problem_lines(p: Problem | ProblemFields) -> tuple[str, ...]:
    """Return the lines `file: where: message [id]` and the next step, or what a note leaves unknown."""
    file = printable(p.file)
    place = ": ".join(part for part in ("" if p.message.startswith(file) else file, p.where) if part)
    head = f"{p.severity}: {place + ': ' if place else ''}{p.message} [{p.id}]"
    after = p.fix if p.fix.startswith("Unknown: ") else f"fix: {p.fix}"
    return (head, f"  {after}") if p.fix else (head,)


@contextmanager
def show_progress(title: str) -> Iterator[ProgressView]:
    """Yield the display of progress lines; rich is imported only once there is a line to show."""
    if not sys.stderr.isatty():
        yield PlainView(show=lambda line: print_to_stderr(f"xsft: {line}"))
        return
    with ExitStack() as stack:
        yield _Spinner(title, stack)


class _Spinner:
    def __init__(self, title: str, stack: ExitStack) -> None:
        self._title = title
        self._stack = stack
        self._update: Callable[[str], None] | None = None

    def __call__(self, line: str, /) -> None:
        if self._update is None:
            from xsft.verbs.console import spinner

            display = self._stack.enter_context(spinner(sys.stderr))
            task = display.add_task(self._title, total=None)
            self._update = lambda text: display.update(task, description=text, refresh=True)
        self._update(f"{self._title}: {line}")

    def pause(self) -> None:
        self._stack.close()
        self._update = None


@contextmanager
def show_spinner(title: str, line: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows another line, for short requests: a spinner on a terminal; elsewhere the latest line
    is printed once, if the request is slow.
    """
    if not sys.stderr.isatty():
        lines = [line]
        with if_slow(lambda: print_to_stderr(f"xsft: {lines[-1]}")):
            yield lines.append
        return
    with show_progress(title) as say:
        say(line)
        yield say


def print_to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def confirm(question: str) -> bool:
    """Ask the question and return whether the answer is yes; an empty answer is no."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def asker(*, yes: bool) -> AskUser | None:
    """Return what asks the user; None if the answer is given already, or without a terminal."""
    return confirm if has_terminal() and not yes else None


def choose(question: str, options: Sequence[str], default: str = "") -> str:
    """Ask for one of the options by its number, or for another value; an empty answer is the default."""
    lines = [f"  {number}  {option}\n" for number, option in enumerate(options, start=1)]
    offered = f" [{default}]" if default else " [none]"
    sys.stderr.write("".join((*lines, f"{question}{offered}: ")))
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if answer.isascii() and answer.isdecimal() and 0 < int(answer) <= len(options):
        return options[int(answer) - 1]
    return answer or default
