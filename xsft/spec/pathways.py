"""Pathways: one Python process on the head pod drives every chip through a proxy. Pure."""

from __future__ import annotations

from types import MappingProxyType

XPK_VERB = "create-pathways"
REPLICATED_JOB = "worker"
TRAINER_JOB = "pathways-head"

TRAINER_KEYS = MappingProxyType(
    {
        "checkpoint_storage_use_zarr3": False,
        "checkpoint_storage_use_ocdbt": False,
        "enable_single_controller": True,
    }
)
"""Pathways' persistence supports only zarr v2 without OCDBT.

source: pathwaysutils@0.1.13 persistence/orbax_handler.py ("OCDBT not supported for Pathways.")
"""

READS_OCDBT = False

TRAINER_ENV: tuple[tuple[str, str], ...] = (
    ("JAX_PLATFORMS", "proxy"),
    ("JAX_BACKEND_TARGET", "grpc://127.0.0.1:29000"),
    ("ENABLE_PATHWAYS_PERSISTENCE", "1"),
)
"""source: MaxText docs tutorials/posttraining/sft_on_multi_host.md. The last must be exactly `1`
(pathwaysutils@0.1.13 _initialize.py).
"""

RESERVED_ENV = frozenset(
    {"PATHWAYS_HEAD", "JAX_PLATFORMS", "XCLOUD_ENVIRONMENT", "JAX_BACKEND_TARGET", "ENABLE_PATHWAYS_PERSISTENCE"}
)
"""Environment variables that xpk or this mode sets; Kubernetes refuses a second entry (duplicate env)."""
