"""`xsft diff A B`: show what two workloads would do differently; scripts read `same` under --json."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xsft.planning import api
from xsft.planning.steps import Plan
from xsft.spec.scalars import same_value
from xsft.verbs.plan_document import print_json
from xsft.verbs.progress import show_progress

KeyDifference = dict[str, Any]
"""One difference: `{"key": …, "a": …, "b": …}`; None if a side has nothing."""


def run(args: argparse.Namespace) -> int:
    """Print the differences. `--set` applies to B only if A and B are the same file, else to both."""
    same_file = args.a == args.b
    a = api.load(args.a, settings=() if same_file else args.settings, run_name=None if same_file else args.run_name)
    b = api.load(args.b, settings=args.settings, run_name=args.run_name)
    with show_progress("xsft") as progress:
        plans = api.plan((a, b), progress=progress)
    found: dict[str, list[dict[str, Any]]] = plan_differences(*plans)
    if args.json:
        print_json("diff", {"a": args.a, "b": args.b, "same": not any(found.values()), "differences": found})
    else:
        sys.stdout.write(diff_text(found, a=args.a, b=args.b))
    return 0


def plan_differences(a: Plan, b: Plan) -> dict[str, list[KeyDifference]]:
    return {
        "keys": _compare(_leaves_of(_spec(a)), _leaves_of(_spec(b))),
        "trainer_argv": _compare(_arguments_by_name(a.trainer_argv), _arguments_by_name(b.trainer_argv)),
        "trainer_env": _compare(a.trainer_env, b.trainer_env),
        "xpk_argv": _compare(_arguments_by_name(a.xpk_argv or ()), _arguments_by_name(b.xpk_argv or ())),
        "manifest": _compare(_leaves_of(a.manifest or {}), _leaves_of(b.manifest or {})),
    }


def diff_text(found: Mapping[str, Sequence[KeyDifference]], *, a: str, b: str) -> str:
    """Return the differences as text: `- key: value` is A's, `+ key: value` is B's."""
    if not any(found.values()):
        return "no difference\n"
    lines = [f"--- {a}", f"+++ {b}"]
    for section, rows in found.items():
        if rows:
            lines.extend(("", f"## {section}", *_diff_lines(rows)))
    return "\n".join(lines) + "\n"


def _diff_lines(rows: Sequence[KeyDifference]) -> Iterator[str]:
    for row in rows:
        if row["a"] is not None:
            yield f"- {row['key']}: {_value_text(row['a'])}"
        if row["b"] is not None:
            yield f"+ {row['key']}: {_value_text(row['b'])}"


def _compare(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[KeyDifference]:
    keys = dict.fromkeys((*a, *b))
    return [{"key": key, "a": a.get(key), "b": b.get(key)} for key in keys if not same_value(a.get(key), b.get(key))]


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


def _leaves_of(document: Any, at: str = "") -> dict[str, Any]:
    if isinstance(document, Mapping) and document:
        items = [(f"{at}.{key}" if at else str(key), value) for key, value in document.items()]
    elif isinstance(document, list) and document:
        items = [(f"{at}[{i}]", value) for i, value in enumerate(document)]
    else:
        return {at: document}
    return {path: leaf for key, value in items for path, leaf in _leaves_of(value, key).items()}


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
