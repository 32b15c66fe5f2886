"""WorkloadSpec: one YAML file, typed. Its types reject impossible values; `xsft.checks` reports unwise ones."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

from xsft.base import forms
from xsft.base.names import ModeName
from xsft.base.stage import StageName
from xsft.base.targets import (
    DEFAULT_TRAINER,
    FIRST,
    LAUNCHERS,
    TargetProperties,
    registered_launcher,
    targets,
    trainers,
)
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
    Pods,
    Restarts,
    Secrets,
    Tpu,
    Train,
)
from xsft.spec.stages import Stages, later_stages

RunName = Annotated[
    str, StringConstraints(pattern=forms.NAME, max_length=max(one.name_limit for one in LAUNCHERS.values()))
]
"""At most as long as any launcher accepts; `xsft.checks.place` knows the limit of the run's own launcher and mode."""

DEFAULT_PRIORITY = "medium"
"""xpk's own default (xpk@1.16.0 parser/workload.py); every launcher takes it."""


class Overrides(Section):
    """Keys that xsft passes to the trainer as they are."""

    maxtext: dict[str, Value] = Field(default_factory=dict)
    """Any key of MaxText; write nested keys as on its command line (`lora.lora_rank`). If the workload has a field for
    the key, the rules of the field apply."""


def _known_target(name: str) -> str:
    if name not in targets():
        raise PydanticKnownError("literal_error", {"expected": " or ".join(repr(target) for target in targets())})
    return name


TargetName = Annotated[str, AfterValidator(_known_target), WithJsonSchema({"type": "string", "enum": list(targets())})]


def _known_priority(name: object, workload: ValidationInfo) -> object:
    allowed = registered_launcher(workload.data.get("target", FIRST)).priorities
    if allowed and name not in allowed:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, allowed))})
    return name


def _priority_schema() -> dict[str, object]:
    """Return the schema: the priorities of all launchers, or any text if one of them takes every PriorityClass."""
    priorities = [launcher.priorities for launcher in LAUNCHERS.values()]
    return {"type": "string", **({"enum": list(dict.fromkeys(chain(*priorities)))} if all(priorities) else {})}


PriorityName = Annotated[
    str,
    StringConstraints(pattern=forms.DNS_SUBDOMAIN, max_length=253),
    BeforeValidator(_known_priority),
    WithJsonSchema(_priority_schema()),
]


def _known_trainer(name: str) -> str:
    if name not in trainers():
        allowed = " or ".join(trainers())
        raise PydanticCustomError(
            "trainer_unknown",
            "no registered trainer has this name; allowed: {known}",
            {"known": allowed, "fix": f"Give {allowed}."},
        )
    return name


TrainerName = Annotated[
    str, AfterValidator(_known_trainer), WithJsonSchema({"type": "string", "enum": list(trainers())})
]


class WorkloadSpec(TargetProperties, Section):
    """One fine-tuning run."""

    name: RunName
    """Name of the run, its output folder and its JobSet. If you submit the same name again, the run resumes."""
    run_name_suffix: Literal["none", "date", "commit"] = "none"
    """Suffix of the run's name: the date (`-20261121`) or the git commit (`-1a2b3c4`)."""
    mode: Literal[ModeName, "auto"] = "auto"
    """How JAX controls the hosts. `auto`: Pathways if the workload has a pathways section, else McJAX; the plan shows
    the mode and the reason."""
    target: TargetName = FIRST
    """Where the run executes: on a cluster (`xpk`) or on this machine (`local`)."""
    trainer: TrainerName = DEFAULT_TRAINER
    """Training program. `sft`: MaxText's supervised fine-tuning."""
    place: Place | Annotated[str, StringConstraints(min_length=1)] | None = None
    """Name of a place in places.yaml, or the keys of a place."""
    tpu: Tpu | None = None
    model: Model
    data: Data
    train: Train
    eval: Eval | None = None
    lora: Lora | None = None
    parallelism: Parallelism = Field(default_factory=Parallelism)
    image: Image = Field(default_factory=Image)
    output: StoragePath | None = None
    """Folder or bucket for results (base_output_directory); if unset, the place's, or for a run on this machine
    `xsft-runs` in the current folder. Checkpoints are in
    `<output>/<run_name>/checkpoints`."""
    secrets: Secrets = Field(default_factory=Secrets)
    pods: Pods = Field(default_factory=Pods)
    restarts: Restarts = Field(default_factory=Restarts)
    pathways: Pathways | None = None
    queue: DnsLabel | None = None
    """Kueue LocalQueue; if unset, the place's."""
    namespace: DnsLabel | None = None
    """Kubernetes namespace; if unset, the place's."""
    priority: PriorityName = DEFAULT_PRIORITY
    """Kubernetes PriorityClass; xpk creates these five."""
    ttl_seconds_after_finished: int = Field(default=43200, ge=0, le=2**31 - 1)
    """Seconds after which a finished JobSet is deleted; xpk's default is 12 hours."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Environment variables of the trainer. Secrets are refused."""
    xla_flags: list[str] = Field(default_factory=list)
    """XLA and libtpu flags, `--xla_tpu_…=…`; McJAX passes them in LIBTPU_INIT_ARGS, Pathways to the proxy."""
    overrides: Overrides = Field(default_factory=Overrides)
    stages: Stages = Field(default_factory=Stages)
    checks: dict[str, str] = Field(default_factory=dict)
    """Problems that you accept, with the reason: `{ID: "why"}`."""

    @property
    def stage_names(self) -> tuple[StageName, ...]:
        """Return the stages of the workload, in order."""
        converts = self.model.hf is not None and self.model.checkpoint is None
        return (*(("convert",) if converts else ()), "train", *later_stages(self.stages))
