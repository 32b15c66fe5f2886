"""`xsft checkpoint convert FILE`: convert Hugging Face weights into the checkpoint that the workload starts from."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from xsft import api
from xsft.actions.weights.convert import (
    converted_here,
    look_for_cluster,
)
from xsft.actions.weights.convert_on_cluster import convert_cluster
from xsft.effects.local.convert import ConversionResult
from xsft.errors import INTERRUPTED, RunFailed, UsageError
from xsft.screen.checkpoint_documents import CONVERT, conversion_fields
from xsft.screen.documents import print_json
from xsft.screen.failure import print_problems


def run(args: argparse.Namespace) -> int:
    workload = api.load(args.what, settings=args.settings, run_name=args.run_name)
    _refuse_convert_options(args, on_cluster=workload.spec.on_cluster)
    if workload.spec.on_cluster:
        return _on_cluster(workload, args)
    result = converted_here(workload)
    print_problems(result.warnings)
    match result.outcome:
        case "completed":
            if args.json:
                print_json(CONVERT, conversion_document(result))
            else:
                sys.stdout.writelines(f"{line}\n" for line in conversion_lines(result))
            return 0
        case "interrupted":
            sys.stderr.writelines(f"{line}\n" for line in interrupted(result))
            return INTERRUPTED
        case _:
            fix = f"The whole output: {result.log}. What was written stays; the same command converts again."
            raise RunFailed(f"{result.plan.run_name}: {result.reason}", fix=fix)


def _on_cluster(workload: api.Loaded, args: argparse.Namespace) -> int:
    plan, intent, problems = look_for_cluster(workload)
    return convert_cluster(plan, intent.run, file=workload.file, problems=problems, args=args)


def _refuse_convert_options(args: argparse.Namespace, *, on_cluster: bool) -> None:
    of_clusters = {"--dry-run": args.dry_run, "--wait": args.wait, "--yes": args.yes, "--on-tpu": args.on_tpu}
    given = [option for option, value in of_clusters.items() if value]
    if given and not on_cluster:
        raise UsageError(f"{given[0]}: the workload converts on this machine.", fix="Leave it out.")
    if args.timeout is not None and not args.wait:
        raise UsageError("--timeout is for --wait.", fix="Add it, or leave --timeout out.")


def conversion_lines(result: ConversionResult) -> Iterator[str]:
    """Yield the lines of the summary at the end."""
    plan = result.plan
    found = "found" if result.action == "finished" else "converted"
    yield f"{plan.inputs.source.repo} for {plan.inputs.model}: {found}; {result.why}"
    yield f"checkpoint  {result.checkpoint}"
    for broken in plan.broken:
        yield f"incomplete  {broken} (kept; delete it if you like)"
    if result.record:
        yield f"record      {result.record}"


def interrupted(result: ConversionResult) -> Iterator[str]:
    yield f"interrupted: {result.plan.run_name} is stopped"
    yield f"kept: {result.plan.directory}; the same command converts again, unless the result is complete"


def conversion_document(result: ConversionResult) -> dict[str, Any]:
    """Return the document `xsft.checkpoint-convert/1` without its schema."""
    fields = conversion_fields(
        result.plan, action=result.action, why=result.why, checkpoint=result.checkpoint, problems=result.warnings
    )
    return {
        **fields,
        "record": str(result.record) if result.record else None,
        "log": str(result.log) if result.log else None,
    }
