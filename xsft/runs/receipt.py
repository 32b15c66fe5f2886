"""The receipt of a run: the time of its chips by state and the trained tokens, from the trainer's lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, get_args

from msgspec import Struct, field

from xsft.base.amounts import earliest, moment
from xsft.cluster.observation import Observation, RunObject
from xsft.records.record import Attempt, Receipt
from xsft.runs.rows import created_at, ended_at
from xsft.trainer.lines import (
    CheckpointRestored,
    EvaluationBegun,
    EvaluationLoss,
    LoopFinished,
    PhaseStarted,
    SaveBegun,
    Step,
    StepLoss,
    TrainerEvent,
    trainer_event,
)
from xsft.trainer.progress import FIRST_WORDS, LoggedLine, middle

ReceiptState = Literal["queued", "starting", "compiling", "training", "evaluating", "saving", "lost"]
"""`queued`: before the chips were given, so not held. `lost`: steps that a later process trained again, and the time
between two processes."""
SPENT: tuple[ReceiptState, ...] = get_args(ReceiptState)


class TrainedStep(Struct, frozen=True, kw_only=True):
    """One finished step, as the last process that did it printed it."""

    lasted: float | None = None
    """Seconds since the event before it; None if that time is compiling or saving in part."""
    printed: float = 0.0
    """Seconds that MaxText prints of it."""
    tokens: float | None = None
    """Tokens per device, padding included: the product of two rounded figures."""
    targets: int | None = None
    tflops: float | None = None
    """Model TFLOP/s of one device."""


class ReceiptFold(Struct, kw_only=True):
    """The time so far; a new process gives the time of the steps that it repeats to `lost`."""

    at: float
    """Time of the latest event in seconds, of any clock; at first when the chips were given."""
    state: ReceiptState = "starting"
    seconds: dict[str, float] = field(default_factory=dict)
    steps: dict[int, TrainedStep] = field(default_factory=dict)
    mixed: list[tuple[ReceiptState, float]] = field(default_factory=list)
    """Intervals that hold one step beside compiling or saving."""
    paces: list[float] = field(default_factory=list)
    """Seconds of steps that neither compile nor save."""
    fresh: bool = True
    """Whether the process has not finished a step yet."""

    def take(self, event: TrainerEvent | None, *, at: float) -> None:
        match event:
            case PhaseStarted(name=name):
                if name == FIRST_WORDS:
                    self._begin(at)
                else:
                    self._enter_state("compiling", at)
            case StepLoss(step=step):
                self._note_step(step, at)
            case Step():
                self._measure(event, at)
            case SaveBegun() | LoopFinished():
                self._enter_state("saving", at)
            case EvaluationBegun():
                self._enter_state("evaluating", at)
            case EvaluationLoss():
                self._enter_state("training", at)
            case _:
                return

    def receipt(self, *, until: float) -> Receipt:
        """Return the receipt of the lines so far, with the time since the last one."""
        pace = middle(self.paces) or 0.0
        seconds: dict[str, float] = {**dict.fromkeys(SPENT, 0.0), **self.seconds}
        seconds[self.state] += max(0.0, until - self.at)
        for state, lasted in self.mixed:
            step = min(lasted, pace)
            seconds["training"] += step
            seconds[state] += lasted - step
        done = self.steps.values()
        return Receipt(
            seconds=seconds,
            steps=len(self.steps),
            tokens_per_device=self._tokens(),
            target_tokens=_rounded_or_none(_total(step_done.targets for step_done in done)),
            tflops_per_device=middle(step_done.tflops for step_done in done if step_done.lasted is not None),
        )

    def _tokens(self) -> float | None:
        """Return the tokens of all steps, which have equally many: the longest step's product is the most precise."""
        counted = [step for step in self.steps.values() if step.tokens is not None]
        longest = max(counted, key=lambda step: step.printed, default=None)
        return round(longest.tokens) * len(self.steps) if longest and longest.tokens is not None else None

    def _begin(self, time: float) -> None:
        """Begin a process: the time since an earlier one is lost."""
        if self.steps or not self.fresh:
            self.state = "lost"
        self._enter_state("starting", time)
        self.fresh = True

    def _enter_state(self, state: ReceiptState, time: float) -> None:
        self.seconds[self.state] = self.seconds.get(self.state, 0.0) + max(0.0, time - self.at)
        self.state, self.at = state, max(time, self.at)

    def _note_step(self, step: int, time: float) -> None:
        lasted, alone = max(0.0, time - self.at), self.state == "training" and not self.fresh
        if self.fresh:
            self._repeat(step)
        if alone or self.state == "evaluating":
            self._enter_state("training", time)
        else:
            self.mixed.append(("compiling" if self.state == "starting" else self.state, lasted))
        self.paces += [lasted] if alone else []
        self.steps[step] = TrainedStep(lasted=lasted if alone else None)
        self.state, self.at, self.fresh = "training", max(time, self.at), False

    def _measure(self, event: Step, at: float) -> None:
        """Add MaxText's line about a step, which is printed one step later than Tunix's loss."""
        if event.step not in self.steps:
            self._note_step(event.step, at)
        rate, seconds = event.tokens_per_second, event.seconds
        self.steps[event.step] = TrainedStep(
            lasted=self.steps[event.step].lasted,
            printed=seconds or 0.0,
            tokens=rate * seconds if rate is not None and seconds is not None else None,
            targets=event.target_tokens,
            tflops=event.tflops_per_device,
        )

    def _repeat(self, first: int) -> None:
        """Count the steps from `first` on as lost: this process does them again."""
        again = [step for step in self.steps if step >= first]
        pace = middle(self.paces) or 0.0
        lost_s = sum(one.lasted if (one := self.steps.pop(step)).lasted is not None else pace for step in again)
        self.seconds["training"] = self.seconds.get("training", 0.0) - lost_s
        self.seconds["lost"] = self.seconds.get("lost", 0.0) + lost_s


