"""Check a conversion or an export before it starts: whole weights of the training's model, and what a CPU job of a
cluster needs. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.acceptance import LateProblem
from xsft.base.names import job_name_limit
from xsft.base.problems import Problem, error
from xsft.catalog.arrays import ArrayLayout, required
from xsft.catalog.machines import GIB, cpu_type_for, cpu_types
from xsft.checks.checkpoint import mismatch_text
from xsft.spec.export_inputs import ExportInputs
from xsft.spec.facts import CheckpointFacts
from xsft.spec.resolve import Run
from xsft.spec.yamltext import load_yaml
from xsft.weights.checkpoint_report import is_adapter, mismatch, models, weights
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.estimates import ConversionEstimate, ExportEstimate
from xsft.weights.export_record import ExportPlan

CONVERSION_MEMORY = LateProblem(id="conversion-memory")
CONVERSION_ON_TPU = LateProblem(id="conversion-on-tpu")
CONVERSION_MACHINE = LateProblem(id="conversion-machine")
CONVERSION_UNCHECKED = LateProblem(id="conversion-unchecked")
CONVERSION_DISK = LateProblem(id="conversion-disk")
EXPORT_MACHINE = LateProblem(id="export-machine")


def check_conversion_job(conversion: ConversionPlan, run: Run, *, on_tpu: bool = False) -> Iterator[Problem]:
    """Yield a problem for each part of the conversion that a pod could not do. `on_tpu`: it takes a slice."""
    source = conversion.inputs.source
    if source.is_folder:
        message = f"{source.repo} is a folder on this machine, which pods cannot read."
        fix = "Use a Hugging Face repository, or convert it here: --set target=local, with output on gs://."
        yield error("conversion-folder", "model.hf.repo", message, fix)
    hosts = run.slice.hosts if on_tpu and run.slice else 1
    limit = job_name_limit(target=run.spec.target, hosts=hosts)
    if len(conversion.run_name) > limit:
        message = (
            f"{conversion.run_name!r} has {len(conversion.run_name)} characters; the limit of a CPU job is {limit}."
        )
        fix = "Use a shorter name: --run-name NAME. The result has the same path."
        yield error("conversion-name", "name", message, fix)
    if conversion.estimate is None:
        message = f"The size of {run.spec.model.name} is unknown, and so is the memory for its conversion."
        fix = "Convert it on a machine with enough memory: --set target=local, with output on gs://."
        yield error("conversion-size", "model.name", message, fix)
    elif on_tpu:
        yield from _check_slice_host(conversion.estimate, run)
    elif cpu_type_for(conversion.estimate.memory) is None:
        largest = cpu_types()[-1]
        message = (
            f"The conversion takes about {conversion.estimate.memory / GIB:,.0f} GiB of memory; the largest machine "
            f"type of xpk, {largest.machine}, has {largest.pod_memory / GIB:,.0f} GiB for a pod."
        )
        yield CONVERSION_MACHINE.warning("model.hf", message, "Add a node pool of larger machines to the cluster.")


def _check_slice_host(needs: ConversionEstimate, run: Run) -> Iterator[Problem]:
    tpu = run.slice
    if tpu is None:
        message = "The workload names no TPU type, so there is no slice to convert on."
        yield error("conversion-no-slice", "tpu.type", message, "Set tpu.type, or omit --on-tpu.")
        return
    memory = needs.memory + needs.download
    if tpu.host_memory is not None and memory > tpu.host_memory:
        message = (
            f"The conversion takes about {memory / GIB:,.0f} GiB of memory, with its download; a {tpu.machine_type} has"
            f" {tpu.host_memory / GIB:,.0f} GiB."
        )
        fix = "Convert on a CPU node of the cluster: leave out --on-tpu."
        yield CONVERSION_MEMORY.error("model.hf", message, fix)
    idle = f", and {tpu.hosts - 1} of its {tpu.hosts} hosts" if tpu.hosts > 1 else ""
    message = (
        f"The conversion takes a whole slice, {tpu.describe}: its chips{idle} are idle until it ends."
        f" It needs about {memory / GIB:,.0f} GiB of memory on one {tpu.machine_type}"
        f"{', which is not checked' if tpu.host_memory is None else ''}."
    )
    yield CONVERSION_ON_TPU.warning(
        "", message, "If the cluster has CPU nodes, convert on one of them: leave out --on-tpu."
    )


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
