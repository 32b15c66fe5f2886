"""The top of a plan: whether it can be submitted, and what it decides, in a dozen lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.checks import for_submission
from xsft.checks.data import rows_per_step
from xsft.checks.values import number
from xsft.problems import Problem, errors_in
from xsft.steps import Plan
from xsft.trainers.maxtext import trainer_keys
from xsft.trainers.shuffling import restarts_in_place

DEFAULT_LENGTH = 2048
"""MaxText's max_target_length; source: maxtext@0.2.5 configs/base.yml."""

FITS = {
    "fit-known": "yes",
    "fit-marginal": "just",
    "fit-refused": "no",
    "does-not-fit": "no",
    "fit-unknown": "unknown",
}
"""Problem id -> the answer, of the checks that say whether a run fits into memory."""


def summary(plan: Plan) -> Iterator[tuple[str, str]]:
    """(Label, text) of each line."""
    run = plan.run
    yield "ready", _ready(plan.problems)
    yield "run", f"{plan.run_name}, digest {plan.spec_digest[:12]}"
    yield (
        "model",
        f"{run.spec.model.name}, {_weights(plan)}; MaxText {run.release.version}, {run.release.layout} layout",
    )
    yield "data", _data(plan)
    yield "steps", f"{run.spec.train.steps} of {_tokens(plan)}, a checkpoint every {run.checkpoint_period}"
    yield "mode", f"{plan.mode.value} ({plan.mode.reason})"
    yield from _where(plan)
    yield from _fits(plan.problems)
    yield "restarts", _restarts(plan)
    yield "secrets", _secrets(plan)
    yield "results", f"{(run.output or '?').rstrip('/')}/{plan.run_name}/checkpoints"


def _ready(problems: tuple[Problem, ...]) -> str:
    errors, refused = errors_in(problems), errors_in(for_submission(problems))
    if errors:
        return f"no: {_counted(errors, 'error')} ({_ids(errors)})"
    if refused:
        return f"not yet: submit refuses {_ids(refused)}"
    warnings = tuple(p for p in problems if p.severity == "warning")
    return f"yes, with {_counted(warnings, 'warning')} ({_ids(warnings)})" if warnings else "yes"


def _ids(problems: tuple[Problem, ...]) -> str:
    return ", ".join(dict.fromkeys(p.id for p in problems))


def _counted(problems: tuple[Problem, ...], word: str) -> str:
    return f"{len(problems)} {word}{'s' if len(problems) > 1 else ''}"


def _weights(plan: Plan) -> str:
    if plan.run.checkpoint is None:
        return "from random weights"
    return f"from {plan.run.checkpoint}"


def _data(plan: Plan) -> str:
    data = plan.run.spec.data
    files = f" {data.hf_train_files}" if data.hf_train_files else ""
    passes = f", {data.num_epoch} epochs" if (data.num_epoch or 1) > 1 else ""
    return f"{data.hf_path}{files}, split {data.train_split}, columns {', '.join(data.columns)}{passes}"


def _tokens(plan: Plan) -> str:
    """Padding counts: it is what the chips compute."""
    keys = trainer_keys(plan.run)
    length = int(number(keys.get("max_target_length")) or DEFAULT_LENGTH)
    if plan.on_cluster and plan.run.slice is None:
        return f"sequences of {length:,} tokens"
    sequences = rows_per_step(plan.run, keys)
    return f"{sequences * length:,} tokens ({sequences:,} sequences of {length:,})"


def _where(plan: Plan) -> Iterator[tuple[str, str]]:
    run = plan.run
    if plan.on_this_machine:
        yield "place", "this machine" + (f", in a container of {run.spec.image.ref}" if run.spec.image.ref else "")
        return
    yield "cluster", _cluster(plan)
    yield "JobSet", f"{plan.jobset} in namespace {run.namespace}, queue {run.queue}, priority {run.spec.priority}"
    if run.slice:
        yield "slices", f"{run.num_slices} x {run.slice.describe}: {run.chips} chips"


def _cluster(plan: Plan) -> str:
    place = plan.run.place
    if place is None:
        return "?"
    return f"context {place.context}" if place.context else f"{place.cluster} ({place.project}, {place.zone})"


def _fits(problems: tuple[Problem, ...]) -> Iterator[tuple[str, str]]:
    yield from (("fits", f"{FITS[p.id]}: {p.message}") for p in problems if p.id in FITS)


def _restarts(plan: Plan) -> str:
    most = f"at most {plan.run.spec.restarts.max}; " if restarts_in_place(plan.run) else ""
    order = "in the same order" if plan.seeds is None else "in another order"
    return f"{most}each reads the rows again, {order}"


def _secrets(plan: Plan) -> str:
    token, pull = plan.run.spec.secrets.hf_token, plan.run.spec.image.pull_secret
    named = [f"{token.secret} (Hugging Face token, key {token.key})"] if token else []
    return ", ".join((*named, *([f"{pull} (image)"] if pull else []))) or "none"
