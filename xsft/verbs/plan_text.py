"""A plan as text for people: decisions first, then the lines to copy, then the evidence. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from xsft.base.acceptance import for_submission
from xsft.base.amounts import counted_text, duration_text
from xsft.base.problems import FitFinding, Problem, errors_in
from xsft.base.stage import StagePlan
from xsft.base.terminal_text import safe_text, wrap_line
from xsft.checks.data import rows_per_step
from xsft.checks.step_time import RunTime
from xsft.checks.trainer_keys import number
from xsft.launcher.audit import AuditRow
from xsft.planning.steps import Plan, Planned
from xsft.spec.resolve import Run
from xsft.trainer.shuffling import SEED, restarts_in_place
from xsft.trainer.trainer import trainer_of
from xsft.verbs.document import Document, ProblemFields, counts_text, problem_lines


def plan_text(plan: Plan, *, audit: bool = False, width: int | None = None) -> str:
    """Return the plan as text. `audit`: with every row; otherwise counts, and what differs from the request.

    `width`: of the terminal; None: long lines stay whole.
    """
    lines = [f"# {plan.file}"]
    for label, text in summary(plan):
        lines += wrap_line(f"{label:<12}{text}", width=width, indent=12)
    if plan.conversion_argv:
        lines += block("convert the weights first, once, on a CPU machine", shell_line(plan.conversion_argv))
    lines += command_blocks(plan, "trainer", argv=plan.trainer_argv, env=plan.trainer_env)
    if seeds := plan.seeds:
        # The trainer's line holds the seed of the first start; later starts change it.
        restart = f"+{seeds.per_restart} each restart, " if restarts_in_place(plan.run) else ""
        lines += block("seeds", f"{SEED}={seeds.first}, {restart}+{seeds.per_attempt} each attempt")
    lines += evidence_blocks(plan, audit=audit, width=width)
    return "\n".join(lines) + "\n"


def shell_line(argv: Iterable[str]) -> str:
    """Return a command that a shell reads back as exactly this argv, one flag per line; quoting happens only here."""
    words = [shlex.quote(word) for word in argv]
    head = next((i for i, word in enumerate(words) if word.startswith("-") or "=" in word), len(words))
    if words[0] == "python3" and "-m" in words:
        head = words.index("-m") + 2
    return " \\\n    ".join((" ".join(words[:head]), *words[head:]))


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
        yield from audit_lines(plan.audit, every_row=audit)
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


def screen_lines(plan: Plan, stages: Sequence[StagePlan], *, width: int | None) -> Iterator[str]:
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


def trainer_line(argv: Iterable[str], env: Mapping[str, str]) -> str:
    """Return the trainer's command with its environment, to be copied."""
    variables = [f"{name}={shlex.quote(text)} \\\n" for name, text in env.items()]
    return "".join((*variables, shell_line(argv)))


def problems_block(problems: tuple[Problem | ProblemFields, ...], *, width: int | None = None) -> Iterator[str]:
    """Yield the block of problems; nothing without problems."""
    if problems:
        lines = (line for p in problems for line in problem_lines(p))
        yield from block("checks", "\n".join(part for line in lines for part in wrap_line(line, width=width, indent=4)))


def audit_lines(rows: tuple[AuditRow, ...], *, every_row: bool) -> Iterator[str]:
    """Yield the counts by outcome, and the rows that differ from the request; with `every_row` all of them."""
    outcomes = [row.outcome for row in rows]
    counts = ", ".join(f"{outcomes.count(o)} {o}" for o in ("landed", "patched", "dropped", "altered") if o in outcomes)
    shown = rows
    hint = ""
    if not every_row:
        shown = tuple(row for row in rows if row.outcome in ("dropped", "altered"))
        hint = " (--audit shows each field)"
    yield ""
    yield f"## audit: {counts}{hint}"
    if shown:
        yield from _table(shown)


def block(title: str, body: str) -> Iterator[str]:
    """Yield a part of a plan under its title."""
    yield ""
    yield f"## {title}"
    yield body


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


