"""A plan as text a person reads: decisions first, then the lines to copy, then the evidence. Pure."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from xsft.commands.failure import problem_lines
from xsft.commands.plan_summary import summary
from xsft.launchers.audit import AuditRow
from xsft.steps import Plan
from xsft.trainers.shuffling import SEED, Seeds, restarts_in_place


def plan_text(plan: Plan, *, audit: bool = False, width: int | None = None) -> str:
    """`audit`: with every row; otherwise counts, and what is not as asked.

    `width`: of the terminal; None: long lines stay whole.
    """
    return "\n".join(_lines(plan, audit=audit, width=width)) + "\n"


def shell_line(argv: Iterable[str]) -> str:
    """A command that a shell reads back as exactly this argv, one flag per line; quoted once, here."""
    words = [shlex.quote(word) for word in argv]
    head = next((i for i, word in enumerate(words) if word.startswith("-") or "=" in word), len(words))
    if words[0] == "python3" and "-m" in words:
        head = words.index("-m") + 2
    return " \\\n    ".join((" ".join(words[:head]), *words[head:]))


def _lines(plan: Plan, *, audit: bool, width: int | None) -> Iterator[str]:
    yield f"# {plan.file}"
    for label, text in summary(plan):
        yield from _wrapped(f"{label:<12}{text}", width=width, indent=12)
    if plan.conversion_argv:
        yield from _block("convert the weights first, once, on a CPU machine", shell_line(plan.conversion_argv))
    if plan.xpk_argv:
        yield from _block("xpk", shell_line(plan.xpk_argv))
    yield from _block("trainer", shell_line(plan.trainer_argv))
    if plan.trainer_env:
        yield from _block("its environment", "\n".join(f"{k}={shlex.quote(v)}" for k, v in plan.trainer_env.items()))
    if plan.seeds is not None:
        yield from _block("seeds", _seeds(plan, plan.seeds))
    if plan.by_hand:
        reasons = (line for reason in plan.by_hand for line in _wrapped(f"- {reason}", width=width, indent=2))
        yield from _block("run by hand, that xpk line lacks", "\n".join(reasons))
    if plan.audit:
        yield from _audit(plan.audit, whole=audit)
    if plan.problems:
        told = (line for p in plan.problems for line in problem_lines(p))
        yield from _block("checks", "\n".join(part for line in told for part in _wrapped(line, width=width, indent=4)))


def _wrapped(line: str, *, width: int | None, indent: int) -> list[str]:
    """For reading: a line that is copied is never broken."""
    if width is None or len(line) <= width:
        return [line]
    first = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line.strip(),
        width=max(width, 40),
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _seeds(plan: Plan, seeds: Seeds) -> str:
    """What a later start makes of the seed in the trainer's line, which is the first start's."""
    restart = f"+{seeds.per_restart} each restart, " if restarts_in_place(plan.run) else ""
    return f"{SEED}={seeds.first}, {restart}+{seeds.per_attempt} each attempt"


def _audit(rows: tuple[AuditRow, ...], *, whole: bool) -> Iterator[str]:
    shown = rows if whole else tuple(row for row in rows if row.outcome in ("dropped", "altered"))
    yield ""
    yield f"## audit: {_counts(rows)}{'' if whole else ' (--audit shows each field)'}"
    yield from _table(shown) if shown else ()


def _block(title: str, body: str) -> Iterator[str]:
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
        *((r.field, r.outcome, _short(r.requested), r.where) for r in rows),
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    for row in cells:
        yield "  ".join((*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]))


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 48 else f"{text[:45]}…"
