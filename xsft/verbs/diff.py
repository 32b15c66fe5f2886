"""`xsft diff A B`: show what two workloads would do differently; scripts read `same` under --json."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from xsft.base.amounts import counted_text
from xsft.planning import api
from xsft.planning.steps import Plan
from xsft.spec.yamltext import same_value
from xsft.verbs.document import BOLD, GREEN, RED, Document, VerbDocument, print_styled, report_document, show_progress

FOLLOWING = ("xpk_argv", "manifest")
"""Sections that follow from the others."""
STYLES = {r"^- .*": RED, r"^\+ .*": GREEN, r"^## .*": BOLD}


class Difference(Document, frozen=True, kw_only=True):
    """One difference between A and B."""

    key: str
    a: Any
    """Value in A; null if A has none."""
    b: Any
    """Value in B; null if B has none."""


class Differences(Document, frozen=True, kw_only=True):
    """The differences, grouped by keys, arguments and manifest."""

    keys: tuple[Difference, ...]
    """Differences of the workloads."""
    trainer_argv: tuple[Difference, ...]
    trainer_env: tuple[Difference, ...]
    xpk_argv: tuple[Difference, ...]
    manifest: tuple[Difference, ...]


class DiffDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.diff/1"):
    """`xsft diff A B --json`."""

    a: str
    b: str
    same: bool
    """Whether nothing differs; the exit status is 0 either way."""
    differences: Differences


def run(args: argparse.Namespace) -> int:
    """Print the differences. `--set` applies to B only if A and B are the same file, else to both."""
    same_file = args.a == args.b
    a = api.load(args.a, settings=() if same_file else args.settings, run_name=None if same_file else args.run_name)
    b = api.load(args.b, settings=args.settings, run_name=args.run_name)
    with show_progress("xsft") as progress:
        plan_a, plan_b = api.plan((a, b), progress=progress)
    differences = plan_differences(plan_a, plan_b)
    document = DiffDocument(a=args.a, b=args.b, same=not any(asdict(differences).values()), differences=differences)

    def draw(document: DiffDocument) -> None:
        print_styled(diff_lines(document, with_manifest=args.manifest), STYLES, stream=sys.stdout)

    return report_document(document, draw, as_json=args.json)


def plan_differences(a: Plan, b: Plan) -> Differences:
    return Differences(
        keys=_compare(_leaves_of(_spec(a)), _leaves_of(_spec(b))),
        trainer_argv=_compare(_arguments_by_name(a.trainer_argv), _arguments_by_name(b.trainer_argv)),
        trainer_env=_compare(a.trainer_env, b.trainer_env),
        xpk_argv=_compare(_arguments_by_name(a.xpk_argv or ()), _arguments_by_name(b.xpk_argv or ())),
        manifest=_compare(_leaves_of(a.manifest or {}), _leaves_of(b.manifest or {})),
    )


def diff_lines(document: DiffDocument, *, with_manifest: bool) -> Iterator[str]:
    """Yield the differences as text: `- key: value` is A's, `+ key: value` is B's. What follows from the keys and
    arguments, xpk's line and the manifest, is only counted unless it is wanted."""
    if document.same:
        yield "no difference"
        return
    yield from (f"--- {document.a}", f"+++ {document.b}")
    hidden = 0
    for section, differences in asdict(document.differences).items():
        if section in FOLLOWING and not with_manifest:
            hidden += len(differences)
        elif differences:
            yield from ("", f"## {section}")
            for difference in differences:
                if difference.a is not None:
                    yield f"- {difference.key}: {_value_text(difference.a)}"
                if difference.b is not None:
                    yield f"+ {difference.key}: {_value_text(difference.b)}"
    if hidden:
        yield from ("", f"and {counted_text(hidden, 'field')} of xpk's line and the manifest that follow: --manifest")


def _compare(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Difference, ...]:
    pairs = (Difference(key=key, a=a.get(key), b=b.get(key)) for key in dict.fromkeys((*a, *b)))
    return tuple(pair for pair in pairs if not same_value(pair.a, pair.b))


def _spec(plan: Plan) -> dict[str, Any]:
    return plan.run.spec.model_dump(mode="json", exclude_none=True)


def _arguments_by_name(argv: Sequence[str]) -> dict[str, str]:
    """Return the arguments by name: `--flag=value` and `key=value` by theirs, repeated ones (`--env`) by name and
    variable, words by position."""
    named: dict[str, str] = {}
    for position, word in enumerate(argv):
        key, equals, value = word.partition("=")
        if key == "--env":
            variable, _, value = value.partition("=")
            key = f"--env={variable}"
        named[key if equals else f"[{position}]"] = value if equals else word
    return named


def _leaves_of(node: Any, path: str = "") -> dict[str, Any]:
    """Return the values that hold no others, by key path, e.g. `spec.jobs[0].name`."""
    if isinstance(node, Mapping) and node:
        children = {f"{path}.{key}" if path else str(key): child for key, child in node.items()}
    elif isinstance(node, list) and node:
        children = {f"{path}[{i}]": child for i, child in enumerate(node)}
    else:
        return {path: node}
    leaves: dict[str, Any] = {}
    for child_path, child in children.items():
        leaves |= _leaves_of(child, child_path)
    return leaves


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
