"""Submit a workload wherever it runs, for Python callers: nothing is printed or asked."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

from xsft.actions.listener import ActionListener, PlainView
from xsft.actions.submit.cluster import submitted
from xsft.actions.submit.local import train_here
from xsft.aliases import ShowLine
from xsft.api import Loaded, accepted, plan
from xsft.effects.local.run import LocalResult
from xsft.effects.submit.submission import Submission
from xsft.submitting import submitter_for


def submit(
    workload: Loaded, *, through_xpk: bool = False, progress: ShowLine = lambda _line: None
) -> Submission | LocalResult:
    """Execute the workload's plan: create it on its cluster, once, or train on this machine to its end.

    Raises SpecError if the plan has errors, and as `Submitter.submit` and `run_local` do; a local run that failed is
    returned as a result that says so.
    """
    (made,) = plan((workload,), progress=progress)
    accepted(made)
    listener = ActionListener(working=lambda _title: nullcontext(PlainView(show=progress)))
    if made.on_this_machine:
        return train_here(made, machine=None, listener=listener)[0]
    connect = partial(submitter_for, workload, made, through_xpk=through_xpk)
    return submitted(made, connect=connect, ask=None, listener=listener)
