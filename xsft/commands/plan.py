"""`xsft plan FILE…`: print exactly what submit would do."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import yaml

from xsft import api
from xsft.commands.documents import plan_document, print_json, status_of
from xsft.commands.failure import print_problems, problem_documents
from xsft.commands.pipeline import stages_of
from xsft.commands.pipeline_cluster import ClusterCall
from xsft.commands.plan_text import plan_text
from xsft.commands.progress import shown
from xsft.commands.stage_plans import StageOutlook, outlooks, stage_documents, stage_lines
from xsft.spec.terminal import safe_text
from xsft.steps import Plan


def run(args: argparse.Namespace) -> int:
    loaded, unread = api.load_each(args.files, settings=args.settings, run_name=args.run_name, offline=args.offline)
    with shown("xsft") as progress:
        plans = api.plan(loaded, progress=progress)
        stages = tuple(_stages(one, plan) for one, plan in zip(loaded, plans, strict=True))
    problems = (*unread, *(p for plan in plans for p in plan.problems))
    if args.json:
        extra = {"problems": problem_documents(unread), "exit_status": status_of(problems)} if unread else {}
        print_json("plan", {"plans": [_document(*pair) for pair in zip(plans, stages, strict=True)], **extra})
    elif args.manifest:
        _print_manifests(plans)
    else:
        _print_text(plans, stages, audit=args.audit)
    print_problems(unread if not args.manifest else problems)
    return status_of(problems)


def _stages(workload: api.Loaded, plan: Plan) -> tuple[StageOutlook, ...]:
    call = ClusterCall(yes=True, poll_s=0.0)
    return outlooks(stages_of(workload, run_name=plan.run_name, call=call)) if plan.ok else ()


def _document(plan: Plan, stages: tuple[StageOutlook, ...]) -> dict[str, Any]:
    return {**plan_document(plan), "stages": stage_documents(stages)}


def _print_text(plans: Sequence[Plan], stages: Sequence[tuple[StageOutlook, ...]], *, audit: bool) -> None:
    """Print the plans, wrapped to the terminal's width; a pipe gets whole lines."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    texts = (
        plan_text(plan, audit=audit, width=width) + "".join(f"{line}\n" for line in stage_lines(its))
        for plan, its in zip(plans, stages, strict=True)
    )
    sys.stdout.write("\n".join(texts))


def _print_manifests(plans: Sequence[Plan]) -> None:
    """Print YAML documents for `kubectl create -f -`, with texts quoted so that nothing in them is misread."""
    manifests = [plan.manifest for plan in plans if plan.manifest is not None]
    sys.stdout.write(
        yaml.dump_all(manifests, Dumper=_manifest_dumper(), sort_keys=False, allow_unicode=True, width=10**9)
    )


def _manifest_dumper() -> Any:
    """Return a dumper that quotes what standard output escapes, so that it is read back as the same text."""

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        pass

    def text(dumper: Any, value: str) -> Any:
        style = None if safe_text(value) == value else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper
