"""`xsft checkpoint export RUN|FILE`: write trained weights as a Hugging Face model, and verify it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from xsft.base.errors import INTERRUPTED, RunFailed, UsageError
from xsft.base.problems import Problem
from xsft.planning import api
from xsft.records.record_files import record_store
from xsft.stages.export_here import exported_here, intended_training
from xsft.stages.export_on_cluster import export_cluster, no_logits, plan_for_pod
from xsft.stages.export_upload import BUCKET
from xsft.stages.exported import training_of
from xsft.verbs.checkpoint_text import export_lines
from xsft.verbs.cpu_job_arguments import cpu_job_request, refuse_timeout_alone
from xsft.verbs.cpu_plan_text import export_text
from xsft.verbs.job_documents import EXPORT, export_document, export_fields, report_cpu_job
from xsft.verbs.plan_document import print_json, print_lines
from xsft.verbs.progress import print_to_stderr
from xsft.verbs.terminal import terminal
from xsft.weights.export_verification import verification_text
from xsft.weights.exporter import ExportRequest, TrainedRun

WORKLOADS = (".yaml", ".yml")


def run(args: argparse.Namespace) -> int:
    if args.what.endswith(WORKLOADS):
        return _of_file(args)
    _refuse_export_options(args, on_cluster=False)
    trained = training_of(args.what, record_store())
    if trained.output.startswith(BUCKET):
        print_to_stderr(
            f"xsft: {trained.run_name} is exported on this machine, which reads its weights from {trained.output}. "
            "To send a job to its cluster instead, give its workload: xsft checkpoint export FILE.yaml"
        )
    return _export_here(trained, args)


def _of_file(args: argparse.Namespace) -> int:
    workload = api.load(args.what, settings=args.settings, run_name=args.run_name)
    (intent,) = api.intend((workload,))
    to_folder = args.output is not None and "://" not in args.output
    on_this_machine = workload.spec.on_this_machine or to_folder
    _refuse_export_options(args, on_cluster=not on_this_machine)
    if on_this_machine:
        return _export_here(intended_training(intent), args)
    made = plan_for_pod(intended_training(intent), _export_request(args), to=args.output)
    request, listener = cpu_job_request(args), terminal(as_json=args.json)
    found = export_cluster(intent, made, file=workload.file, request=request, log=print_to_stderr, listener=listener)
    verified = made.recorded.verification if made.recorded else None

    def fields(action: str, writes: str | None, noted: tuple[Problem, ...]) -> dict[str, Any]:
        if writes is None:
            why, folder = "it already exists", made.writes
            return export_fields(made, action=action, why=why, folder=folder, verification=verified, problems=noted)
        why = f"{made.run_name} is already exporting it" if action == "adopted" else made.why
        return export_fields(made, action=action, why=why, folder=writes, problems=noted)

    found_lines = (
        f"{made.training}, step {made.inputs.step}, {made.inputs.form}: found; nothing was sent",
        f"model     {made.writes}",
        f"verified  {verification_text(verified)}",
    )
    return report_cpu_job(
        found, EXPORT, as_json=args.json, fields=fields, found_lines=found_lines, plan_text=export_text
    )


def _export_request(args: argparse.Namespace) -> ExportRequest:
    return ExportRequest(form=args.form, dtype=args.dtype, step=args.step)


def _refuse_export_options(args: argparse.Namespace, *, on_cluster: bool) -> None:
    """Raise UsageError for options of the other place."""
    given = {"--dry-run": args.dry_run, "--wait": args.wait, "--yes": args.yes, "--on-tpu": args.on_tpu}
    wrong = ("--on-tpu",) if on_cluster else tuple(given)
    if option := next((one for one in wrong if given[one]), None):
        where = "convert" if on_cluster else "a workload of a cluster: xsft checkpoint export FILE"
        raise UsageError(f"{option} is for {where}.", fix="Leave it out.")
    refuse_timeout_alone(args)
    if on_cluster and args.verify == "logits":
        raise no_logits()


def _export_here(trained: TrainedRun, args: argparse.Namespace) -> int:
    logits = args.verify == "logits"
    result = exported_here(trained, _export_request(args), to=args.output, logits=logits, listener=terminal())
    match result.outcome:
        case "completed":
            if args.json:
                print_json(EXPORT, export_document(result))
            else:
                print_lines(export_lines(result))
            return 0
        case "interrupted":
            print(f"interrupted: {result.plan.directory} stays; the same command exports again", file=sys.stderr)
            return INTERRUPTED
        case _:
            where = f"The whole output: {result.log}. " if result.log else ""
            fix = f"{where}{result.plan.directory} is kept, but is incomplete."
            raise RunFailed(f"{result.plan.run_name}: {result.reason}", fix=fix, id="export-failed")
