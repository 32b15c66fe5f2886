"""`xsft image build|push|list|show`: build the project's image once, push it, and pin it by digest in its lock."""

from __future__ import annotations

import argparse

from xsft.launch.image_work import ImageCall, ImageRequest, work_for
from xsft.verbs.failure import print_problems, problem_documents
from xsft.verbs.image_progress import show_image_work
from xsft.verbs.image_text import image_text
from xsft.verbs.plan_document import print_json

ONLY_LOOK = frozenset({"show", "list"})
"""Actions that need no digest of the base."""


def run(args: argparse.Namespace) -> int:
    with show_image_work("xsft image") as display:
        work = work_for(_image_request(args), display=display)
        report = _act(work, args.action)
    problems = work.planned.problems
    print_problems(problems)
    if args.json:
        print_json("image", {**report, "problems": problem_documents(problems)})
    else:
        print(image_text(report), end="")
    return 0


def _image_request(args: argparse.Namespace) -> ImageRequest:
    return ImageRequest(
        image=args.image,
        registry=args.registry,
        place=args.place,
        maxtext=args.maxtext,
        maxtext_source=args.maxtext_source,
        tunix_source=args.tunix_source,
        base=args.base,
        update_base=args.update_base,
        needs_base=args.action not in ONLY_LOOK,
        vllm=args.vllm,
        code=args.code,
        args=args.arg,
        pip_config=args.pip_config,
        accept=args.accept,
        create=args.create,
    )


def _act(work: ImageCall, action: str) -> dict[str, object]:
    match action:
        case "build":
            return work.build()
        case "push":
            return work.push()
        case "list":
            return work.list()
        case _:
            return work.show()
