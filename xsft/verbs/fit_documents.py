"""The document of `xsft fit`."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from xsft.fit.translate import InvalidStep
from xsft.fit.verdict import StepMemory
from xsft.verbs.document import Document, ProblemFields, RunTimeDocument


class AlternativeDocument(Document, frozen=True, kw_only=True):
    """One alternative that `--search` considered."""

    settings: dict[str, str | int | float | bool]
    """Key path -> value, as `--set` takes them."""
    verdict: Literal["fits", "marginal", "no", "invalid"] | None
    """Verdict; null if not compiled (`why` gives the reason)."""
    peak_gib: float | None
    sum_gib: float | None
    needed_gib: float | None
    source: Literal["arithmetic", "catalogue", "cache", "compiler", ""]
    why: str
    """Why it is rejected; empty if it fits."""


class FitSearchDocument(Document, frozen=True, kw_only=True):
    """The result of `--search`."""

    settings: dict[str, str | int | float | bool] | None
    """Changes with which the workload fits; null if none were found or needed."""
    stopped: Literal["done", "budget", "interrupted"]
    """`done`: no preferred alternative is left."""
    budget_s: float
    diff: str
    """Change of the file, as a unified diff."""
    written: bool


class FitEntryDocument(Document, frozen=True, kw_only=True):
    """The verdict on one workload's step."""

    file: str
    run_name: str
    step: Literal["train", "eval"]
    tpu_type: str
    num_slices: int
    verdict: Literal["fits", "marginal", "no", "invalid"]
    """`marginal`: the compiler accepts it, but arguments, outputs and temporaries together exceed the chip. `invalid`:
    it does not shard, or there is no such slice."""
    peak_gib: float | None
    """Peak per chip, by which the compiler decides; null unless accepted; the sum if not `by.peak_known`."""
    sum_gib: float | None
    """Arguments, outputs and temporaries per chip; null unless it accepted."""
    needed_gib: float | None
    """For `no`: the compiler's total, or the lower bound of the state."""
    limit_gib: float | None
    """Memory per chip by the compiler; null for `invalid`."""
    by: StepMemory | None
    """null for a refused step, and for a row of the catalogue."""
    because: InvalidStep | None
    source: Literal["arithmetic", "catalogue", "cache", "compiler"]
    cached: bool
    derived_from_tokens: int | None
    """max_target_length of the compiled step, if the verdict follows from one of another length."""
    versions: dict[str, str]
    """Versions of the packages with which the step was compiled."""
    seconds: dict[str, float]
    """Wall time of each phase."""
    cpu_s: float
    rss_gib: float
    """Peak memory of the compiler."""
    step_time_bound_s: float | None
    """Minimum time of a step, in seconds; null unless the compiler accepted, or if the TPU's rates are unknown."""
    bound_by: Literal["arithmetic"] | None
    time: RunTimeDocument | None
    notes: list[str]
    not_covered: list[str]
    alternatives: list[AlternativeDocument]
    """Alternatives of `--search`: the compiled ones, and better ones that were not compiled."""
    search: FitSearchDocument | None
    """null without `--search`."""


class FitDocument(Document, frozen=True, kw_only=True):
    """`xsft fit FILE… --json`."""

    schema_: Literal["xsft.fit/1"] = field(name="schema")
    fits: list[FitEntryDocument]
    problems: list[ProblemFields]
    """Problems of files that could not be read."""
    exit_status: int
