"""A workload's server on a cluster, planned."""

from __future__ import annotations

from typing import Any

from tests.stories import intent_of, spec_of, varied
from xsft.effects.submit.serving import plan_serving
from xsft.serving.plan import ServingPlan
from xsft.spec.resolve import Run

STORY = "gemma2_ultrachat"
NAME = "gemma2-ultrachat-serve"
IMAGE = f"vllm/vllm-tpu@sha256:{'0' * 64}"
WEIGHTS = "gs://my-bucket/runs/gemma2-ultrachat-export/0123456789ab"


def run_with(*, namespace: str = "default", changes: dict[str, Any] | None = None, **serve: Any) -> Run:
    """The workload with a serve stage. `changes`: of the workload, by dotted key."""
    stages = {"export": {}, "serve": {"image": IMAGE, **serve}}
    return intent_of(varied(spec_of(STORY), {"namespace": namespace, "stages": stages, **(changes or {})})).run


def server(*, source: str = WEIGHTS, **settings: Any) -> ServingPlan:
    """The plan. `source`: what is served; the rest as `run_with`."""
    return plan_serving(run_with(**settings), weights=source)
