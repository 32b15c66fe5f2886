"""Check the cluster, its queue, the slices' capacity and the bucket for results. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.problems import Problem, error, warning
from xsft.checks.facts import Facts
from xsft.spec.base import Keys
from xsft.spec.place import DEFAULT_QUEUE, Place
from xsft.spec.resolve import Run

GKE = ("project", "zone", "cluster")


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
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
