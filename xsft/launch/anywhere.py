"""Submit a workload wherever it runs, for Python callers: nothing is printed or asked."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.problems import Problem
from xsft.base.reporting import PlainView
from xsft.launch.connecting import submitter_for
from xsft.launch.listener import ActionListener
from xsft.launch.local_run import LocalResult
from xsft.launch.submission import Submission
from xsft.launch.submit_to_cluster import submit_plan
from xsft.launch.train_here import train_here
from xsft.planning.api import LoadedWorkload, accepted_problems, plan


def submit(
    workload: LoadedWorkload, *, through_xpk: bool = False, progress: ShowLine = lambda _line: None
) -> Submission | LocalResult:
    """Execute the workload's plan: create it on its cluster, once, or train on this machine to its end.

    Raises SpecError if the plan has errors, and as `Submitter.submit` and `run_local` do. The result of a local run
    has all warnings; it is also returned for a run that failed.
    """
    (made,) = plan((workload,), progress=progress)
    accepted_problems(made)
    warnings: list[Problem] = []
    listener = ActionListener(working=lambda _title: nullcontext(PlainView(show=progress)), warn=warnings.extend)
    if made.on_this_machine:
        result, _picture = train_here(made, machine=None, listener=listener)
        return replace(result, warnings=tuple(dict.fromkeys((*result.warnings, *warnings))))
    connect = partial(submitter_for, workload, made, through_xpk=through_xpk)
    return submit_plan(made, connect=connect, ask=None, listener=listener)
