"""`xsft checkpoint convert FILE`: convert Hugging Face weights into the checkpoint that the workload starts from."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from msgspec import to_builtins

from xsft.base.errors import INTERRUPTED, RunFailed, UsageError
from xsft.base.problems import Problem
from xsft.planning import api
from xsft.stages.convert_here import converted_here, look_for_cluster
from xsft.stages.convert_on_cluster import convert_cluster
from xsft.verbs.checkpoint_text import conversion_lines, interrupted_lines
from xsft.verbs.cpu_job_arguments import cpu_job_request, refuse_timeout_alone
from xsft.verbs.cpu_plan_text import conversion_text
from xsft.verbs.failure import print_problems
from xsft.verbs.job_documents import CONVERT, conversion_document, conversion_fields, report_cpu_job
from xsft.verbs.plan_document import print_json, print_lines
from xsft.verbs.terminal import terminal


def run(args: argparse.Namespace) -> int:
    workload = api.load(args.what, settings=args.settings, run_name=args.run_name)
    _refuse_convert_options(args, on_cluster=workload.spec.on_cluster)
    if workload.spec.on_cluster:
        return _on_cluster(workload, args)
    result = converted_here(workload, terminal())
    print_problems(result.warnings)
    match result.outcome:
        case "completed":
            if args.json:
                print_json(CONVERT, conversion_document(result))
            else:
                print_lines(conversion_lines(result))
            return 0
        case "interrupted":
            sys.stderr.writelines(f"{line}\n" for line in interrupted_lines(result))
            return INTERRUPTED
        case _:
            fix = f"The whole output: {result.log}. What was written stays; the same command converts again."
            raise RunFailed(f"{result.plan.run_name}: {result.reason}", fix=fix)


def _on_cluster(workload: api.LoadedWorkload, args: argparse.Namespace) -> int:
    plan, intent, problems = look_for_cluster(workload, terminal())
    found, claim = convert_cluster(
        plan,
        intent.run,
        file=workload.file,
        problems=problems,
        on_tpu=args.on_tpu,
        request=cpu_job_request(args),
        listener=terminal(as_json=args.json),
    )
    made = found.made

    def fields(action: str, writes: str | None, noted: tuple[Problem, ...]) -> dict[str, Any]:
        if writes is None:
            why = "it already exists"
            return conversion_fields(made, action=action, why=why, checkpoint=made.whole, problems=noted)
        why = f"{made.run_name} is converting the same weights" if action == "adopted" else made.why
        own = conversion_fields(made, action=action, why=why, checkpoint=writes, problems=noted)
        return {**own, "owner": to_builtins(claim)}

    named = f"{made.inputs.source.repo} for {made.inputs.model}"
    found_lines = (f"{named}: found; nothing was sent", f"checkpoint  {made.whole}")
    return report_cpu_job(
        found, CONVERT, as_json=args.json, fields=fields, found_lines=found_lines, plan_text=conversion_text
    )


def _refuse_convert_options(args: argparse.Namespace, *, on_cluster: bool) -> None:
    of_clusters = {"--dry-run": args.dry_run, "--wait": args.wait, "--yes": args.yes, "--on-tpu": args.on_tpu}
    given = [option for option, value in of_clusters.items() if value]
    if given and not on_cluster:
        raise UsageError(f"{given[0]}: the workload converts on this machine.", fix="Leave it out.")
    refuse_timeout_alone(args)
