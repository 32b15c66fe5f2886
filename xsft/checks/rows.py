"""Check rows of data: their shape in the first megabyte, and what MaxText's own pipeline makes of a sample. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.tokenizers import refuses_system, wants_alternating_roles
from xsft.checks.facts import Facts
from xsft.checks.special_tokens import reads_texts
from xsft.checks.trainer_keys import is_on
from xsft.data.facts import DataFacts
from xsft.data.findings import findings, summarize
from xsft.data.passes import FaultyRow, PassAnswers, Split, inspection_of, reading_of
from xsft.data.refusals import refused_rows_problem
from xsft.spec.base import Keys
from xsft.spec.resolve import Run
from xsft.trainer.arguments import QUESTION_FORMATTER
from xsft.workers.row_shape import ROLES, is_question, messages_of, shape_fault

LATE_IDS = frozenset(
    {"data-columns", "data-conversation", "data-roles", "data-template", "data-no-target", "data-truncated",
     "data-no-end", "data-role-dropped", "data-empty-turn", "data-null", "data-parts", "data-text-dropped",
     "data-text-added", "data-key-unread", "data-vocabulary", "data-leak", "data-steps", "data-sorted", "data-refused",
     "data-unreadable"}
)  # fmt: skip
"""Problems that are found once MaxText has answered, which may be after a plan."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check rows of the files for training, and of those for evaluation."""
    sampled: tuple[tuple[DataFacts | None, str, Split], ...] = (
        (facts.data, "data.hf_train_files", "train"),
        (facts.eval_data, "data.hf_eval_files", "eval"),
    )
    row_problems: list[Problem] = []
    for data, where, split in sampled:
        if data is not None:
            row_problems.extend(_check_files(run, keys, data, where=where, split=split))
    yield from row_problems
    if facts.counted is not None:
        # The last `xsft data inspect` read the same rows with the same keys: it repeats what the files show.
        shown = {problem.id for problem in row_problems}
        origin = f"(xsft data inspect, {facts.counted.on}, {facts.counted.rows})"
        for problem in facts.counted.problems:
            if problem.id not in shown:
                yield replace(problem, message=f"{problem.message} {origin}")
    if facts.data is not None and facts.data.counted is not None:
        named = run.spec.data.rows
        counted = facts.data.counted
        if named is not None and counted and named != counted:
            message = f"data.rows is {named:,}, but the files have {counted:,} rows."
            fix = f"Set rows: {counted}, or remove it; xsft counts the files' rows."
            yield warning("data-rows", "data.rows", message, fix)


def check_row_answers(run: Run, answers: PassAnswers, *, found: Sequence[Problem]) -> Iterator[Problem]:
    """Yield what MaxText's answers on a sample say, except problems of an id that the checks already found."""
    known = {problem.id for problem in found}
    inspection, reading = inspection_of(run, answers), reading_of(run)
    summary = summarize(inspection, reading=reading, vocabulary=answers.vocabulary)
    yield from (one for one in findings(inspection, summary, reading=reading) if one.id not in known)


def not_answered(why: str, fix: str = "") -> Problem:
    """Return the note that MaxText was not asked about the rows."""
    message = f"Only columns, types and roles of the first megabyte of rows were checked: {why.rstrip('.')}."
    return note("data-not-counted", "data", message, fix or "Ask MaxText: `xsft data inspect FILE`.", kind="unread")


def _check_files(run: Run, keys: Keys, data: DataFacts, *, where: str, split: Split) -> Iterator[Problem]:
    if data.problem:
        yield data.problem
        return
    if data.counted == 0:
        yield error("data-empty", where, "The files have no rows; MaxText would fail at its start.", "Add rows.")
        return
    if data.empty:
        yield warning("data-empty", where, f"{len(data.empty):,} files are empty: {data.empty[0]}.", "Remove them.")
    # What a user's own function or the multimodal pipeline takes from the columns is unknown.
    if not _reads_messages(keys):
        return
    columns = run.spec.data.columns
    if split == "eval" and run.spec.data.eval_columns:
        columns = run.spec.data.eval_columns
    texts = keys.get("dataset_type") == "grain"
    faults = [
        FaultyRow(row=row, at=sampled.at, id=fault.id, fault=fault.why)
        for row, sampled in enumerate(data.rows)
        if (fault := shape_fault(sampled.row, columns, texts=texts))
    ]
    for name in dict.fromkeys(fault.id for fault in faults):
        yield refused_rows_problem([one for one in faults if one.id == name], count=len(data.rows), where=where)
    if not faults and not is_question(columns, texts=texts):
        yield from _check_known_template(run, keys, data, columns, where=where)


def _reads_messages(keys: Keys) -> bool:
    """Return whether MaxText reads messages, or questions and answers, from the columns."""
    formatter = keys.get("formatting_func_path")
    own = formatter and formatter != QUESTION_FORMATTER
    return not own and reads_texts(keys) and not is_on(keys.get("use_multimodal", False))


def _check_known_template(
    run: Run, keys: Keys, data: DataFacts, columns: Sequence[str], *, where: str
) -> Iterator[Problem]:
    """Check the roles against the catalogue, for a chat template that is not on this machine."""
    if keys.get("chat_template") or keys.get("chat_template_path"):
        return
    for sampled in data.rows:
        roles = [str(message["role"]) for message in messages_of(sampled.row, columns)]
        if refused := _refused_roles(roles, run.tokenizer or ""):
            what, fix = refused
            message = f"{sampled.at} has {what}, which the chat template of {run.tokenizer} refuses."
            yield error("data-template", where, message, f"{fix}: data.chat_template.", kind="disputable")
            return


def _refused_roles(roles: Sequence[str], tokenizer: str) -> tuple[str, str] | None:
    """Return the part of the row that the tokenizer's template refuses, and the fix; None if none is known."""
    if "system" in roles and refuses_system(tokenizer):
        return "a system message", "Move its text into the first question, or set a template that accepts it"
    read = [role for role in roles if role in ROLES]
    if ("user", "user") in pairwise(read) and wants_alternating_roles(tokenizer):
        return "two questions in a row", "Join them, or set a template that accepts both"
    return None
