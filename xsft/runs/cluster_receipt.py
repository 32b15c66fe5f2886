"""The receipt of a run on a cluster, from its objects and the log of the process that prints steps. Pure.

A restart deletes the pods and their logs, so only the processes of the latest start are read. The earlier time with
chips is `lost`, except the steps from which the latest start resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from xsft.base.moments import earliest, moment
from xsft.cluster.observation import Observation
from xsft.records.record import Receipt
from xsft.runs.receipt import ReceiptFold
from xsft.runs.rows import created_at, ended_at
from xsft.trainer.lines import CheckpointRestored, trainer_event
from xsft.trainer.progress import LoggedLine


def cluster_receipt(seen: Observation, lines: Iterable[LoggedLine], *, first: int = 0) -> Receipt | None:
    """Return the receipt of a JobSet so far; None without one, or if its chips were never given. `first`: the step that
    its first start resumed from."""
    created, began = _seconds(created_at(seen)), _seconds(_given_at(seen))
    until = _seconds(ended_at(seen)) or _seconds(seen.observed_at)
    if created is None or began is None or until is None:
        return None
    again = bool(seen.jobset and seen.jobset.restarts)
    fold, resumed = ReceiptFold(at=began, state="lost" if again else "starting"), first
    for line in lines:
        event = trainer_event(line.text)
        if (at := _seconds(line.at)) is not None:
            fold.take(event, at=at)
        resumed = event.step if isinstance(event, CheckpointRestored) else resumed
    receipt = fold.receipt(until=until)
    with_queue = replace(receipt, seconds={**receipt.seconds, "queued": max(0.0, began - created)})
    counted = _with_earlier_steps(with_queue, resumed - first) if resumed > first and again else with_queue
    return replace(counted, notes=tuple(_receipt_notes(seen, resumed=max(0, resumed - first), told=receipt.steps > 0)))


def _given_at(seen: Observation) -> str | None:
    """Return when Kueue admitted the run last; without Kueue, when its JobSet was created."""
    if seen.jobset is None:
        return None
    if seen.workload is None:
        return seen.jobset.created_at
    return earliest(*(one.at for one in seen.workload.conditions if one.type == "Admitted" and one.at))


def _with_earlier_steps(receipt: Receipt, resumed: int) -> Receipt:
    """Return the receipt with the steps of earlier starts, at the pace and size of the steps that were read."""
    if not receipt.steps:
        return receipt
    done: float = receipt.seconds["training"] / receipt.steps * resumed
    training = min(receipt.seconds["lost"], done)
    share = (receipt.steps + resumed) / receipt.steps
    seconds = {
        **receipt.seconds,
        "lost": receipt.seconds["lost"] - training,
        "training": receipt.seconds["training"] + training,
    }
    return replace(
        receipt,
        seconds=seconds,
        steps=receipt.steps + resumed,
        tokens_per_device=None if receipt.tokens_per_device is None else receipt.tokens_per_device * share,
        target_tokens=None if receipt.target_tokens is None else round(receipt.target_tokens * share),
    )


def _receipt_notes(seen: Observation, *, resumed: int, told: bool) -> Iterator[str]:
    if not told:
        yield "No log line shows a step, so nothing is counted as trained."
    if seen.jobset and seen.jobset.restarts:
        yield (
            f"Restarted {seen.jobset.restarts} times: the logs of earlier starts are gone. Their {resumed} saved steps "
            "are counted at the pace of the latest start, and the rest of their time as lost."
        )
    if seen.workload and seen.workload.evictions:
        yield f"Evicted {seen.workload.evictions} times: all time before the latest admission is counted as queued."


def _seconds(time: str | None) -> float | None:
    found = moment(time)
    return found.timestamp() if found else None
