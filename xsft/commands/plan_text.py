"""A plan as text a person reads: decisions first, then the lines to copy, then the evidence. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from xsft.commands.failure import problem_lines
from xsft.launchers.audit import AuditRow
from xsft.steps import Plan
from xsft.trainers.shuffling import SEED, restarts_in_place


def plan_text(plan: Plan) -> str:
    return "\n".join(_lines(plan)) + "\n"


def shell_line(argv: Iterable[str]) -> str:
    """A command that a shell reads back as exactly this argv, one flag per line; quoted once, here."""
    words = [shlex.quote(word) for word in argv]
    head = next((i for i, word in enumerate(words) if word.startswith("-") or "=" in word), len(words))
    if words[0] == "python3" and "-m" in words:
        head = words.index("-m") + 2
    return " \\\n    ".join((" ".join(words[:head]), *words[head:]))


def _lines(plan: Plan) -> Iterator[str]:
    yield f"# {plan.file}"
    yield from _decisions(plan)
    if plan.conversion_argv:
        yield from _block("convert the weights first, once, on a CPU machine", shell_line(plan.conversion_argv))
    if plan.xpk_argv:
        yield from _block("xpk", shell_line(plan.xpk_argv))
    yield from _block("trainer", shell_line(plan.trainer_argv))
    if plan.trainer_env:
        yield from _block("its environment", "\n".join(f"{k}={shlex.quote(v)}" for k, v in plan.trainer_env.items()))
    if plan.by_hand:
        yield from _block("run by hand, that xpk line lacks", "\n".join(f"- {reason}" for reason in plan.by_hand))
    if plan.audit:
        yield from _block(f"audit: {_counts(plan.audit)}", "\n".join(_table(plan.audit)))
    if plan.problems:
        yield from _block("checks", "\n".join(line for p in plan.problems for line in problem_lines(p)))


def _decisions(plan: Plan) -> Iterator[str]:
    run = plan.run
    yield f"run         {plan.run_name}"
    yield f"digest      {plan.spec_digest}"
    yield f"target      {plan.target}"
    yield f"mode        {plan.mode.value} ({plan.mode.reason})"
    if plan.on_cluster:
        yield f"cluster     {_cluster(plan)}"
        yield f"JobSet      {plan.jobset} in namespace {run.namespace}, queue {run.queue}, priority {run.spec.priority}"
    if run.slice and plan.on_cluster:
        yield f"slices      {run.num_slices} x {run.slice.describe}: {run.chips} chips"
    if plan.on_this_machine and run.spec.image.ref:
        yield f"image       {run.spec.image.ref}, in a container on this machine"
    yield f"MaxText     {run.release.version}, {run.release.layout} layout"
    yield f"steps       {run.spec.train.steps}, a checkpoint every {run.checkpoint_period}"
    yield f"restarts    {_restarts(plan)}"
    yield f"results     {(run.output or '?').rstrip('/')}/{plan.run_name}/checkpoints"


def _restarts(plan: Plan) -> str:
    """What a later start makes of the seed in the trainer's line, which is the first start's."""
    most = f"at most {plan.run.spec.restarts.max}; " if restarts_in_place(plan.run) else ""
    if plan.seeds is None:
        return f"{most}each reads the same rows again, in the same order"
    restart = f"+{plan.seeds.per_restart} each restart, " if restarts_in_place(plan.run) else ""
    later = f"{SEED}={plan.seeds.first}, {restart}+{plan.seeds.per_attempt} each attempt"
    return f"{most}rows in another order: {later}"


def _cluster(plan: Plan) -> str:
    place = plan.run.place
    if place is None:
        return "?"
    return f"context {place.context}" if place.context else f"{place.cluster} ({place.project}, {place.zone})"


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
