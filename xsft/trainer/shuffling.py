"""The order in which a run reads its rows, and the other orders of its later starts. Pure.

A trainer that resumes from a checkpoint reads its data from the first row again: no release saves or skips a position
(maxtext@0.2.5 trainers/post_train/hooks.py load_next_train_batch; google-tunix@0.1.7 sft/peft_trainer.py skips rows
only for trainers without data hooks, and MaxText's has them). With the same seed it reads the same rows again, so every
start of a run that reshuffles has its own seed.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from xsft.base.names import RowOrder
from xsft.spec.resolve import Run
from xsft.trainer.arguments import argument

SEED = "data_shuffle_seed"

SHUFFLES = "enable_data_shuffling"
UNSHUFFLED = argument(SHUFFLES, False)  # noqa: FBT003

MAXTEXT_SEED = 0
"""MaxText's default seed. source: maxtext@0.2.5 configs/types.py data_shuffle_seed."""

STARTS = 1001
"""Maximum starts of one attempt: the first, and the 1,000 restarts that `restarts.max` allows. It is not the workload's
own number, which may change from one attempt to the next."""


class Seeds(Struct, frozen=True, kw_only=True):
    """The values of `data_shuffle_seed` at all starts of a run; no two starts share one.

    MaxText adds i to it for epoch i, so neighbours differ by `num_epoch`. source: maxtext@0.2.5
    input_pipeline/hf_data_processing.py preprocessing_pipeline
    """

    first: int
    """Seed at the first start of this attempt."""
    per_restart: int
    """Increment at each restart of the attempt's JobSet."""
    per_attempt: int
    """Increment at the first start of each later attempt."""


def reshuffles(run: Run) -> bool:
    """Return whether a start that resumes reads the rows in another order; by default it does if there is an order to
    change."""
    match run.spec.restarts.data:
        case None:
            override = run.spec.overrides.maxtext.get(SHUFFLES)
            if override is None:
                return run.spec.data.shuffle is not False
            return str(override).lower() not in ("false", "0", "no", "off")
        case "reshuffle":
            return True
        case "repeat":
            return False


def seeds(run: Run) -> Seeds | None:
    """Return the seeds; None if every start reads the rows in the same order."""
    if not reshuffles(run):
        return None
    named = str(run.spec.overrides.maxtext.get("num_epoch") or run.spec.data.num_epoch or 1)
    epochs = int(named) if named.isdecimal() else 1  # another check refuses it
    of_workload = MAXTEXT_SEED if run.spec.data.shuffle_seed is None else run.spec.data.shuffle_seed
    per_attempt = STARTS * epochs
    return Seeds(first=of_workload + per_attempt * (run.attempt - 1), per_restart=epochs, per_attempt=per_attempt)


def restarts_in_place(run: Run) -> bool:
    """Return whether JobSet may restart this attempt."""
    return run.spec.on_cluster and run.spec.restarts.max > 0


def counted_seeds(run: Run) -> Seeds | None:
    """Return the seeds if the command must add up the restarts of its JobSet; None if its seed never changes."""
    return seeds(run) if restarts_in_place(run) else None


def first_seed(run: Run) -> int | None:
    """Return the seed of this attempt's first start, as its command line has it; None for MaxText's default. A run of
    one start keeps the command line of its workload."""
    first_seeds = seeds(run)
    counts = restarts_in_place(run) or run.attempt > 1
    return first_seeds.first if first_seeds and counts else run.spec.data.shuffle_seed


def order_at_first(run: Run) -> RowOrder:
    """Return the order in which the first start of this attempt reads what earlier ones have trained."""
    return "reshuffled" if reshuffles(run) and run.attempt > 1 else "repeated"


def order_of(argv: Iterable[str], *, earlier: Iterable[Iterable[str]]) -> RowOrder:
    """Return the order in which a trainer with this command line reads the rows that those with the `earlier` command
    lines have trained."""
    read = {_seed_in(words_earlier) for words_earlier in earlier}
    return "repeated" if UNSHUFFLED in (words := tuple(argv)) or _seed_in(words) in read else "reshuffled"


def _seed_in(argv: Iterable[str]) -> str:
    seeds_given = [word.partition("=")[2] for word in argv if word.startswith(f"{SEED}=")]
    return seeds_given[-1] if seeds_given else str(MAXTEXT_SEED)
