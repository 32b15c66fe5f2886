"""Asks the installed MaxText about a workload: its input pipeline about the first rows, its parser about the keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from xsft.base.acceptance import accept_late
from xsft.base.errors import SpecError, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.catalog.releases import DEFAULT
from xsft.checks.data import check_row_answers, not_answered
from xsft.checks.parsed import ParserAnswer, ParserQuestion, check_parser_answer, question_of
from xsft.data.passes import CHECKED, evaluates, passes_to_inspect
from xsft.data.pipeline import PipelineHost, read_passes
from xsft.data.tokenizer import read_tokenizer
from xsft.environments import environments
from xsft.environments.ask import PROGRAMS, Interpreter, ask
from xsft.environments.installed import BuiltEnvironment
from xsft.evaluation.trainer_plan import held_out_keys
from xsft.machine.paths import hub_cache, own_cache
from xsft.machine.pid_namespace import detect
from xsft.machine.process import own_environment
from xsft.planning.steps import Intent, Plan
from xsft.spec.resolve import Run
from xsft.spec.stages import EvaluateStage
from xsft.trainer.local import OFFLINE, PASSED_ON

ROWS_TIMEOUT_S = 120.0
"""About 8 s on a quiet machine, mostly imports."""
FIX = "Build it: `xsft setup maxtext`; each check then asks MaxText's own pipeline about the first rows."


def ask_rows(plan: Intent | Plan, *, offline: bool = False, say: ShowLine = lambda _line: None) -> tuple[Problem, ...]:
    """Return what MaxText's pipeline says of the first rows, besides the problems of the plan; nothing if the rows are
    not in files that this machine can read, or the plan has errors in them."""
    would_stop_first = any(
        problem.severity == "error" and problem.is_in(("data", "model.tokenizer", "model.tokenizer_revision"))
        for problem in plan.problems
    )
    if would_stop_first or not _has_readable_rows(plan.run, offline=offline):
        return ()
    maxtext = environments.find_environment("maxtext")
    if maxtext is None:
        return (not_answered("MaxText's environment is not built", FIX),)
    return accept_late(_ask_pipeline(plan, maxtext, say), plan.run.spec.checks)


def _ask_pipeline(plan: Intent | Plan, maxtext: BuiltEnvironment, say: ShowLine) -> tuple[Problem, ...]:
    run = plan.run
    tokenizer = read_tokenizer(
        run.located(run.tokenizer or ""), revision=run.tokenizer_revision, hub_cache=hub_cache(own_environment())
    )
    if tokenizer is None:
        return (not_answered(f"the tokenizer {run.tokenizer} is not on this machine"),)
    passes = tuple(passes_to_inspect(run, split="train", rows=CHECKED))
    try:
        answers = read_passes(
            run,
            passes,
            host=offline_host(maxtext),
            held_out=held_out_keys(run, EvaluateStage()),
            tokenizer=tokenizer.folder,
            say=say,
            timeout_s=ROWS_TIMEOUT_S,
        )
    except SpecError as refused:
        return refused.problems
    except XsftError as failed:
        return (not_answered(failed.message, failed.fix),)
    return tuple(check_row_answers(run, answers, found=plan.problems))


def offline_host(maxtext: BuiltEnvironment) -> PipelineHost:
    """Return the environment's pipeline without the network, and without variables that would change its keys."""
    users = own_environment()
    env = {name: users[name] for name in PASSED_ON if name in users}
    return PipelineHost(
        python=maxtext.python,
        env={**env, **OFFLINE, "HF_HOME": str(own_cache() / "huggingface")},
        prefix=detect().prefix,
        answers=own_cache() / "row-answers",
        digest=maxtext.digest,
    )


def _has_readable_rows(run: Run, *, offline: bool) -> bool:
    files = [run.spec.data.hf_train_files or ""]
    if evaluates(run):
        files.append(run.spec.data.hf_eval_files or run.spec.data.hf_train_files or "")
    in_bucket = [name.startswith("gs://") for name in files]
    if any(in_bucket) and offline:
        return False
    return all(files) and (all(in_bucket) or run.spec.on_this_machine)


PARSER = "xsft.workers.parse_arguments"
PARSER_TIMEOUT_S = 180.0
"""About 5 s on a quiet machine, mostly imports, and 0.1 s more for each command line; a busy one took 90 s."""


def ask_maxtext(intents: Sequence[Intent | Plan]) -> tuple[tuple[Problem, ...], ...]:
    """Return what the installed MaxText's own parser says of each intent, besides its problems. One process answers all
    new questions: about 5 s on a quiet machine."""
    answers = ask_parser([question_of(intent.run, intent.trainer_argv) for intent in intents])
    return tuple(
        accept_late(check_parser_answer(intent.run, answer, found=intent.problems), intent.run.spec.checks)
        for intent, answer in zip(intents, answers, strict=True)
    )


def ask_parser(questions: Sequence[ParserQuestion]) -> tuple[ParserAnswer, ...]:
    """Return MaxText's answers, in the same order. Raises nothing: `unanswered` gives the reason for a missing
    answer."""
    maxtext = environments.find_environment("maxtext")
    if maxtext is None:
        reason = "MaxText's environment is not built: `xsft setup maxtext`"
        return tuple(ParserAnswer(unanswered=reason) for _ in questions)
    program = hashlib.sha256((PROGRAMS / "parse_arguments.py").read_bytes()).hexdigest()
    answers: dict[ParserQuestion, ParserAnswer] = {}
    new: dict[ParserQuestion, Path] = {}
    for question in questions:
        content = json.dumps([maxtext.digest, program, msgspec.to_builtins(question)])
        file = own_cache() / "parser-answers" / f"{hashlib.sha256(content.encode()).hexdigest()}.json"
        cached = _cached_answer(file)
        if cached is not None:
            answers[question] = cached
        elif question.release == DEFAULT:
            new[question] = file
        else:
            reason = f"this machine has MaxText {DEFAULT}, but the image has {question.release}"
            answers[question] = ParserAnswer(unanswered=reason)
    if new:
        answers |= zip(new, _ask_parser(maxtext, new), strict=True)
    return tuple(answers[question] for question in questions)


def _ask_parser(maxtext: BuiltEnvironment, questions: Mapping[ParserQuestion, Path]) -> list[ParserAnswer]:
    env = own_environment(JAX_PLATFORMS="cpu", HF_HUB_OFFLINE="1")
    interpreter = Interpreter(python=maxtext.python, env=env, cwd=Path("/"), timeout_s=PARSER_TIMEOUT_S)
    job = [
        {"argv": question.argv, "slices": dict(question.slices), "file": str(file)}
        for question, file in questions.items()
    ]
    try:
        return [_ANSWER.decode(json.dumps(answer)) for answer in ask(interpreter, PARSER, job)]
    except (XsftError, OSError, msgspec.MsgspecError) as failed:
        return [ParserAnswer(unanswered=f"its parser did not answer: {failed}")] * len(questions)


_ANSWER = msgspec.json.Decoder(ParserAnswer)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def _cached_answer(file: Path) -> ParserAnswer | None:
    try:
        return _ANSWER.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None
