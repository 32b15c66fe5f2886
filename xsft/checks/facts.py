"""All facts that planning needs. Gathered by `xsft.planning.gather`, used by pure code only."""

from __future__ import annotations

from xsft.base.problems import Problem
from xsft.data.facts import CountedData, DataFacts, HubDataFacts, TokenizerFacts
from xsft.fit.verdict import KnownStep, NearStep
from xsft.records.record import MeasuredPace
from xsft.spec.facts import CheckpointFacts, ResolutionFacts


class Facts(ResolutionFacts, frozen=True, kw_only=True):
    """The facts of a resolution, and those that checks need besides."""

    adapters: CheckpointFacts | None = None
    """Facts of the checkpoint at `lora.restore_path`; None if it was not read."""
    tokenizer: TokenizerFacts | None = None
    """Facts of the tokenizer that MaxText will load; None if its files are not on this machine."""
    tokenizer_problem: Problem | None = None
    """Why the tokenizer's folder on this machine cannot be loaded."""
    data: DataFacts | None = None
    """Facts of the training data; None unless it is in files of rows on this machine."""
    eval_data: DataFacts | None = None
    hub_data: HubDataFacts | None = None
    """Facts of a data set on the hub; None for other data, and for data sets of the catalogue."""
    counted: CountedData | None = None
    """Counts of `xsft data inspect`; None without any."""
    fit: KnownStep | None = None
    """The verdict of `xsft fit` on this run's step, or on one of another length; None without one."""
    near_fits: tuple[NearStep, ...] = ()
    """Verdicts on steps that differ from this run's only in their length or slice."""
    paces: tuple[MeasuredPace, ...] = ()
    """Paces of runs of this model on this TPU type that were submitted from this machine and have a receipt."""
    memory_gib: float = 0.0
    """Total memory of this machine in GiB, for `target: local`; 0 if it was not read."""
    taken: tuple[str, ...] = ()
    """Run names of this workload's stages that a training in the same output already has."""
    taken_unread: str = ""
    """Why that could not be read."""
