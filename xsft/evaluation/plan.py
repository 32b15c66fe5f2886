"""The plan of an evaluation: the commands whose weights are measured, and the folder of the result. Pure data."""

from __future__ import annotations

from msgspec import Struct

from xsft.evaluation.inputs import EvaluationInputs

FILE = "evaluation.json"


class EvaluationPlan(Struct, frozen=True, kw_only=True):
    """One evaluation: a run of its own, `<training>-evaluate`."""

    run_name: str
    output: str
    """base_output_directory of the training; the evaluation's own files are in `<output>/<run_name>/xsft/`."""
    inputs: EvaluationInputs
    directory: str
    """Folder of the first attempt; its name has 12 digits of the digest."""
    weights: str
    """The tuned checkpoint, `…/checkpoints/<step>/model_params`."""
    base: str
    """What the training started from, for readers: a checkpoint, or that the weights were random."""
    base_argv: tuple[str, ...]
    """The trainer's command line with the weights that the training started from, and the keys of a measurement."""
    tuned_argv: tuple[str, ...]
    """The same with the tuned weights."""

    @property
    def result(self) -> str:
        """Return the path of the report of the first attempt."""
        return f"{self.directory}/{FILE}"

    @property
    def digest(self) -> str:
        """Return the digest, as `EvaluationInputs.digest`."""
        return self.inputs.digest

    @property
    def training(self) -> str:
        return self.inputs.training
