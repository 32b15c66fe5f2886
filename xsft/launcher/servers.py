"""Plan the server of a workload's export: its inputs and its size. Pure."""

from __future__ import annotations

from xsft.base.names import stage_name
from xsft.catalog.arrays import exact_parameters
from xsft.catalog.serving import ServingShape, serving_shape_for
from xsft.catalog.sizes import sizes
from xsft.launcher.server_manifest import ServingPlan, serving_plan
from xsft.spec.resolve import Run
from xsft.spec.serving_inputs import BUCKET, ServingInputs, TokenSecret
from xsft.spec.stages import ServeStage

DEFAULT_LENGTH = 2048
"""Default of MaxText's max_target_length; source: maxtext@0.2.5 configs/base.yml."""
BF16_BYTES = 2
"""Bytes of one parameter of an export."""


def serve_stage(run: Run) -> ServeStage:
    """Return the workload's serve stage; all defaults if it names none."""
    return run.spec.stages.serve or ServeStage()


def plan_of_server(run: Run, *, weights: str) -> ServingPlan | None:
    """Return the plan of the run's server on a cluster; None if it cannot be planned, and a check says why.

    `weights`: folder of the export, or its repository on the hub.
    """
    inputs = serving_inputs(run, weights=weights)
    if inputs is None:
        return None
    return serving_plan(
        inputs,
        run_name=stage_name(run_name=run.run_name, stage="serve"),
        training=run.run_name,
        target=run.spec.target,
        namespace=run.namespace,
        output=run.output or "",
        priority=run.spec.priority,
    )


def serving_inputs(run: Run, *, weights: str) -> ServingInputs | None:
    """Return the inputs that decide the server; None without an image, or without accelerators that hold the model."""
    stage, size, shape = serve_stage(run), weights_bytes(run), shape_of(run)
    if stage.image is None or size is None or shape is None:
        return None
    token = None if weights.startswith(BUCKET) else run.spec.secrets.hf_token
    return ServingInputs(
        weights=weights.rstrip("/"),
        weights_bytes=size,
        weights_by=stage.weights,
        image=stage.image,
        copier=run.spec.image.ref,
        shape=shape,
        served_model_name=run.run_name,
        max_model_len=model_len(run),
        expose=stage.expose,
        service_account=stage.service_account,
        token=TokenSecret(secret=token.secret, key=token.key) if token else None,
        pull_secret=run.spec.image.pull_secret,
    )


def shape_of(run: Run) -> ServingShape | None:
    """Return the accelerators of the server; None if none hold the model, or its size is unknown."""
    size = weights_bytes(run)
    return serving_shape_for(serve_stage(run).type, weights=size, heads=attention_heads(run)) if size else None


def model_len(run: Run) -> int:
    """Return the tokens of prompt and answer that the server takes: by default those that were trained."""
    return serve_stage(run).max_model_len or run.spec.train.max_target_length or DEFAULT_LENGTH


def weights_bytes(run: Run) -> int | None:
    """Return the bytes of the model's weights in bfloat16; None if its size is unknown."""
    exact = exact_parameters(run.spec.model.name, run.spec.overrides.maxtext, release=run.release.version)
    if exact is not None:
        return BF16_BYTES * exact
    catalogued = run.model.params_b if run.model else None
    return int(BF16_BYTES * catalogued * 1e9) if catalogued else None


def attention_heads(run: Run) -> int:
    """Return the query heads of a layer; 0, which any number divides, if they are unknown."""
    model_sizes = sizes(run.spec.model.name, run.spec.overrides.maxtext) if run.model else None
    return model_sizes["base_num_query_heads"] if model_sizes else 0
