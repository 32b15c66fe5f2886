"""`xsft init [FILE]`: write a commented workload to start from; never over a file that exists."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xsft.base.errors import UsageError
from xsft.catalog.models import model, suggest
from xsft.catalog.releases import DEFAULT
from xsft.catalog.weights import weights_failure
from xsft.checks.facts import Facts
from xsft.machine.files import refuse_unless_free, schema_line, write_atomic
from xsft.planning.planner import make_intent
from xsft.spec.explain import read_spec

TEMPLATES = Path(__file__).parent.parent / "packaged" / "init"
MODEL, HUB_ID = "qwen3-0.6b", "Qwen/Qwen3-0.6B"
"""Model and hub id in the templates."""
SLICES = ("type: v6e-8 ", *(f"type: v6e-{chips} " for chips in (16, 32, 64, 128, 256)))


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
    sys.stderr.write(f"wrote {target}; next: edit it, then `xsft check {target}`\n")
    return 0


def workload_text(variant: str, *, folder: Path | None, model: str | None = None) -> str:
    """Return the template for `mcjax`, `pathways` or `local`. `folder`: where the file will be written.

    `model` replaces the template's model; the slice is the first that is not known to be too small for it. Raises
    UsageError, with near names, for a model that MaxText does not have.
    """
    text = (TEMPLATES / f"{variant}.yaml").read_text(encoding="utf-8")
    return schema_line(folder) + (text if model is None else _fitting_text(_with_model(text, model)))


def _with_model(text: str, name: str) -> str:
    converted = suggest(name)[:1] if "/" in name else ()
    try:
        catalogued = model(*converted or (name,))
    except ValueError as unknown:
        raise UsageError(f"--model: {unknown}", fix="Use MaxText's name of the model.") from None
    tokenizer = catalogued.hf_id or "my-org/my-tokenizer   # <-- the model's tokenizer on Hugging Face"
    converts = weights_failure(catalogued.name, stage="convert", version=DEFAULT, scan_layers=True) is None
    hub = [] if converts else [line for line in text.splitlines() if "hf" in line]
    for line in (line for line in hub if line.lstrip().startswith(("# hf: {repo", "# Or Hugging Face"))):
        text = text.replace(f"{line}\n", "")
    return (
        text.replace(f"tokenizer: {HUB_ID}", f"tokenizer: {tokenizer}")
        .replace(HUB_ID, catalogued.hf_id or HUB_ID)
        .replace(MODEL, catalogued.name)
    )


def _fitting_text(text: str) -> str:
    """Return the text with the first of SLICES that no check calls too small, or the last one."""

    def is_too_small(tried: str) -> bool:
        return any(p.fit == "no" for p in make_intent(read_spec(tried), Facts()).problems)

    tries = [text.replace(SLICES[0], slices) for slices in SLICES]
    return next((tried for tried in tries if not is_too_small(tried)), tries[-1])
