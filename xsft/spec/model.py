"""WorkloadSpec: one YAML file, typed. What it cannot be, types refuse; what it should not be, `xsft.checks` says."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticKnownError

from xsft.spec import forms
from xsft.spec.base import DnsLabel, EnvName, Section, Storage, Value
from xsft.spec.place import Place
from xsft.spec.sections import (
    Data,
    Eval,
    Image,
    Lora,
    Model,
    Parallelism,
    Pathways,
    Restarts,
    Secrets,
    Tpu,
    Train,
)
from xsft.targets import Targeted, targets

RunName = Annotated[str, StringConstraints(pattern=forms.NAME, max_length=40)]
"""xpk's rule (xpk@1.16.0 parser/validators.py name_type)."""

Priority = Literal["very-low", "low", "medium", "high", "very-high"]
"""xpk's PriorityClasses: 100, 250, 500, 750, 1000 (xpk@1.16.0 core/kueue_manager.py)."""


class Overrides(Section):
    maxtext: dict[str, Value] = Field(default_factory=dict)
    """Any MaxText key; nested ones as its command line writes them (`lora.lora_rank`). One that has a field obeys its
    rules.
    """


def _known_target(name: str) -> str:
    if name not in targets():
        raise PydanticKnownError("literal_error", {"expected": " or ".join(repr(one) for one in targets())})
    return name


TargetName = Annotated[str, AfterValidator(_known_target), WithJsonSchema({"type": "string", "enum": list(targets())})]


class WorkloadSpec(Targeted, Section):
    """One fine-tuning run."""

    name: RunName
    """Run name: MaxText's run_name, the output folder and the JobSet. Stable, so that a resubmission resumes."""
    run_name_suffix: Literal["none", "date", "commit"] = "none"
    """What `name` is completed with: `-20261121` or `-1a2b3c4`."""
    mode: Literal["mcjax", "pathways", "auto"] = "auto"
    """How JAX is driven. `auto`: Pathways where the workload has a pathways section, else McJAX; the plan says which
    and why.
    """
    target: TargetName = "xpk"
    """Where it runs: a cluster through xpk, or this machine (`local`)."""
    place: Place | Annotated[str, StringConstraints(min_length=1)] | None = None
    """A name from places.yaml, or the cluster itself."""
    tpu: Tpu | None = None
    model: Model
    data: Data
    train: Train
    eval: Eval | None = None
    lora: Lora | None = None
    parallelism: Parallelism = Field(default_factory=Parallelism)
    image: Image = Field(default_factory=Image)
    output: Storage | None = None
    """MaxText's base_output_directory; unset: the place's. Results: `<output>/<run_name>/checkpoints`."""
    secrets: Secrets = Field(default_factory=Secrets)
    restarts: Restarts = Field(default_factory=Restarts)
    pathways: Pathways | None = None
    queue: DnsLabel | None = None
    """Kueue LocalQueue; unset: the place's."""
    namespace: DnsLabel | None = None
    """Kubernetes namespace; unset: the place's."""
    priority: Priority = "medium"
    """Kubernetes PriorityClass, as xpk makes them."""
    ttl_seconds_after_finished: int = Field(default=43200, ge=0, le=2**31 - 1)
    """Seconds a finished JobSet stays; xpk says 12 hours."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Environment of the trainer. Never secrets: they are refused."""
    xla_flags: list[str] = Field(default_factory=list)
    """XLA and libtpu flags, `--xla_tpu_…=…`: to LIBTPU_INIT_ARGS in McJAX, to the proxy in Pathways."""
    overrides: Overrides = Field(default_factory=Overrides)
    checks: dict[str, str] = Field(default_factory=dict)
    """Warnings you have read and accept: `{ID: "why"}`."""
