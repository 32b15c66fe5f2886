"""The training whose weights are exported, and the engine that verifies the export."""

from __future__ import annotations

from xsft.effects.local.export import ExportWork
from xsft.effects.local.served_model import refuse_unreadable
from xsft.export.engines import model_type
from xsft.steps import Intent
from xsft.trainers.export import TrainedRun


def intended(intent: Intent) -> TrainedRun:
    """Return the training of a workload, which may not have begun."""
    return TrainedRun(
        run_name=intent.run.run_name,
        spec_digest=intent.spec_digest,
        argv=intent.trainer_argv,
        output=str(intent.run.output).rstrip("/"),
        release=intent.run.release.version,
    )


def refuse_engine(work: ExportWork) -> None:
    """Raise UsageError, engine-model-unknown, before anything is exported, if the engine cannot read the model."""
    if work.engine is None:
        return
    plan = work.look()
    if plan.inputs.form != "adapters":
        refuse_unreadable(model_type(plan.inputs.model), named=plan.inputs.model, engine=work.engine())
