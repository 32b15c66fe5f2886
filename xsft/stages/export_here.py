"""Export trained weights on this machine."""

from __future__ import annotations

from functools import partial

from xsft.launch.environments import engine_environment, maxtext_machine
from xsft.launch.listener import ActionListener
from xsft.planning.steps import Intent
from xsft.spec.export_inputs import ExportSource
from xsft.stages.export import ExportResult, ExportWork
from xsft.stages.export_upload import ExportRoute, export_by
from xsft.weights.exporter import ExportRequest, TrainedRun


def intended_training(intent: Intent) -> TrainedRun:
    """Return the training of a workload, which may not have begun."""
    converted = intent.run.conversion
    source = None
    if converted is not None:
        named = converted.source
        source = ExportSource(repo=named.repo, revision=named.commit or named.revision)
    return TrainedRun(
        run_name=intent.run.run_name,
        spec_digest=intent.spec_digest,
        argv=intent.trainer_argv,
        output=str(intent.run.output).rstrip("/"),
        release=intent.run.release.version,
        source=source,
    )


def exported_here(
    trained: TrainedRun, request: ExportRequest, *, to: str | None, logits: bool, listener: ActionListener
) -> ExportResult:
    """Export on this machine, unless it is done. `to`: folder, bucket or repository of the hub; None: beside the run.
    `logits`: also compare logits, computed by an independent engine.

    Raises UsageError if that engine cannot read the model, and as `export_by`.
    """
    route = ExportRoute(trained=trained, asked=request, to=to)
    with listener.working("export") as say:
        work = ExportWork(
            look=route.here,
            machine=partial(maxtext_machine, listener),
            say=say,
            engine=partial(engine_environment, listener) if logits else None,
        )
        return export_by(route, work)