FITS: dict[FitFinding, str] = {
    "fits": "yes",
    "marginal": "just",
    "no": "no",
    "invalid": "no: it cannot be built",
    "likely": "likely",
    "doubtful": "perhaps not",
}
"""Answer of a check -> words."""

DEFAULT_LENGTH = 2048
"""Default of MaxText's max_target_length; source: maxtext@0.2.5 configs/base.yml."""


def summary(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of each line."""
    run = plan.run
    yield "ready", ready_text(plan.problems)
    layout = " in its legacy layout" if run.release.layout == "legacy" else ""
    yield "run", f"{plan.run_name}, digest {plan.spec_digest[:12]}, MaxText {run.release.version}{layout}"
    weights = f"from {run.checkpoint}" if run.checkpoint else "from random weights"
    yield "model", f"{run.spec.model.name}, {weights}"
    yield "data", _data_text(plan)
    if run.hub_commits:
        yield "hub", ", ".join(f"{part} at {commit[:12]}" for part, commit in run.hub_commits.items())
    yield "steps", f"{run.spec.train.steps} of {_tokens_per_step(plan)}, a checkpoint every {run.checkpoint_period}"
    yield "mode", f"{plan.mode.value} ({plan.mode.reason})"
    yield from _where_rows(plan)
    for problem in plan.problems:
        if problem.fit:
            yield "fits", f"{FITS[problem.fit]}: {problem.message}"
    if plan.time:
        yield "time", time_text(plan.time)
    yield "restarts", f"{_restarts_text(plan)}; {_compiled_text(plan)}"
    yield "secrets", secrets_text(run)
    yield "results", f"{(run.output or '?').rstrip('/')}/{plan.run_name}/checkpoints"


def ready_text(problems: tuple[Problem, ...]) -> str:
    """Return whether submit would accept the plan, as text."""
    errors, refused = errors_in(problems), errors_in(for_submission(problems))
    if errors:
        return f"no: {counted_text(len(errors), 'error')} ({_ids(errors)})"
    if refused:
        return f"not yet: submit would refuse it ({_ids(refused)})"
    warnings = tuple(p for p in problems if p.severity == "warning")
    return f"yes, with {counted_text(len(warnings), 'warning')} ({_ids(warnings)})" if warnings else "yes"


def _ids(problems: tuple[Problem, ...]) -> str:
    return ", ".join(dict.fromkeys(p.id for p in problems))


def _data_text(plan: Plan) -> str:
    data = plan.run.spec.data
    files = f" {data.hf_train_files}" if data.hf_train_files else ""
    passes = f", {data.num_epoch} epochs" if (data.num_epoch or 1) > 1 else ""
    return f"{data.hf_path}{files}, split {data.train_split}, columns {', '.join(data.columns)}{passes}"


def _tokens_per_step(plan: Plan) -> str:
    """Return the tokens per step as text; padding counts, because the chips compute it."""
    keys = trainer_of(plan.run).trainer_keys(plan.run)
    length = int(number(keys.get("max_target_length")) or DEFAULT_LENGTH)
    if plan.on_cluster and plan.run.slice is None:
        return f"sequences of {length:,} tokens"
    sequences = rows_per_step(plan.run, keys)
    return f"{sequences * length:,} tokens ({sequences:,} sequences of {length:,})"


def _where_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    run = plan.run
    if plan.on_this_machine:
        yield "place", "this machine" + (f", in a container of {run.spec.image.ref}" if run.spec.image.ref else "")
        return
    yield "cluster", cluster_text(run)
    yield "JobSet", f"{plan.jobset} in namespace {run.namespace}, queue {run.queue}, priority {run.spec.priority}"
    if run.slice:
        yield "slices", f"{run.num_slices} x {run.slice.describe}: {run.chips} chips"


def cluster_text(run: Run) -> str:
    """Return the cluster's context, or its name, project and zone."""
    place = run.place
    if place is None:
        return "?"
    return f"context {place.context}" if place.context else f"{place.cluster} ({place.project}, {place.zone})"


def _restarts_text(plan: Plan) -> str:
    limit = f"at most {plan.run.spec.restarts.max}, " if restarts_in_place(plan.run) else ""
    order = "in the same order" if plan.seeds is None else "in another order"
    return f"{limit}rows again {order}"


def _compiled_text(plan: Plan) -> str:
    """Return where compiled programs are kept, so that a restart need not compile again, as text."""
    if plan.mode.single_controller:
        return f"compiled programs: {plan.run.servers.scratch or 'the scratch bucket of Pathways'}"
    if folder := trainer_of(plan.run).trainer_keys(plan.run).get("jax_cache_dir"):
        return f"compiled programs: {folder}"
    if plan.on_this_machine and "jax_cache_dir" not in plan.run.spec.overrides.maxtext:
        return "compiled programs: xsft's cache folder"
    return "it compiles again (jax_cache_dir is empty)"


def secrets_text(run: Run) -> str:
    """Return the Secrets that the run's pods read."""
    secrets = []
    if token := run.spec.secrets.hf_token:
        secrets.append(f"{token.secret} (Hugging Face token, key {token.key})")
    secrets += [f"{secret.secret} ({name}, key {secret.key})" for name, secret in run.spec.secrets.env.items()]
    if run.spec.image.pull_secret:
        secrets.append(f"{run.spec.image.pull_secret} (image)")
    return ", ".join(secrets) or "none"


class RunTimeDocument(Document, frozen=True, kw_only=True):
    """Minimum time of a run's steps on its TPUs, by arithmetic; real steps take longer."""

    steps: int
    step_time_bound_s: float
    """Minimum time of a step, in seconds."""
    bound_by: Literal["arithmetic"]
    """The matrix multiplications with the model's weights, at the chips' full rate."""
    resources_s: dict[str, float]
    """Seconds by `bound_by`."""
    compiled: bool
    """Always false: the compiled program is not counted."""
    tokens_per_second_bound: float
    """Per device, at most, padding included."""
    mfu_bound: float | None
    """Always null: arithmetic alone is the whole of its own time."""
    chip_hours_bound: float
    cost_bound: float | None
    """Minimum cost, by the place's `chip_hour_price`; null without a price."""
    measured_over_bound: tuple[float, ...]
    """Measured step time over the minimum; empty for steps shorter than published ones."""
    measured_by: Literal["own", "published"]
    """`own`: runs of this model on this TPU type that were submitted from this machine and have a receipt."""


def time_document(time: RunTime) -> RunTimeDocument:
    return RunTimeDocument(
        steps=time.steps,
        step_time_bound_s=time.step_s,
        bound_by="arithmetic",
        resources_s={"arithmetic": time.step_s},
        compiled=False,
        tokens_per_second_bound=time.tokens_per_second,
        mfu_bound=None,
        chip_hours_bound=time.chip_hours,
        cost_bound=time.cost,
        measured_over_bound=time.ratios,
        measured_by="own" if time.own else "published",
    )


def time_text(time: RunTime) -> str:
    """Return the least time of the steps, what it costs, and the time at the pace of your runs or of published ones."""
    duration = "under a second"
    if time.seconds >= 1:
        duration = f"at least {duration_text(time.seconds)}"
    cost = f" and {time.cost:,.2f} at {time.price:g} per chip-hour" if time.cost is not None else ""
    bound = (
        f"{duration} of arithmetic for {counted_text(time.steps, 'step')} ({time.step_s:.3g} s each), "
        f"{_amount(time.chip_hours)} chip-hours{cost}"
    )
    if not time.ratios:
        return f"{bound}; steps this short take several times that"
    runs = counted_text(len(time.ratios), "published run")
    if time.own:
        runs = f"{len(time.ratios)} of your runs of this model"
    ratios = _range_text(f"{ratio:.1f}" for ratio in time.ratios)
    durations = _range_text(duration_text(time.seconds * ratio) for ratio in time.ratios)
    return f"{bound}; {runs} took {ratios} times that, here {durations}"


def _range_text(amounts: Iterable[str]) -> str:
    """Return the first and the last of ascending amounts as text; one of them if both read the same."""
    texts = tuple(amounts)
    return " to ".join(dict.fromkeys((texts[0], texts[-1])))


def _amount(value: float) -> str:
    return f"{value:,.1f}" if value >= 1 else f"{value:.2g}"
