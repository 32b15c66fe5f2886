"""Plan the conversion of a workload's Hugging Face weights. Pure."""

from __future__ import annotations

from xsft.base.names import stage_name
from xsft.checks.facts import Facts
from xsft.spec.facts import TriesFacts
from xsft.spec.resolve import Run
from xsft.trainer.conversion import conversion_argv, loads_lazily
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.estimates import estimate

STAGE = "convert"


def conversion_plan(run: Run, facts: Facts | None = None) -> ConversionPlan | None:
    """Return the plan that converts the run's weights into the folder of the next attempt; None if the workload names a
    checkpoint or trains from scratch."""
    argv = conversion_argv(run)
    if run.conversion is None or run.converted is None or run.output is None or argv is None:
        return None
    facts = facts or Facts()
    source_bytes = facts.source.weights_bytes if facts.source else None
    tries = facts.tries or TriesFacts()
    return ConversionPlan(
        run_name=stage_name(run_name=run.run_name, stage=STAGE),
        training=run.run_name,
        output=run.output,
        inputs=run.conversion,
        first=run.converted,
        directory=run.next_try or run.converted,
        argv=argv,
        estimate=estimate(run.conversion, lazy=loads_lazily(run), source_bytes=source_bytes),
        whole=run.checkpoint if facts.checkpoint and facts.checkpoint.status == "read" else None,
        recorded=tries.recorded,
        why_not=facts.checkpoint.detail if facts.checkpoint and facts.checkpoint.status != "read" else "",
        unread=facts.checkpoint is not None and facts.checkpoint.status == "unreadable",
        broken=tries.broken,
    )
