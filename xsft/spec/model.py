"""WorkloadSpec: one YAML file, typed. Its types reject impossible values; `xsft.checks` reports unwise ones."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

from xsft.spec import forms
from xsft.spec.base import DnsLabel, EnvName, Section, StoragePath, Value
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
from xsft.spec.stages import Stages
from xsft.targets import Targeted, targets
from xsft.training import DEFAULT_TRAINER, trainers

RunName = Annotated[str, StringConstraints(pattern=forms.NAME, max_length=40)]
"""xpk's rule (xpk@1.16.0 parser/validators.py name_type)."""

Priority = Literal["very-low", "low", "medium", "high", "very-high"]
"""xpk's PriorityClasses: 100, 250, 500, 750, 1000 (xpk@1.16.0 core/kueue_manager.py)."""


class Overrides(Section):
    maxtext: dict[str, Value] = Field(default_factory=dict)
    """Any MaxText key; nested ones as its command line writes them (`lora.lora_rank`). A key that has a field obeys the
    field's rules."""


def _known_target(name: str) -> str:
    if name not in targets():
        raise PydanticKnownError("literal_error", {"expected": " or ".join(repr(one) for one in targets())})
    return name


TargetName = Annotated[str, AfterValidator(_known_target), WithJsonSchema({"type": "string", "enum": list(targets())})]


def _known_trainer(name: str) -> str:
    if name not in trainers():
        known = " or ".join(trainers())
        raise PydanticCustomError(
            "trainer_unknown",
            "no registered trainer has this name; allowed: {known}",
            {"known": known, "fix": f"Give {known}."},
        )
    return name


TrainerName = Annotated[
    str, AfterValidator(_known_trainer), WithJsonSchema({"type": "string", "enum": list(trainers())})
]


class WorkloadSpec(Targeted, Section):
    """One fine-tuning run."""

    name: RunName
    """Run name: MaxText's run_name, the output folder and the JobSet. Stable, so that a resubmission resumes."""
    run_name_suffix: Literal["none", "date", "commit"] = "none"
    """Suffix of `name`: `-20261121` or `-1a2b3c4`."""
    mode: Literal["mcjax", "pathways", "auto"] = "auto"
    """How JAX is driven. `auto`: Pathways if the workload has a pathways section, else McJAX; the plan says which and
    why."""
    target: TargetName = "xpk"
    """Target: a cluster through xpk, or this machine (`local`)."""
    trainer: TrainerName = DEFAULT_TRAINER
    """Trainer. `sft`: MaxText's supervised fine-tuning."""
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
    output: StoragePath | None = None
    """MaxText's base_output_directory; if unset, the place's. Results: `<output>/<run_name>/checkpoints`."""
    secrets: Secrets = Field(default_factory=Secrets)
    restarts: Restarts = Field(default_factory=Restarts)
    pathways: Pathways | None = None
    queue: DnsLabel | None = None
    """Kueue LocalQueue; if unset, the place's."""
    namespace: DnsLabel | None = None
    """Kubernetes namespace; if unset, the place's."""
    priority: Priority = "medium"
    """Kubernetes PriorityClass, one of those that xpk makes."""
    ttl_seconds_after_finished: int = Field(default=43200, ge=0, le=2**31 - 1)
    """Seconds that a finished JobSet is kept; xpk's default is 12 hours."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Environment of the trainer. Secrets are refused here."""
    xla_flags: list[str] = Field(default_factory=list)
    """XLA and libtpu flags, `--xla_tpu_…=…`: to LIBTPU_INIT_ARGS in McJAX, to the proxy in Pathways."""
    overrides: Overrides = Field(default_factory=Overrides)
    stages: Stages = Field(default_factory=Stages)
    checks: dict[str, str] = Field(default_factory=dict)
    """Warnings that you accept: `{ID: "why"}`."""
