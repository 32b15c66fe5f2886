"""Check the place of a run: cluster, queue, the slices' capacity and the bucket for results; and names that are short
enough for the Kubernetes objects made there, and read by MaxText as text. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.names import ATTEMPT_SUFFIX, MISREAD_NAMES, job_name_limit, jobset_limit, run_name_limit, stage_name
from xsft.base.problems import Problem, error, note, warning
from xsft.checks.facts import Facts
from xsft.spec.base import Keys
from xsft.spec.place import DEFAULT_QUEUE, Place
from xsft.spec.resolve import Run
from xsft.spec.stages import later_stages

GKE = ("project", "zone", "cluster")
SET_BY_XSFT = ("xsft.dev/", "xpk.google.com/", "cluster-autoscaler.kubernetes.io/")
"""Starts of labels and annotations of pods by which xsft and xpk find a run's pods, and an autoscaler leaves them."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    yield from check_names(run, keys, facts)
    yield from check_place(run, keys, facts)


def check_place(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for every setting that a cluster needs; all missing ones are reported at once."""
    del keys, facts
    if not run.spec.on_cluster:
        return
    if run.spec.place is None:
        message = "No place: the cluster of the workload is unknown."
        fix = "Use one from places.yaml (place: main), or set project, zone and cluster, or a kubeconfig context."
        yield error("place-missing", "place", message, fix, kind="unrenderable")
    if run.place is not None:
        stated = [name for name in GKE if getattr(run.place, name)]
        missing = [name for name in GKE if name not in stated]
        if run.place.context and stated:
            others = _join_with_and(stated)
            message = f"The place has a kubeconfig context ({run.place.context}) and {others}: two ways to one cluster."
            fix = f"Remove context, or remove {others}."
            yield error("place-context-and-gke", "place", message, fix)
        elif not run.place.context and missing:
            message = f"The place lacks {_join_with_and(missing)}."
            yield error(
                "place-incomplete", "place", message, f"Give {_join_with_and(missing)}, or only a kubeconfig context."
            )
        yield from _check_queue_namespace(run, run.place)
    yield from _check_output(run)
    yield from _check_tpu_given(run)


def _check_queue_namespace(run: Run, place: Place) -> Iterator[Problem]:
    """Check the queue's namespace. source: xpk@1.16.0 core/kueue_manager.py: the LocalQueue is made in `default`
    only.
    """
    is_given = run.spec.queue is not None or "queue" in place.model_fields_set
    if run.namespace != "default" and run.queue == DEFAULT_QUEUE and not is_given:
        message = (
            f"xpk creates its queue {DEFAULT_QUEUE} in namespace default; a run in {run.namespace} waits forever "
            "unless an administrator created a queue there."
        )
        fix = "Set queue to a LocalQueue of that namespace."
        yield warning("queue-namespace", "queue", message, fix)


def _check_output(run: Run) -> Iterator[Problem]:
    if run.output is None and run.place is None and isinstance(run.spec.place, str):
        return  # reported as place-unknown
    if run.output is None:
        message = "No output: there is no folder for checkpoints and logs."
        yield error("output-missing", "output", message, "Give a bucket: output: gs://my-bucket/runs, or in the place.")
    elif not run.output.startswith("gs://"):
        message = f"The output {run.output} is a path in the pod: checkpoints are lost with the pod."
        yield error("output-local", "output", message, "Give a bucket: output: gs://my-bucket/runs.")


def _check_tpu_given(run: Run) -> Iterator[Problem]:
    tpu = run.spec.tpu
    if tpu is None:
        message = "No tpu: the type and number of slices are unknown."
        yield error(
            "tpu-missing",
            "tpu",
            message,
            "Give type and num_slices, e.g. tpu: {type: v6e-256, num_slices: 2}.",
            kind="unrenderable",
        )
        return
    if tpu.capacity == "reservation" and not tpu.reservation:
        message = "capacity: reservation needs the name of one."
        yield error("reservation-missing", "tpu.reservation", message, "Give its name: tpu.reservation.")
    if tpu.reservation and tpu.capacity != "reservation":
        message = f"A reservation is given, but capacity is {tpu.capacity or 'unset'}: it would not be used."
        yield error("reservation-unused", "tpu.capacity", message, "Set tpu.capacity: reservation, or remove the name.")


def _join_with_and(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def check_names(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
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
    target = run.spec.target
    mode = run.mode.value
    hosts = run.slice.hosts if run.slice else 1
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
