"""Check the stages that follow the training: the evaluation, and the server's image, size and accelerators. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.names import job_name_limit, stage_name
from xsft.base.problems import Problem, error, warning
from xsft.catalog.machines import GIB, ServingShape, serving_shape_for, serving_shapes
from xsft.catalog.models import context_length
from xsft.catalog.weights import UNLOADED, model_type, weights_failure
from xsft.checks.facts import Facts
from xsft.evaluation.trainer_plan import check_comparable
from xsft.image.reference import is_pinned
from xsft.launcher.server_manifest import attention_heads, weights_bytes
from xsft.spec.base import Keys
from xsft.spec.resolve import Run
from xsft.spec.serving_inputs import BUCKET
from xsft.spec.stages import ServeStage

EXAMPLE = "vllm/vllm-tpu@sha256:…"


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check `evaluate-*`, `serve-*` and `*-legacy`. On this machine the engine of `xsft setup engine` serves: no image
    is needed."""
    del keys, facts
    yield from _check_legacy(run)
    yield from _check_exportable(run)
    # Check that the engine which compares logits can load the export.
    export = run.spec.stages.export
    why = UNLOADED.get(model_type(run.spec.model.name) or "")
    if export is not None and export.verify == "logits" and why:
        message = f"The logits of {run.spec.model.name} are compared by mlx-lm, which cannot load its export: {why}."
        yield error("engine-model-unknown", "stages.export.verify", message, "Write stages.export.verify: tensors.")
    if run.spec.stages.evaluate is not None:
        yield from check_comparable(run)
    stage = run.spec.stages.serve
    if stage is None:
        return
    # Check that the export can be served. A workload with stages.serve and no stages.export has an export with
    # defaults.
    export = run.spec.stages.export
    if export is not None and export.what == "adapters":
        message = "The export has only adapters; the server would lack the base model's weights."
        yield error("serve-adapters", "stages.export.what", message, "Write stages.export.what: merged.")
    if run.spec.on_cluster:
        yield from _check_vllm_image(stage)
        yield from _check_accelerators(run, stage)
        yield from _check_model_length(run, stage)
        name = stage_name(run_name=run.run_name, stage="serve")
        limit = job_name_limit(target=run.spec.target)
        if len(name) > limit:
            message = f"{name!r} has {len(name)} characters; the name of a server may have {limit}."
            yield error("serve-name", "name", message, "Use a shorter name: --run-name NAME.")


def _check_legacy(run: Run) -> Iterator[Problem]:
    """Check that the release's exporter reads what SFT saves: that of MaxText before 0.2.0 does not."""
    if run.release.layout != "legacy":
        return
    stages = run.spec.stages
    fix = "Use MaxText 0.2.0 or newer (image.maxtext), or remove the stage."
    release = f"MaxText {run.release.version} has the legacy layout"
    if stages.evaluate is not None:
        yield error(
            "evaluate-legacy", "stages.evaluate", f"{release}; xsft cannot evaluate models of that layout.", fix
        )
    if stages.export is not None:
        yield error("export-legacy", "stages.export", f"{release}, whose exporter cannot read SFT checkpoints.", fix)
    if stages.serve is not None:
        yield error("serve-legacy", "stages.serve", f"{release}: there is no export to serve.", fix)


def _check_exportable(run: Run) -> Iterator[Problem]:
    """Check that the release exports the model: an error if an export is asked for, else a warning for weights that
    came from elsewhere."""
    stages = run.spec.stages
    model = run.spec.model
    failure = weights_failure(
        model.name, stage="export", version=run.release.version, scan_layers=model.scan_layers is not False
    )
    if failure is None or run.model is None or run.release.layout == "legacy":
        return
    message = f"MaxText {run.release.version} cannot export {model.name} to Hugging Face: {failure.why}."
    if stages.export is not None or stages.serve is not None:
        where = "stages.export" if stages.export is not None else "stages.serve"
        yield error("export-model", where, message, "Remove the stage, or train another model.")
    elif model.hf is not None or model.checkpoint is not None:
        fix = "The trained checkpoint stays usable in MaxText; train another model to serve it with other engines."
        yield warning("export-model", "model.name", message, fix)


def check_server_token(run: Run, *, weights: str) -> Iterator[Problem]:
    """Check `serve-token-missing`. `weights`: folder of the export, or its repository on the hub."""
    if not weights.startswith(BUCKET) and run.spec.secrets.hf_token is None:
        message = f"The server reads {weights} from the Hugging Face hub, and the workload names no token."
        fix = "Write secrets.hf_token: {secret: NAME}, made by `xsft secret create`; or export to gs://."
        yield error("serve-token-missing", "secrets.hf_token", message, fix)


def _check_vllm_image(stage: ServeStage) -> Iterator[Problem]:
    where = "stages.serve.image"
    if stage.image is None:
        fix = f"Write {where}: {EXAMPLE}, or vllm/vllm-openai@sha256:… for GPUs."
        yield error("serve-image-missing", where, "stages.serve names no image with vLLM.", fix)
    elif not is_pinned(stage.image):
        message = f"{stage.image} names no digest: a restarted pod could run another server."
        fix = f"Write its digest. `docker buildx imagetools inspect {stage.image}` prints it."
        yield error("serve-image-not-pinned", where, message, fix)


def _check_accelerators(run: Run, stage: ServeStage) -> Iterator[Problem]:
    size = weights_bytes(run)
    heads = attention_heads(run)
    if size is None:
        message = f"The size of {run.spec.model.name} is not known, so neither are the accelerators that hold it."
        fix = "Leave stages.serve out, and serve the export by a Deployment of your own."
        yield error("serve-size", "stages.serve", message, fix)
    elif serving_shape_for(stage.type, weights=size, heads=heads) is None:
        largest = [shape for shape in serving_shapes() if stage.type in (shape.name, shape.kind)][-1]
        message = (
            f"{size / GIB:,.1f} GiB of weights with {heads} attention heads do not fit {stage.type}: {largest.name} "
            f"gives vLLM {largest.usable / GIB:,.0f} GiB, and {largest.count} must divide the heads."
        )
        fitting = [shape for shape in serving_shapes() if shape.holds(size) and shape.splits(heads)]
        yield error("serve-too-large", "stages.serve.type", message, _other_machine(fitting))


def _check_model_length(run: Run, stage: ServeStage) -> Iterator[Problem]:
    """Check that vLLM starts with this length. source: vllm@0.11.0 vllm/config/model.py _get_and_verify_max_len"""
    positions = context_length(run.spec.model.name)
    if positions and stage.max_model_len and stage.max_model_len > positions:
        message = (
            f"max_model_len {stage.max_model_len:,} is more than the {positions:,} positions of "
            f"{run.spec.model.name}: vLLM does not start with more."
        )
        yield error(
            "serve-length", "stages.serve.max_model_len", message, f"Write at most {positions}.", kind="disputable"
        )


def _other_machine(fitting: list[ServingShape]) -> str:
    if fitting:
        return f"Write stages.serve.type: {fitting[0].name} ({fitting[0].machine})."
    return "No single machine holds it: leave stages.serve out, and serve the export on several (LeaderWorkerSet)."
