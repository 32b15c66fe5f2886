"""`xsft init [FILE]`: write a commented workload to start from; never over a file that exists.
`xsft import [FILE]`: convert a pasted xpk line to a workload; nothing of the paste is executed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from xsft.base.acceptance import for_submission
from xsft.base.errors import UsageError, XsftError
from xsft.base.problems import Problem, errors_in
from xsft.catalog.models import model, suggest
from xsft.catalog.releases import DEFAULT
from xsft.catalog.weights import weights_failure
from xsft.checks.facts import Facts
from xsft.importing.build import import_paste
from xsft.importing.notes import PasteDifference
from xsft.machine import clock
from xsft.machine.files import PASTE, read_workload_text, refuse_unless_free, schema_line, write_atomic
from xsft.planning.gather import gather
from xsft.planning.planner import make_intent
from xsft.spec.explain import read_spec
from xsft.verbs.document import (
    CYAN,
    GREEN,
    ProblemFields,
    VerbDocument,
    print_problems,
    print_styled,
    print_to_stderr,
    problem_documents,
    report_document,
    status_of,
)

STYLES = {r"^  [^ ][^:]*:": CYAN, r"(?<= -> ).*": GREEN}
TEMPLATES = Path(__file__).parent.parent / "packaged" / "init"
MODEL, HUB_ID = "qwen3-0.6b", "Qwen/Qwen3-0.6B"
"""Model and hub id in the templates."""
SLICES = ("type: v6e-8 ", *(f"type: v6e-{chips} " for chips in (16, 32, 64, 128, 256)))


class ImportDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.import/1"):
    """`xsft import FILE --json`. Its problems say what must be completed or corrected in the workload."""

    file: str | None
    """Path of the workload that was written; null without `-o`."""
    workload: str
    """Text of the workload."""
    differences: tuple[PasteDifference, ...]
    refused: tuple[ProblemFields, ...]
    """Problems for which `xsft plan` and `xsft submit` refuse the workload; filled only if `problems` is empty."""


def run(args: argparse.Namespace) -> int:
    variant = "local" if args.local else args.mode
    if args.local and args.model:
        raise UsageError("--model: the local run trains its own tiny model.", fix="Omit --local.")
    if args.file == "-":
        sys.stdout.write(workload_text(variant, folder=None, model=args.model))
        return 0
    target = Path(args.file)
    refuse_unless_free(target, instead="`xsft init -` prints it.")
    write_atomic(target, workload_text(variant, folder=target.absolute().parent, model=args.model))
    print_to_stderr(f"wrote {target}; next: edit it, then `xsft check {target}`")
    return 0


def workload_text(variant: str, *, folder: Path | None, model: str | None = None) -> str:
    """Return the template for `mcjax`, `pathways` or `local`. `folder`: where the file will be written.

    `model` replaces the template's model; the slice is the first that is not known to be too small for it. Raises
    UsageError, with near names, for a model that MaxText does not have.
    """
    text = (TEMPLATES / f"{variant}.yaml").read_text(encoding="utf-8")
    if model is not None:
        text = _fitting_text(_with_model(text, model))
    return schema_line(folder) + text


def _with_model(text: str, name: str) -> str:
    converted = suggest(name)[:1] if "/" in name else ()
    try:
        catalogued = model(*converted or (name,))
    except ValueError as unknown:
        raise UsageError(f"--model: {unknown}", fix="Use MaxText's name of the model.") from None
    if weights_failure(catalogued.name, stage="convert", version=DEFAULT, scan_layers=True) is not None:
        # no converter reads its weights on the hub: the template must not offer to
        for line in text.splitlines():
            if line.lstrip().startswith(("# hf: {repo", "# Or Hugging Face")):
                text = text.replace(f"{line}\n", "")
    tokenizer = catalogued.hf_id or "my-org/my-tokenizer   # <-- the model's tokenizer on Hugging Face"
    return (
        text.replace(f"tokenizer: {HUB_ID}", f"tokenizer: {tokenizer}")
        .replace(HUB_ID, catalogued.hf_id or HUB_ID)
        .replace(MODEL, catalogued.name)
    )


def _fitting_text(text: str) -> str:
    """Return the text with the first of SLICES that no check calls too small, or the last one."""
    fitting = text
    for slices in SLICES:
        fitting = text.replace(SLICES[0], slices)
        if not any(p.fit == "no" for p in make_intent(read_spec(fitting), Facts()).problems):
            break
    return fitting


def import_command(args: argparse.Namespace) -> int:
    target = Path(args.output) if args.output else None
    if target is not None:
        refuse_unless_free(target, instead="without -o the workload is printed.")
    if args.file == "-" and sys.stdin.isatty():
        print_to_stderr("paste the xpk line, then press Ctrl-D")
    imported = import_paste(read_workload_text(args.file, kind=PASTE), line=args.line, read_file=_env_file)
    text = schema_line(target.absolute().parent if target else None) + imported.yaml
    file = args.output or ""
    problems = tuple(p.in_file(file) for p in imported.problems)
    refused = () if problems else tuple(p.in_file(file) for p in _refusals(text, target))
    if target is not None:
        write_atomic(target, text)
    document = ImportDocument(
        file=args.output,
        workload=text,
        differences=imported.differences,
        refused=problem_documents(refused),
        problems=problem_documents(problems),
        exit_status=status_of(problems),
    )
    return report_document(document, _print_import, as_json=args.json, shown=True)


def _refusals(text: str, target: Path | None) -> tuple[Problem, ...]:
    """Return the errors of the plan and of the submission that can be found offline."""
    spec = read_spec(text)
    facts = gather(spec, file=target or "-", today=clock.today(), offline=True)
    problems = make_intent(spec, facts).problems
    return errors_in(for_submission(problem for problem in problems if problem.kind != "unread"))


def _print_import(document: ImportDocument) -> None:
    """Print the workload, unless it was written to a file, on stdout, and what to know of it on stderr."""
    if document.file is None:
        sys.stdout.write(document.workload)
    print_styled(_difference_lines(document.differences), STYLES, stream=sys.stderr)
    print_problems(document.problems)
    if document.refused:
        print_to_stderr("`xsft plan` and `xsft submit` refuse this workload because:")
    print_problems(document.refused)
    if document.file is not None:
        print_to_stderr(f"wrote {document.file}; next: `xsft check {document.file}`")


def _difference_lines(differences: Sequence[PasteDifference]) -> Iterator[str]:
    if differences:
        yield "differences from the pasted command:"
    for difference in differences:
        change = f" {difference.given}" if difference.given else ""
        if difference.now:
            change += f" -> {difference.now}"
        yield f"  {difference.what}:{change}"
        yield f"    {difference.why}"


def _env_file(name: str) -> str | None:
    """Return the content of the file that --env-file names, if it is on this machine."""
    try:
        return read_workload_text(name) if name != "-" else None
    except XsftError:
        return None
