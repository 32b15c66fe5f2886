"""`xsft image build|push|list|show`: build the project's image once, push it, and pin it by digest in its lock."""

from __future__ import annotations

import argparse

from xsft.commands.documents import print_json
from xsft.commands.failure import print_problems
from xsft.commands.image_progress import showing
from xsft.commands.image_text import image_text
from xsft.commands.image_work import Work, work_for


def run(args: argparse.Namespace) -> int:
    with showing("xsft image") as display:
        work = work_for(args, display=display)
        report = _act(work, args.action)
    print_problems(work.planned.problems)
    if args.json:
        print_json("image", report)
    else:
        print(image_text(report), end="")
    return 0


def _act(work: Work, action: str) -> dict[str, object]:
    match action:
        case "build":
            return work.build()
        case "push":
            return work.push()
        case "list":
            return work.list()
        case _:
            return work.show()
