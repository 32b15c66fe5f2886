"""`xsft plan FILE…`: print exactly what submit would do."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xsft.commands.arguments import add_files, add_json, add_settings
from xsft.spec.terminal import safe_text

if TYPE_CHECKING:
    from xsft.problems import Problem
    from xsft.steps import Plan

EPILOG = "Exit status 0, or 2 where a check refuses. The line under `xpk` can be copied into a shell."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_files(parser)
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--audit", action="store_true", help="show where each field landed, not only the counts")
    parser.add_argument("--manifest", action="store_true", help="print the objects that will be created, as YAML")


def run(args: argparse.Namespace) -> int:
    from xsft import api
    from xsft.commands.documents import plan_document, print_json, status_of
    from xsft.commands.progress import shown

    loaded, unread = api.load_each(args.files, settings=args.settings, run_name=args.run_name)
    with shown("xsft") as progress:
        plans = api.plan(loaded, progress=progress)
    problems = (*unread, *(p for plan in plans for p in plan.problems))
    if args.json:
        from xsft.commands.failure import problem_documents

        extra = {"problems": problem_documents(unread), "exit_status": status_of(problems)} if unread else {}
        print_json("plan", {"plans": [plan_document(plan) for plan in plans], **extra})
    elif args.manifest:
        _print_manifests(plans)
    else:
        _print_text(plans, audit=args.audit)
    _say(unread if not args.manifest else problems)
    return status_of(problems)


def _print_text(plans: Sequence[Plan], *, audit: bool) -> None:
    """On a terminal no wider than it is; a pipe gets whole lines."""
    from xsft.commands.plan_text import plan_text

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    sys.stdout.write("\n".join(plan_text(plan, audit=audit, width=width) for plan in plans))


def _print_manifests(plans: Sequence[Plan]) -> None:
    """YAML documents that `kubectl create -f -` takes; JSON is YAML, and nothing in it can be misread."""
    import yaml

    manifests = [plan.manifest for plan in plans if plan.manifest is not None]
    sys.stdout.write(
        yaml.dump_all(manifests, Dumper=_manifest_dumper(), sort_keys=False, allow_unicode=True, width=10**9)
    )


def _manifest_dumper() -> Any:
    """Quotes what standard output escapes, so that it is read back as the same text."""
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        pass

    def text(dumper: Any, value: str) -> Any:
        style = None if safe_text(value) == value else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def _say(problems: Sequence[Problem]) -> None:
    from xsft.commands.failure import print_problems

    print_problems(problems)