def whole_receipt(attempts: Sequence[Attempt]) -> Receipt | None:
    """Return the receipt of all attempts of a run; None if one of them has none. Steps that a later attempt repeats are
    lost, with their share of the training."""
    receipts = [_kept_receipt(one, later=attempts[place + 1 :]) for place, one in enumerate(attempts)]
    complete = [one for one in receipts if one is not None]
    if not complete or len(complete) < len(attempts):
        return None
    return Receipt(
        seconds={state: sum(one.seconds.get(state, 0.0) for one in complete) for state in SPENT},
        steps=sum(one.steps for one in complete),
        tokens_per_device=_total(one.tokens_per_device for one in complete),
        target_tokens=_rounded_or_none(_total(one.target_tokens for one in complete)),
        tflops_per_device=middle(one.tflops_per_device for one in complete),
        notes=tuple(dict.fromkeys(note for one in complete for note in one.notes)),
    )


def _kept_receipt(attempt: Attempt, *, later: Sequence[Attempt]) -> Receipt | None:
    """Return the attempt's receipt without the steps that a later attempt repeats."""
    receipt = attempt.receipt
    if receipt is None or not receipt.steps:
        return receipt
    last = attempt.last_step or (attempt.resumed_from or 0) + receipt.steps
    first = min((one.resumed_from or 0 for one in later if one.receipt and one.receipt.steps), default=last)
    lost_share = min(receipt.steps, max(0, last - first)) / receipt.steps
    repeated = receipt.seconds.get("training", 0.0) * lost_share
    seconds = {**receipt.seconds, "training": receipt.seconds.get("training", 0.0) - repeated}
    return Receipt(
        seconds={**seconds, "lost": seconds.get("lost", 0.0) + repeated},
        steps=round(receipt.steps * (1 - lost_share)),
        tokens_per_device=_times_share(receipt.tokens_per_device, 1 - lost_share),
        target_tokens=_rounded_or_none(_times_share(receipt.target_tokens, 1 - lost_share)),
        tflops_per_device=receipt.tflops_per_device,
        notes=receipt.notes,
    )


def _times_share(value: float | None, share: float) -> float | None:
    return None if value is None else value * share


def _total(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def _rounded_or_none(value: float | None) -> int | None:
    return None if value is None else round(value)


def cluster_receipt(observation: Observation, lines: Iterable[LoggedLine], *, first: int = 0) -> Receipt | None:
    """Return the receipt of a JobSet so far; None without one. `first`: the step that its first start resumed from."""
    created = _seconds(created_at(observation))
    until = _seconds(ended_at(observation)) or _seconds(observation.observed_at)
    if observation.jobset is None or created is None or until is None:
        return None
    began = _seconds(_given_at(observation, observation.jobset))
    if began is None:
        waiting: dict[str, float] = {**dict.fromkeys(SPENT, 0.0), "queued": max(0.0, until - created)}
        notes = ("It holds no chips: Kueue has not admitted it.", *_queue_notes(observation))
        return Receipt(seconds=waiting, notes=notes)
    again = observation.jobset.restarts > 0
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
    estimates = _receipt_notes(
        observation, earlier=max(0, earlier), begins_at=begins_at if begins_at > first + 1 else None
    )
    nothing = () if fold.steps else ("No log line shows a step, so nothing is counted as trained.",)
    return replace(receipt, notes=(*nothing, *estimates, *_queue_notes(observation)))


def _given_at(observation: Observation, jobset: RunObject) -> str | None:
    """Return when Kueue admitted the run last, or when its JobSet was created if Kueue does not manage it; None if it
    holds no chips.
    """
    if observation.workload is None:
        return None if jobset.suspended else jobset.created_at
    return earliest(
        *(
            condition.at
            for condition in observation.workload.conditions
            if condition.type == "Admitted" and condition.status == "True"
        )
    )


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


def _receipt_notes(observation: Observation, *, earlier: int, begins_at: int | None) -> Iterator[str]:
    """Yield what is estimated. `begins_at`: the first step in a log that was rotated."""
    if begins_at is not None:
        yield f"The log begins at step {begins_at}; the steps before it are counted at the pace of the others."
    if observation.jobset and observation.jobset.restarts:
        yield (
            f"Restarted {observation.jobset.restarts} times: the logs of earlier starts are gone. "
            f"Their {earlier} saved steps "
            "are counted at the pace of the latest start, and the rest of their time as lost."
        )


def _queue_notes(observation: Observation) -> Iterator[str]:
    if any(unread.what == "workloads" for unread in observation.unread):
        yield "Its Kueue Workload was not read: time in the queue is counted as held."
    if observation.workload and observation.workload.evictions:
        times = observation.workload.evictions
        yield f"Evicted {times} times: all time before the latest admission is counted as queued."


def _seconds(time: str | None) -> float | None:
    parsed = moment(time)
    return parsed.timestamp() if parsed else None
