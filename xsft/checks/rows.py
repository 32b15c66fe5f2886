"""Check rows of data on this machine: rows on which MaxText would fail, or that train nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.tokenizers import refuses_system, wants_alternating_roles
from xsft.checks.facts import Facts
from xsft.checks.values import is_on, number
from xsft.data.facts import CountedData, DataFacts, RoundTokens, TokenizerFacts
from xsft.data.passes import Split
from xsft.data.verdicts import Round, length_problems, row_problems, texts_of
from xsft.spec.base import Keys
from xsft.spec.resolve import Run
from xsft.trainer.arguments import QUESTION_FORMATTER, QUESTION_TEXTS
from xsft.trainer.chat import TemplateFailed, renderer
from xsft.trainer.trainer import trainer_of
from xsft.workers.row_rules import ROLES, RenderMessages, RowRules, judge_row

LIMIT = 2048
"""MaxText's default of max_target_length. source: maxtext@0.2.5 maxtext/configs/base.yml."""
MARKS = ("add_bos", "add_eos")
"""Keys, on by default, with which Grain's pipeline adds tokens to each text; Hugging Face's does not read them."""
COMPLETION_ONLY = "sft_train_on_completion_only"
FEW_TOLD = 20
"""Minimum number of first rows from which a sample decides a type."""
SEPARATOR = f"{QUESTION_TEXTS}.REASONING_ANSWER_SEPARATOR"


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check rows of the files for training, and of those for evaluation."""
    sampled: tuple[tuple[DataFacts | None, str, Split], ...] = (
        (facts.data, "data.hf_train_files", "train"),
        (facts.eval_data, "data.hf_eval_files", "eval"),
    )
    for found, where, split in sampled:
        if found is not None:
            rules = _message_rules(_split_columns(run, split), keys, facts.tokenizer)
            yield from _of_files(found, where, rules)
            yield from _template_refused(run, keys, found, rules, where=where)
            if keys.get("hf_path") == "json":
                yield from _check_column_types(found, where)
    if facts.counted is not None:
        yield from _counted_before(facts.counted)
    elif facts.tokenized:
        yield from _check_lengths(facts.tokenized, keys, split="train")
    elif facts.data is not None and facts.data.rows:
        yield _not_counted(facts)
    yield from _check_lengths(facts.eval_tokenized, keys, split="eval")
    if facts.data is not None and facts.data.counted is not None:
        yield from _check_row_count(run, facts.data.counted)


def sampled_texts(run: Run, facts: Facts, *, split: Split) -> tuple[tuple[Round, ...], ...]:
    """Return the texts of sampled rows by the template, to be tokenised; empty if they are unknown."""
    found = facts.data if split == "train" else facts.eval_data
    keys = trainer_of(run).trainer_keys(run)
    rules = _message_rules(_split_columns(run, split), keys, facts.tokenizer)
    if rules and rules.grain and any(is_on(keys.get(mark, True)) for mark in MARKS):
        return ()
    return texts_of(found.rows, rules) if found and rules and rules.render else ()


def _split_columns(run: Run, split: Split) -> list[str]:
    data = run.spec.data
    return data.columns if split == "train" else data.eval_columns or data.columns


def _check_lengths(tokenized: Sequence[Sequence[RoundTokens]], keys: Keys, *, split: Split) -> Iterator[Problem]:
    limit = int(number(keys.get("max_target_length")) or LIMIT)
    only = is_on(keys.get(COMPLETION_ONLY, True))
    yield from length_problems(tokenized, limit=limit, completion_only=only, split=split)


def _of_files(found: DataFacts, where: str, rules: RowRules | None) -> Iterator[Problem]:
    if found.problem:
        yield found.problem
    if found.counted == 0:
        yield error("data-empty", where, "The files have no rows; MaxText would fail at its start.", "Add rows.")
        return
    if found.empty:
        yield warning("data-empty", where, f"{len(found.empty):,} files are empty: {found.empty[0]}.", "Remove them.")
    if rules and not rules.grain and "question" not in rules.columns and set(rules.columns) <= set(found.large):
        yield _large(rules.columns, where)
        return
    if rules is None:
        yield _not_judged(where)
    elif found.problem is None:
        yield from row_problems(found, rules, where=where)


def _template_refused(
    run: Run, keys: Keys, found: DataFacts, rules: RowRules | None, *, where: str
) -> Iterator[Problem]:
    """Check the roles against the catalogue, if the chat template is not on this machine."""
    own = keys.get("chat_template") or keys.get("chat_template_path")
    if rules is None or rules.render or own:
        return
    for row in found.rows:
        roles = [str(message["role"]) for message in judge_row(row.row, rules).messages]
        if refused := _refused_roles(roles, run.tokenizer or ""):
            what, fix = refused
            message = f"{row.at} has {what}, which the chat template of {run.tokenizer} refuses."
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


def _check_column_types(found: DataFacts, where: str) -> Iterator[Problem]:
    """Check that later rows and files have the types of the first ones. In a sample, only a column that is null in all
    first rows is judged.
    """
    clash, sampled = found.clash, found.counted is None
    if found.problem or clash is None:
        return
    first_rows = sum(row.keys != "cast" for row in found.rows)
    if sampled and (clash.told != "null" or first_rows < FEW_TOLD):
        return
    given = "is null in all first rows" if clash.told == "null" else f"is of the type {clash.told} in the first rows"
    message = (
        f"{clash.path} {given}{' that were looked at' if sampled else ''}, from which datasets infers its type, and "
        f"{_short_value(clash.found)} in later ones: MaxText stops with `Couldn't cast array` or `ArrowInvalid`."
    )
    fix = f"Remove {clash.path}, give it one type, or write the rows as parquet: `xsft data prepare FILE`."
    if sampled:
        yield warning("data-retyped", where, message, fix)
    else:
        yield error("data-retyped", where, message, fix, kind="disputable")


def _short_value(value: object) -> str:
    return f"text ({value[:20]!r})" if isinstance(value, str) else f"{type(value).__name__} ({str(value)[:20]})"


def _not_judged(where: str) -> Problem:
    message = (
        "The rows were not checked: xsft cannot predict the output of data.formatting_func or of a multimodal pipeline."
    )
    return note(
        "data-not-read",
        where,
        message,
        "See the rows as MaxText formats them: `xsft data inspect FILE`.",
        kind="unread",
    )


def _large(columns: tuple[str, ...], where: str) -> Problem:
    """Return the error for messages as Polars writes them. source: maxtext@0.2.5 input_pipeline/input_pipeline_utils.py
    [is_conversational]; datasets@5.2.0 features/features.py [LargeList].
    """
    message = f"{', '.join(columns)} has large lists, which MaxText does not accept as conversations."
    fix = "Write plain lists, as pyarrow's pa.list_ and datasets do."
    return error("data-conversation", where, message, fix, kind="disputable")


def _counted_before(counted: CountedData) -> Iterator[Problem]:
    """Yield the problems of the last `xsft data inspect`, which read the same rows with the same keys."""
    for problem in counted.problems:
        yield replace(problem, message=f"{problem.message} (xsft data inspect, {counted.on}, {counted.rows})")


def _not_counted(facts: Facts) -> Problem:
    message = "The number of rows that are truncated or train no token is unknown for these rows and keys."
    fix = "Count them: `xsft data inspect FILE`; later checks use the result."
    if facts.no_counter:
        message = f"{message} MaxText's environment, which has the tokenizers, is not built."
        fix = "Build it: `xsft setup maxtext`; each check then counts the tokens of a sample."
    return note("data-not-counted", "data", message, fix)


def _check_row_count(run: Run, rows: int) -> Iterator[Problem]:
    given = run.spec.data.rows
    if given is not None and rows and given != rows:
        message = f"data.rows is {given:,}, but the files have {rows:,} rows."
        yield warning(
            "data-rows", "data.rows", message, f"Set rows: {rows}, or remove it; xsft counts the files' rows."
        )


def _message_rules(columns: list[str], keys: Keys, tokenizer: TokenizerFacts | None) -> RowRules | None:
    """Return the rules that turn rows into messages; None if unknown."""
    function = keys.get("formatting_func_path")
    pipeline = str(keys.get("dataset_type") or "hf")
    if pipeline not in ("hf", "grain") or is_on(keys.get("use_multimodal", False)):
        return None
    if function and function != QUESTION_FORMATTER:
        return None
    return RowRules(
        columns=tuple(columns),
        texts=pipeline == "grain",
        grain=_grain_format(keys) if pipeline == "grain" else "",
        render=_render(keys, tokenizer),
        completion_only=is_on(keys.get(COMPLETION_ONLY, True)),
        formatted=any(key.startswith(QUESTION_TEXTS) for key in keys),
        separator=str(keys.get(SEPARATOR) or ""),
    )


def _grain_format(keys: Keys) -> Literal["parquet", "arrayrecord"]:
    return "arrayrecord" if keys.get("grain_file_type") == "arrayrecord" else "parquet"


def _render(keys: Keys, tokenizer: TokenizerFacts | None) -> RenderMessages | None:
    """Return the function that renders the template; None if it is unknown, or if `checks.template` reports a problem
    of it."""
    own = tokenizer.template if tokenizer else None
    template = str(keys.get("chat_template") or own or "")
    if not template or keys.get("chat_template_path") or tokenizer is None:
        return None
    named = {"bos": tokenizer.bos, "eos": tokenizer.eos, "pad": tokenizer.pad, "unk": tokenizer.unk}
    try:
        return renderer(template, {f"{name}_token": token for name, token in named.items() if token})
    except TemplateFailed:
        return None
