"""Check an export before it starts: whole weights of the training's model, and what a pod needs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.acceptance import LateProblem
from xsft.base.names import job_name_limit
from xsft.base.problems import Problem, error
from xsft.catalog.arrays import ArrayLayout, required
from xsft.catalog.machines import GIB, cpu_type_for, cpu_types
from xsft.checks.weights import mismatch_text
from xsft.spec.export_inputs import ExportInputs
from xsft.spec.facts import CheckpointFacts
from xsft.spec.resolve import Run
from xsft.spec.yamltext import load_yaml
from xsft.weights.checkpoint_report import is_adapter, mismatch, models, weights
from xsft.weights.estimates import ExportEstimate
from xsft.weights.export_record import ExportPlan

EXPORT_MACHINE = LateProblem(id="export-machine")


def whole_weights(inputs: ExportInputs) -> str | None:
    """Return the checkpoint with the whole model: that of the training, or the one that its adapters change."""
    return inputs.weights if inputs.lora is None else inputs.base


def check_exported_weights(inputs: ExportInputs, checkpoint: CheckpointFacts) -> Iterator[Problem]:
    """Check `export-torn` and `export-other-model`. `checkpoint`: that of `whole_weights`."""
    if checkpoint.status in ("torn", "not-a-checkpoint"):
        message = f"{checkpoint.path} is not complete: {checkpoint.detail}"
        yield error("export-torn", "", message, "Export another step: --step N; `xsft why` names the last saved one.")
    elif checkpoint.status == "read" and checkpoint.arrays:
        pairs = (key.partition("=") for key in inputs.keys)
        keys = {key: load_yaml(text) for key, _, text in pairs}
        layout = ArrayLayout(scan=keys.get("scan_layers") is not False, axis=int(keys.get("param_scan_axis") or 1))
        needed = required(inputs.model, keys, layout=layout, release=inputs.release)
        stored = {name: array for name, array in weights(checkpoint.arrays).items() if not is_adapter(name)}
        difference = mismatch(stored, needed) if needed is not None else None
        if difference is not None:
            fitting = models(stored, (layout,))
            has = f" It holds {' or '.join(fitting[:3])}." if fitting else ""
            wrong = mismatch_text(difference)
            message = f"{checkpoint.path} does not hold {inputs.model}, which {inputs.training} trained: {wrong}{has}"
            fix = "Inspect it: `xsft checkpoint inspect`. Another run may have written into this run's folder."
            yield error("export-other-model", "", message, fix)


def check_export_job(plan: ExportPlan, run: Run, needs: ExportEstimate | None) -> Iterator[Problem]:
    """Check what a pod that exports must be able to do: `export-token-missing`, `export-size`, `export-machine`
    and `export-name`."""
    inputs = plan.inputs
    if inputs.hub and run.spec.secrets.hf_token is None:
        message = f"The export goes to {plan.writes}, and the workload names no token of the Hugging Face hub."
        fix = "Write secrets.hf_token: {secret: NAME}, made by `xsft secret create`; or export to gs://."
        yield error("export-token-missing", "secrets.hf_token", message, fix)
    limit = job_name_limit(target=run.spec.target)
    if len(plan.run_name) > limit:
        message = f"{plan.run_name!r} has {len(plan.run_name)} characters; the limit of a CPU job is {limit}."
        yield error("export-name", "name", message, "The training's name must be shorter: --run-name NAME.")
    if needs is None:
        message = f"The size of {inputs.model} is unknown, and so is the memory for its export."
        yield error("export-size", "model.name", message, "Export it on a machine with enough memory: --output FOLDER.")
    elif cpu_type_for(needs.memory) is None:
        largest = cpu_types()[-1]
        message = (
            f"The export takes about {needs.memory / GIB:,.0f} GiB of memory; the largest machine type of xpk, "
            f"{largest.machine}, has {largest.pod_memory / GIB:,.0f} GiB for a pod."
        )
        yield EXPORT_MACHINE.warning("model.name", message, "Add a node pool of larger machines to the cluster.")
