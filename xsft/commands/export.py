"""`xsft checkpoint export RUN`: write trained weights as a Hugging Face folder, and verify it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from msgspec import to_builtins

from xsft.commands.convert import machine
from xsft.commands.documents import print_json
from xsft.commands.progress import shown
from xsft.effects.environments import environments
from xsft.effects.environments.installed import BuiltEnvironment
from xsft.effects.facts.exported import plan_export, training_of
from xsft.effects.local.export import ExportResult, ExportWork, export_here
from xsft.effects.local.served_model import refuse_unreadable
from xsft.effects.records.records import record_store
from xsft.errors import INTERRUPTED, RunFailed
from xsft.export.engines import model_type
from xsft.trainers.export import ExportRequest

KIND = "checkpoint-export"


def run(args: argparse.Namespace) -> int:
    store = record_store()
    trained = training_of(args.what, store)
    asked = ExportRequest(form=args.form, dtype=args.dtype, step=args.step)
    with shown("export") as say:
        work = ExportWork(
            look=lambda: plan_export(trained, asked, store, output=args.output),
            machine=machine,
            say=say,
            engine=engine if args.verify == "logits" else None,
        )
        refuse_engine(work)
        result = export_here(work)
    match result.outcome:
        case "completed":
            _print(result, as_json=args.json)
            return 0
        case "interrupted":
            print(f"interrupted: {result.plan.directory} stays; the same command exports again", file=sys.stderr)
            return INTERRUPTED
        case _:
            where = f"The whole output: {result.log}. " if result.log else ""
            fix = f"{where}{result.plan.directory} stays, and is not complete."
            raise RunFailed(f"{result.plan.run_name}: {result.reason}", fix=fix, id="export-failed")


def refuse_engine(work: ExportWork) -> None:
    """Raise UsageError, engine-model-unknown, before anything is exported, if the engine cannot read the model."""
    if work.engine is None:
        return
    plan = work.look()
    if plan.inputs.form != "adapters":
        refuse_unreadable(model_type(plan.inputs.model), named=plan.inputs.model, engine=work.engine())


def engine() -> BuiltEnvironment:
    """Return the engine's environment; build it if it is missing."""
    with shown("engine environment") as progress:
        return environments.ensure("engine", progress=progress)


def text(result: ExportResult) -> Iterator[str]:
    """Yield the lines of the summary at the end."""
    plan = result.plan
    found = "found" if result.action == "finished" else "exported"
    yield f"{plan.training}, step {plan.inputs.step}, {plan.inputs.form}: {found}"
    yield f"folder    {result.folder}"
    yield f"verified  {result.why}"
    for broken in plan.broken:
        yield f"not whole {broken} (it stays; remove it when you like)"
    if result.record:
        yield f"record    {result.record}"


def document(result: ExportResult) -> dict[str, Any]:
    """Return the document `xsft.checkpoint-export/1` without its schema."""
    plan = result.plan
    return {
        "run_name": plan.run_name,
        "training": plan.training,
        "action": result.action,
        "why": result.why,
        "digest": plan.digest,
        "step": plan.inputs.step,
        "form": plan.inputs.form,
        "dtype": plan.inputs.dtype,
        "folder": result.folder,
        "not_whole": list(plan.broken),
        "argv": list(plan.argv),
        "verification": to_builtins(result.verification),
        "record": str(result.record) if result.record else None,
        "log": str(result.log) if result.log else None,
        "problems": [],
    }


def _print(result: ExportResult, *, as_json: bool) -> None:
    if as_json:
        print_json(KIND, document(result))
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(result))
