"""Check names: short enough for the Kubernetes objects derived from them, and read by MaxText as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.names import ATTEMPT_SUFFIX, MISREAD_NAMES, job_name_limit, jobset_limit, run_name_limit, stage_name
from xsft.base.problems import Problem, error, note
from xsft.checks.facts import Facts
from xsft.spec.base import Keys
from xsft.spec.resolve import Run
from xsft.spec.stages import later_stages

SET_BY_XSFT = ("xsft.dev/", "xpk.google.com/", "cluster-autoscaler.kubernetes.io/")
"""Starts of labels and annotations of pods by which xsft and xpk find a run's pods, and an autoscaler leaves them."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check `name-misread` everywhere; on a cluster also `name-too-long`, `name-attempts` and `stage-name-…`."""
    del keys
    if run.run_name in MISREAD_NAMES:
        message = f"YAML does not read {run.run_name!r} as text, so MaxText would misread this run_name."
        yield error("name-misread", "name", message, f"Add a word: {run.run_name}-run.")
    if run.spec.on_cluster:
        yield from _check_name_length(run, facts)
        yield from _check_stage_names(run, facts)
    pods = run.spec.pods
    for name in (*pods.labels, *pods.annotations):
        if name.startswith(SET_BY_XSFT):
            message = f"xsft sets {name} on the pods itself: `status`, `cancel` and the cluster read it."
            yield error("pods-reserved", "pods", message, "Remove it, or use a name of your own.")


def _check_stage_names(run: Run, facts: Facts) -> Iterator[Problem]:
    """Check the names of the other runs of `xsft run`, before the first stage starts."""
    limit = job_name_limit(target=run.spec.target)
    to_convert = facts.checkpoint is not None and facts.checkpoint.status == "missing" and run.conversion is not None
    later = (stage for stage in later_stages(run.spec.stages) if stage != "serve")  # `serve-name` is its own check
    stages = (*(("convert",) if to_convert else ()), *later)
    if stages and facts.taken_unread:
        message = f"{run.output} was not read: {facts.taken_unread.rstrip('.')}."
        fix = (
            "Unknown: whether a training already has the name of a stage. If so, the stage's submission will refuse it."
        )
        yield note("stage-names-unknown", "name", message, fix, kind="unread")
    for name in (stage_name(run_name=run.run_name, stage=stage) for stage in stages):
        if len(name) > limit:
            message = f"{name!r}, the name of a stage's run, has {len(name)} characters; the limit is {limit}."
            fix = f"Shorten name to {limit - len(name) + len(run.run_name)} characters or fewer: --run-name NAME."
            yield error("stage-name-too-long", "name", message, fix)
        elif name in facts.taken:
            message = f"{run.output}/{name} exists: a training has the name {name}, which a stage of this run needs."
            yield error("stage-name-taken", "name", message, "Use another name: --run-name NAME.")


def _check_name_length(run: Run, facts: Facts) -> Iterator[Problem]:
    """Check the name's length with the attempt's suffix, so that a second attempt's name fits too."""
    target, mode, hosts = run.spec.target, run.mode.value, run.slice.hosts if run.slice else 1
    limit = run_name_limit(target=target, mode=mode, num_slices=run.num_slices, hosts=hosts)
    hard = jobset_limit(target=target, mode=mode, num_slices=run.num_slices, hosts=hosts)
    if len(run.run_name) > limit:
        suffix = run.run_name.removeprefix(run.spec.name)
        room = limit - len(suffix)
        counted = f"{run.run_name!r} has {len(run.run_name)} characters"
        message = (
            f"{counted}; the limit in {run.mode.value} mode is {limit} ({ATTEMPT_SUFFIX} more are reserved for `-2`, a "
            "second attempt)."
        )
        if room < 1:
            fix = f"run_name_suffix adds {len(suffix)} characters; remove it."
        else:
            fix = f"Shorten name to {room} characters or fewer, e.g. {shorten_name(run.spec.name, room)}."
        yield error("name-too-long", "name", message, fix)
    elif len(run.jobset) > hard:
        message = (
            f"Attempt {facts.attempt} would be called {run.jobset}: {len(run.jobset)} characters; the limit is {hard}."
        )
        yield error("name-attempts", "name", message, "Use another, shorter name.")


def shorten_name(name: str, limit: int) -> str:
    """Return a recognisable name of at most `limit` characters: words are cut at their ends, the longest first.

    >>> shortened("deepseek-ultrachat-pathways", 20)
    'deepse-ultrac-pathwa'
    """
    words = name.split("-")
    while len("-".join(words)) > limit and max(map(len, words)) > 1:
        longest = max(range(len(words)), key=lambda i: len(words[i]))
        words[longest] = words[longest][:-1]
    return "-".join(words)[:limit].rstrip("-") or name[0]
