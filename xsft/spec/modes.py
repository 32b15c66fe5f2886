"""The ways to drive JAX, and what each decides. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from xsft.base.names import MODES, ModeName


class ModeRules(Struct, frozen=True, kw_only=True):
    """What a mode decides, whatever the workload says."""

    xpk_verb: str
    """The verb of `xpk workload` and of `xpk cluster`."""
    replicated_job: str
    """Name of the replicated job that holds the slices."""
    trainer_job: str
    """Name of the replicated job whose container runs the trainer."""
    trainer_keys: Mapping[str, bool]
    trainer_env: tuple[tuple[str, str], ...]
    reserved_env: frozenset[str]
    """Environment variables that xpk or this mode sets in the trainer's container; Kubernetes refuses a second entry
    (duplicate env)."""
    reads_ocdbt: bool
    """Whether it reads checkpoints with OCDBT or zarr v3."""


MCJAX = ModeRules(
    xpk_verb="create",
    replicated_job="slice-job",
    trainer_job="slice-job",
    # source: MaxText docs tutorials/posttraining/sft_on_multi_host.md: both True for McJAX. Tunix ignores them, and
    # saves by its own rule.
    trainer_keys=MappingProxyType({"checkpoint_storage_use_zarr3": True, "checkpoint_storage_use_ocdbt": True}),
    trainer_env=(),
    reserved_env=frozenset(),
    reads_ocdbt=True,
)
"""One Python process per host."""

PATHWAYS = ModeRules(
    xpk_verb="create-pathways",
    replicated_job="worker",
    trainer_job="pathways-head",
    # Pathways' persistence supports only zarr v2: "OCDBT not supported for Pathways." source: pathwaysutils@0.1.13
    # persistence/orbax_handler.py
    trainer_keys=MappingProxyType(
        {
            "checkpoint_storage_use_zarr3": False,
            "checkpoint_storage_use_ocdbt": False,
            "enable_single_controller": True,
        }
    ),
    # source: MaxText docs tutorials/posttraining/sft_on_multi_host.md. The last must be exactly `1`
    # (pathwaysutils@0.1.13 _initialize.py).
    trainer_env=(
        ("JAX_PLATFORMS", "proxy"),
        ("JAX_BACKEND_TARGET", "grpc://127.0.0.1:29000"),
        ("ENABLE_PATHWAYS_PERSISTENCE", "1"),
    ),
    reserved_env=frozenset(
        {"PATHWAYS_HEAD", "JAX_PLATFORMS", "XCLOUD_ENVIRONMENT", "JAX_BACKEND_TARGET", "ENABLE_PATHWAYS_PERSISTENCE"}
    ),
    reads_ocdbt=False,
)
"""One Python process on the head pod drives every chip through a proxy."""


def mode_rules(mode: ModeName) -> ModeRules:
    match mode:
        case "mcjax":
            return MCJAX
        case "pathways":
            return PATHWAYS


def is_mode_key(key: str) -> bool:
    """Return whether a mode decides this key of the trainer."""
    return any(key in mode_rules(mode).trainer_keys for mode in MODES)


def mode_reserving(variable: str) -> ModeName | None:
    """Return the mode that reserves this environment variable; None if no mode does."""
    return next((mode for mode in MODES if variable in mode_rules(mode).reserved_env), None)
