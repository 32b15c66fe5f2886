"""Asks the installed MaxText's input pipeline about the first rows of a workload's data, for its problems."""

from __future__ import annotations

from collections.abc import Sequence

from xsft.base.acceptance import accept_late
from xsft.base.errors import SpecError, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.checks.data import check_row_answers, not_answered
from xsft.data.passes import CHECKED, evaluates, passes_to_inspect
from xsft.data.pipeline import PipelineHost, read_passes
from xsft.data.tokenizer import read_tokenizer
from xsft.environments import environments
from xsft.environments.installed import BuiltEnvironment
from xsft.evaluation.trainer_plan import held_out_keys
from xsft.machine.paths import hub_cache, own_cache
from xsft.machine.pid_namespace import detect
from xsft.machine.process import own_environment
from xsft.planning.steps import Intent, Plan
from xsft.spec.resolve import Run
from xsft.spec.stages import EvaluateStage
from xsft.trainer.local import OFFLINE, PASSED_ON

TIMEOUT_S = 120.0
"""About 8 s on a quiet machine, mostly imports."""
FIX = "Build it: `xsft setup maxtext`; each check then asks MaxText's own pipeline about the first rows."


def ask_rows(made: Intent | Plan, *, offline: bool = False, say: ShowLine = lambda _line: None) -> tuple[Problem, ...]:
    """Return what MaxText's pipeline says of the first rows, besides the problems of the plan; nothing if the rows are
    not in files that this machine can read, or the plan has errors in them."""
    if not _has_readable_rows(made.run, offline=offline) or _would_stop_first(made.problems):
        return ()
    maxtext = environments.find_environment("maxtext")
    if maxtext is None:
        return (not_answered("MaxText's environment is not built", FIX),)
    return accept_late(_ask_pipeline(made, maxtext, say), made.run.spec.checks)


def _ask_pipeline(made: Intent | Plan, maxtext: BuiltEnvironment, say: ShowLine) -> tuple[Problem, ...]:
    run = made.run
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
            timeout_s=TIMEOUT_S,
        )
    except SpecError as refused:
        return refused.problems
    except XsftError as failed:
        return (not_answered(failed.message, failed.fix),)
    return tuple(check_row_answers(run, answers, found=made.problems))


def offline_host(maxtext: BuiltEnvironment) -> PipelineHost:
    """Return the environment's pipeline without the network, and without variables that would change its keys."""
    own = own_environment()
    env = {name: own[name] for name in PASSED_ON if name in own}
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


def _would_stop_first(problems: Sequence[Problem]) -> bool:
    """Return whether MaxText would stop before its first row."""
    return any(
        problem.severity == "error" and problem.is_in(("data", "model.tokenizer", "model.tokenizer_revision"))
        for problem in problems
    )
