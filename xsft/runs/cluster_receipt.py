"""The receipt of a run on a cluster, from its objects and the log of the process that prints steps. Pure.

A restart deletes the pods and their logs, so only the processes of the latest start are read. The earlier time with
chips is `lost`, except the steps from which the latest start resumed. Of a log that was rotated, only its end is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from xsft.base.moments import earliest, moment
from xsft.cluster.observation import Observation, RunObject
from xsft.records.record import Receipt
from xsft.runs.receipt import SPENT, ReceiptFold, ReceiptState
from xsft.runs.rows import created_at, ended_at
from xsft.trainer.lines import CheckpointRestored, PhaseStarted, trainer_event
from xsft.trainer.progress import LoggedLine


def cluster_receipt(seen: Observation, lines: Iterable[LoggedLine], *, first: int = 0) -> Receipt | None:
    """Return the receipt of a JobSet so far; None without one. `first`: the step that its first start resumed from."""
    created = _seconds(created_at(seen))
    until = _seconds(ended_at(seen)) or _seconds(seen.observed_at)
    if seen.jobset is None or created is None or until is None:
        return None
    began = _seconds(_given_at(seen, seen.jobset))
    if began is None:
        return _receipt_of_waiting(seen, waited_s=max(0.0, until - created))
    again = seen.jobset.restarts > 0
    fold = ReceiptFold(at=began, state="lost" if again else "starting")
    whole = False
    resumed = first
    for line in lines:
        event = trainer_event(line.text)
        if (at := _seconds(line.at)) is not None:
            fold.take(event, at=at)
        whole = whole or isinstance(event, PhaseStarted | CheckpointRestored)
        resumed = event.step if isinstance(event, CheckpointRestored) else resumed
    receipt = fold.receipt(until=until)
    receipt = replace(receipt, seconds={**receipt.seconds, "queued": max(0.0, began - created)})
    begins_at = first + 1 if whole else min(fold.steps, default=first + 1)
    earlier = max(resumed, begins_at - 1) - first
    if earlier > 0 and (again or begins_at > first + 1):
        # before the first step that was read, all time counts as compiling, or as lost after a restart
        receipt = _with_earlier_steps(receipt, earlier, out_of="lost" if again else "compiling")
    notes = _receipt_notes(seen, earlier=max(0, earlier), begins_at=begins_at if begins_at > first + 1 else None)
    nothing = () if fold.steps else ("No log line shows a step, so nothing is counted as trained.",)
    return replace(receipt, notes=(*nothing, *notes, *_queue_notes(seen)))


def _receipt_of_waiting(seen: Observation, *, waited_s: float) -> Receipt:
    seconds: dict[str, float] = {**dict.fromkeys(SPENT, 0.0), "queued": waited_s}
    return Receipt(seconds=seconds, notes=("It holds no chips: Kueue has not admitted it.", *_queue_notes(seen)))


def _given_at(seen: Observation, jobset: RunObject) -> str | None:
    """Return when Kueue admitted the run last, or when its JobSet was created if Kueue does not manage it; None if it
    holds no chips.
    """
    if seen.workload is None:
        return None if jobset.suspended else jobset.created_at
    return earliest(*(one.at for one in seen.workload.conditions if one.type == "Admitted" and one.status == "True"))


def _with_earlier_steps(receipt: Receipt, resumed: int, *, out_of: ReceiptState) -> Receipt:
    """Return the receipt with steps whose lines are gone, at the pace and size of the steps that were read.

    `out_of`: the state that their time was counted as.
    """
    if not receipt.steps:
        return receipt
    done: float = receipt.seconds["training"] / receipt.steps * resumed
    training = min(receipt.seconds[out_of], done)
    share = (receipt.steps + resumed) / receipt.steps
    seconds = {
        **receipt.seconds,
        out_of: receipt.seconds[out_of] - training,
        "training": receipt.seconds["training"] + training,
    }
    return replace(
        receipt,
        seconds=seconds,
        steps=receipt.steps + resumed,
        tokens_per_device=None if receipt.tokens_per_device is None else receipt.tokens_per_device * share,
        target_tokens=None if receipt.target_tokens is None else round(receipt.target_tokens * share),
    )


def _receipt_notes(seen: Observation, *, earlier: int, begins_at: int | None) -> Iterator[str]:
    """Yield what is estimated. `begins_at`: the first step in a log that was rotated."""
    if begins_at is not None:
        yield f"The log begins at step {begins_at}; the steps before it are counted at the pace of the others."
    if seen.jobset and seen.jobset.restarts:
        yield (
            f"Restarted {seen.jobset.restarts} times: the logs of earlier starts are gone. Their {earlier} saved steps "
            "are counted at the pace of the latest start, and the rest of their time as lost."
        )


def _queue_notes(seen: Observation) -> Iterator[str]:
    if any(one.what == "workloads" for one in seen.unread):
        yield "Its Kueue Workload was not read: time in the queue is counted as held."
    if seen.workload and seen.workload.evictions:
        yield f"Evicted {seen.workload.evictions} times: all time before the latest admission is counted as queued."


def _seconds(time: str | None) -> float | None:
    found = moment(time)
    return found.timestamp() if found else None
