"""Documents about workloads, runs, evaluations and samples."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from xsft.base.stage import StagePlan
from xsft.evaluation.inputs import PromptTurn
from xsft.evaluation.report import EvaluationReport, MeasuredAnswer
from xsft.importing.notes import PasteDifference
from xsft.launcher.audit import AuditRow
from xsft.runs.rows import Row
from xsft.spec.resolve import Mode
from xsft.stages.walk import StageReport
from xsft.trainer.shuffling import Seeds
from xsft.verbs.document import Document, ProblemFields, RunTimeDocument


class StageOutline(StagePlan, frozen=True, kw_only=True):
    """A stage other than the training, as `xsft run` runs it."""

    problems: tuple[ProblemFields, ...] = ()  # type: ignore[assignment]
    """Problems of this stage only, and the reasons why it cannot be planned."""


class PlanFields(Document, frozen=True, kw_only=True):
    """A plan: exactly what `xsft submit` does."""

    file: str
    run_name: str
    """Name of the run and of its output folder; the same for all attempts."""
    jobset: str | None
    """The JobSet's name: `run_name`, with `-2`, `-3`, … for later attempts. null for `target: local`."""
    spec_digest: str
    """sha256 of the resolved workload, 64 hex digits; equal digests are the same run."""
    target: str
    """`local`, or the launcher for a cluster: `xpk`."""
    mode: Mode
    trainer_argv: list[str]
    """Arguments of the trainer's process, byte for byte, at the first start of this attempt; starts
    `python3 -m MODULE`.
    """
    trainer_env: dict[str, str]
    """Environment variables of the trainer's process."""
    seeds: Seeds | None
    """Changes of `trainer_argv` at later starts; null if all starts read the rows in the same order."""
    conversion_argv: list[str] | None
    """Command that converts the Hugging Face weights, once, before the run; null if the workload names a checkpoint, or
    the result exists."""
    xpk_argv: list[str] | None
    """The `xpk workload create[-pathways]` line; null for `target: local`, or if a problem prevents rendering it."""
    manifest: dict[str, Any] | None
    """The object that will be created; null if `xpk_argv` is null."""
    audit: list[AuditRow]
    by_hand: list[str]
    """What you would lose if you ran `xpk_argv` by hand, one sentence each."""
    stages: list[StageOutline]
    """Stages other than the training; empty if the plan has errors."""
    time: RunTimeDocument | None
    """null on this machine, and if the catalogue does not have the model or the TPU type."""
    problems: list[ProblemFields]


class PlanDocument(Document, frozen=True, kw_only=True):
    """`xsft plan FILE… --json`."""

    schema_: Literal["xsft.plan/1"] = field(name="schema")
    plans: list[PlanFields]
    """One per file that could be read, in the order given."""
    problems: list[ProblemFields] = []
    """Problems of files that could not be read; absent if there are none."""
    exit_status: int = 0
    """Exit status; present only with `problems`."""


class CheckDocument(Document, frozen=True, kw_only=True):
    """`xsft check FILE… --json`."""

    schema_: Literal["xsft.check/1"] = field(name="schema")
    ok: bool
    """Whether no file has an error; warnings do not count."""
    problems: list[ProblemFields]
    """All problems of all files."""
    exit_status: int
    """Exit status: 0 or 2."""


class Result(Document, frozen=True, kw_only=True):
    """The result of a run that has ended."""

    steps: int
    """The last step that ran."""
    first_loss: float | None
    last_loss: float | None


class SubmitDocument(Document, frozen=True, kw_only=True):
    """`xsft submit FILE --json`. `checkpoints` to `private_pids` are present for `target: local` only."""

    schema_: Literal["xsft.submit/1"] = field(name="schema")
    run_name: str
    jobset: str | None
    """Name of the JobSet; null for `target: local`, and for a finished run whose JobSets are gone."""
    action: Literal["created", "adopted", "attempt", "finished"]
    """created: a new run · adopted: a live run continues · attempt: a further attempt · finished: nothing is left to
    do."""
    uid: str | None
    """UID of the JobSet; null if `jobset` is null."""
    spec_digest: str
    record: str | None
    """File that records the attempt; null for a finished run of which only the JobSet is known."""
    result: Result | None
    """The run's result; null if it has not ended."""
    problems: list[ProblemFields]
    """Warnings and notes."""
    resumed_from: int | None = None
    """Step of the checkpoint from which it resumes; for a new attempt on a cluster, the last saved one."""
    resumed_order: Literal["reshuffled", "repeated"] | None = None
    """Order of the rows after resuming, from the first row: another order than before, or the same."""
    checkpoints: list[str] = []
    """Saved checkpoints, the oldest first."""
    log: str | None = None
    """The trainer's own log."""
    plot: str | None = None
    """The loss curve, a picture."""
    private_pids: bool | None = None
    """Whether the trainer had its own PID namespace."""
    run: Row | None = None
    """With `--wait` or `--follow` on a cluster: the last state of the run that was read."""
    exit_status: int = 0
    """Exit status; present only with `run`. If it is not 0, the last entry of `problems` explains it."""


class Difference(Document, frozen=True, kw_only=True):
    """One difference between A and B."""

    key: str
    a: Any
    """Value in A; null if A has none."""
    b: Any
    """Value in B; null if B has none."""


class Differences(Document, frozen=True, kw_only=True):
    """The differences, grouped by keys, arguments and manifest."""

    keys: list[Difference]
    """Differences of the workloads."""
    trainer_argv: list[Difference]
    trainer_env: list[Difference]
    xpk_argv: list[Difference]
    manifest: list[Difference]


class DiffDocument(Document, frozen=True, kw_only=True):
    """`xsft diff A B --json`."""

    schema_: Literal["xsft.diff/1"] = field(name="schema")
    a: str
    b: str
    same: bool
    """Whether nothing differs; the exit status is 0 either way."""
    differences: Differences


class ImportDocument(Document, frozen=True, kw_only=True):
    """`xsft import FILE --json`."""

    schema_: Literal["xsft.import/1"] = field(name="schema")
    file: str | None
    """Path of the workload that was written; null without `-o`."""
    workload: str
    """Text of the workload."""
    differences: list[PasteDifference]
    problems: list[ProblemFields]
    """What must be completed or corrected in the workload."""
    refused: list[ProblemFields] = []
    """Problems for which `xsft plan` and `xsft submit` refuse the workload; filled only if `problems` is empty."""
    exit_status: int


class RunDocument(Document, frozen=True, kw_only=True):
    """`xsft run FILE --json`."""

    schema_: Literal["xsft.run/1"] = field(name="schema")
    stages: list[StageReport]
    """Stages of the workload, in order."""
    problems: list[ProblemFields]
    exit_status: int
    """Exit status of the command."""


class SampledPrompt(Document, frozen=True, kw_only=True):
    """One prompt and its answers."""

    prompt: list[PromptTurn]
    base: MeasuredAnswer | None
    """Answer of the weights before the training; null without --base."""
    tuned: MeasuredAnswer


class SampleDocument(Document, frozen=True, kw_only=True):
    """`xsft sample RUN --prompt TEXT --json`."""

    schema_: Literal["xsft.sample/1"] = field(name="schema")
    run_name: str
    step: int
    """Step of the checkpoint."""
    weights: str
    """Path of the checkpoint."""
    samples: list[SampledPrompt]


class EvaluationDocument(Document, EvaluationReport, frozen=True, kw_only=True):
    """The file `evaluation.json` of an evaluate stage."""

    schema_: Literal["xsft.evaluation/1"] = field(name="schema")
