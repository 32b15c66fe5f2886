"""A plan as text for people: decisions first, then the lines to copy, then the evidence. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from xsft.base.acceptance import for_submission
from xsft.base.problems import Problem, errors_in
from xsft.base.stage import StagePlan
from xsft.base.terminal_text import safe_text, wrap_line
from xsft.launcher.audit import AuditRow
from xsft.planning.steps import Plan, Planned
from xsft.trainer.shuffling import SEED, Seeds, restarts_in_place
from xsft.verbs.document import counts_text, problem_lines
from xsft.verbs.plan_summary import summary


def plan_text(plan: Plan, *, audit: bool = False, width: int | None = None) -> str:
    """Return the plan as text. `audit`: with every row; otherwise counts, and what differs from the request.

    `width`: of the terminal; None: long lines stay whole.
    """
    return "\n".join(_lines_of_plan(plan, audit=audit, width=width)) + "\n"


def shell_line(argv: Iterable[str]) -> str:
    """Return a command that a shell reads back as exactly this argv, one flag per line; quoting happens only here."""
    words = [shlex.quote(word) for word in argv]
    head = next((i for i, word in enumerate(words) if word.startswith("-") or "=" in word), len(words))
    if words[0] == "python3" and "-m" in words:
        head = words.index("-m") + 2
    return " \\\n    ".join((" ".join(words[:head]), *words[head:]))


def _lines_of_plan(plan: Plan, *, audit: bool, width: int | None) -> Iterator[str]:
    yield f"# {plan.file}"
    for label, text in summary(plan):
        yield from wrap_line(f"{label:<12}{text}", width=width, indent=12)
    if plan.conversion_argv:
        yield from block("convert the weights first, once, on a CPU machine", shell_line(plan.conversion_argv))
    yield from command_blocks(plan, "trainer", argv=plan.trainer_argv, env=plan.trainer_env)
    if plan.seeds is not None:
        yield from block("seeds", _seeds(plan, plan.seeds))
    yield from evidence_blocks(plan, audit=audit, width=width)


def command_blocks(plan: Planned, title: str, *, argv: Iterable[str], env: Mapping[str, str]) -> Iterator[str]:
    """Yield the blocks of the commands: xpk's, and what the pods run."""
    if plan.xpk_argv:
        yield from block("xpk", shell_line(plan.xpk_argv))
    yield from block(title, shell_line(argv))
    if env:
        yield from block("its environment", "\n".join(f"{k}={shlex.quote(v)}" for k, v in env.items()))


def evidence_blocks(plan: Planned, *, audit: bool = False, width: int | None = None) -> Iterator[str]:
    """Yield the blocks of what xpk's line lacks, the audit, whole with `audit`, and the problems."""
    if plan.by_hand:
        reasons = (line for reason in plan.by_hand for line in wrap_line(f"- {reason}", width=width, indent=2))
        yield from block("if you run this xpk line by hand", "\n".join(reasons))
    if plan.audit:
        yield from audit_lines(plan.audit, whole=audit)
    yield from problems_block(plan.problems, width=width)


def yaml_text(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return YAML documents for `kubectl create -f -`: programs keep their lines, equal parts are written out, and what
    standard output would escape is quoted, so that it is read back as the same text."""
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            del data
            return True

    def represent(dumper: Any, text: str) -> Any:
        style = "|" if "\n" in text else None
        if safe_text(text) != text:
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent)
    return str(yaml.dump_all(objects, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10**9))


def screen_lines(plan: Plan, stages: tuple[StagePlan, ...], *, width: int | None) -> Iterator[str]:
    """Yield the decisions of a plan, which fit one screen; its parts are printed by options."""
    rows = [row for row in summary(plan) if row[0] != "ready" and row != ("secrets", "none")]
    if stages:
        rows.append(("stages", f"{', '.join(stage.name for stage in stages)}: xsft run does them; --all shows them"))
    if plan.xpk_argv:
        rows.append(("xpk", _xpk_text(plan, plan.xpk_argv)))
    for label, text in rows:
        yield from wrap_line(f"{label:<12}{text}", width=width, indent=12)


def _xpk_text(plan: Plan, argv: tuple[str, ...]) -> str:
    """Return the verb of xpk's line, and what a run by hand would lack: the patched fields of the manifest."""
    patched = [row for row in plan.audit if row.outcome == "patched"]
    of_identity = [row for row in patched if "/labels/" in row.where or "/annotations/" in row.where]
    fields = [row.field.removeprefix("place.").partition(".")[0] for row in patched if row not in of_identity]
    lacks = ", ".join(dict.fromkeys((*fields, *("labels" for _ in of_identity))))
    by_hand = f"; by hand it lacks {lacks}" if lacks else ""
    return f"{shlex.join(argv[:3])} …: --xpk prints it{by_hand}"


def verdict_text(plan: Plan) -> str:
    """Return whether `submit` would accept the plan, the ids of the problems that forbid it, and how many there are."""
    verdict = "ready"
    if refused := errors_in(for_submission(plan.problems)):
        verdict = f"not ready: {', '.join(dict.fromkeys(problem.id for problem in refused))}"
    counts = counts_text(plan.problems)
    if any(problem.severity == "note" for problem in plan.problems):
        counts += "; --all shows the notes"
    return f"{verdict} ({counts})" if counts else verdict


def trainer_line(plan: Plan) -> str:
    """Return the trainer's command with its environment, to be copied."""
    variables = [f"{name}={shlex.quote(text)} \\\n" for name, text in plan.trainer_env.items()]
    return "".join((*variables, shell_line(plan.trainer_argv)))


def problems_block(problems: tuple[Problem, ...], *, width: int | None = None) -> Iterator[str]:
    """Yield the block of problems; nothing without problems."""
    if problems:
        lines = (line for p in problems for line in problem_lines(p))
        yield from block("checks", "\n".join(part for line in lines for part in wrap_line(line, width=width, indent=4)))


def _seeds(plan: Plan, seeds: Seeds) -> str:
    """Return how later starts change the seed; the trainer's line holds that of the first start."""
    restart = f"+{seeds.per_restart} each restart, " if restarts_in_place(plan.run) else ""
    return f"{SEED}={seeds.first}, {restart}+{seeds.per_attempt} each attempt"


def audit_lines(rows: tuple[AuditRow, ...], *, whole: bool) -> Iterator[str]:
    """Yield the lines of the audit. `whole`: every row; else the counts by outcome, and the rows that differ from the
    request."""
    shown = rows if whole else tuple(row for row in rows if row.outcome in ("dropped", "altered"))
    yield ""
    yield f"## audit: {_counts(rows)}{'' if whole else ' (--audit shows each field)'}"
    if shown:
        yield from _table(shown)


def block(title: str, body: str) -> Iterator[str]:
    """Yield a part of a plan under its title."""
    yield ""
    yield f"## {title}"
    yield body


def _counts(rows: Iterable[AuditRow]) -> str:
    outcomes = [row.outcome for row in rows]
    named = ("landed", "patched", "dropped", "altered")
    return ", ".join(f"{outcomes.count(o)} {o}" for o in named if o in outcomes)


def _table(rows: tuple[AuditRow, ...]) -> Iterator[str]:
    cells = [
        ("FIELD", "OUTCOME", "VALUE", "WHERE"),
        *((r.field, r.outcome, _short_value(r.requested), r.where) for r in rows),
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    for row in cells:
        yield "  ".join((*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]))


def _short_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 48 else f"{text[:45]}…"
