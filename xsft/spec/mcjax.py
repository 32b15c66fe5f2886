"""McJAX: one Python process per host. Pure."""

from __future__ import annotations

from types import MappingProxyType

XPK_VERB = "create"
REPLICATED_JOB = "slice-job"
TRAINER_JOB = "slice-job"

TRAINER_KEYS = MappingProxyType({"checkpoint_storage_use_zarr3": True, "checkpoint_storage_use_ocdbt": True})
"""source: MaxText docs tutorials/posttraining/sft_on_multi_host.md: both True for McJAX. Tunix ignores them and saves
by its own rule.
"""

TRAINER_ENV: tuple[tuple[str, str], ...] = ()

RESERVED_ENV = frozenset[str]()
"""Environment variables that xpk sets in the trainer's container."""

READS_OCDBT = True
