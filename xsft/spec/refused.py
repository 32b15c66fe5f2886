"""Features of xpk that xsft knows and does not support, each with its reason. Pure.

To support one, add a field to the spec and remove its line here. docs/checks.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Refusal(NamedTuple):
    id: str
    reason: str


_HEADLESS = Refusal(
    id="refused-headless",
    reason=(
        "Headless Pathways starts servers without a trainer: Kubernetes before 1.34 refuses its containers, and "
        "it keeps the slices until a user deletes it."
    ),
)
_ELASTIC = Refusal(
    id="refused-elastic",
    reason=(
        "Elastic slices need a trainer that continues with fewer slices; MaxText's SFT trainer does not (only its "
        "pre-training loop does). restarts.max resumes from the last checkpoint."
    ),
)
_COLOCATED = Refusal(
    id="refused-colocated-python",
    reason=(
        "Colocated Python needs a sidecar on every worker from a pair of images that fit each other; SFT reads "
        "its data on the head and does not use it."
    ),
)
_STORAGE = Refusal(
    id="refused-storage",
    reason=(
        "Volumes do not survive xpk: a dry run drops --storage, and under Pathways it mounts volumes that the pod"
        " does not have. Use gs:// paths."
    ),
)
_RAMDISK = Refusal(
    id="refused-ramdisk",
    reason=(
        "Checkpoints in a RAM disk (MTC) are never written by the SFT trainer, and need a cluster made with "
        "--enable-mtc."
    ),
)
_FLEX = Refusal(
    id="refused-flex",
    reason=(
        "xpk takes flex start for GPUs, or on clusters with node auto-provisioning; elsewhere it drops the flag "
        "silently."
    ),
)
_SUPER_SLICING = Refusal(
    id="refused-super-slicing",
    reason=(
        "Super-slicing (tpu7x) is found out by xpk from the cluster, so a plan made without one cannot be what runs."
    ),
)
_SUB_SLICING = Refusal(
    id="refused-sub-slicing",
    reason=("Sub-slicing is an experiment of xpk behind an environment variable, for v6e clusters made for it."),
)
_DEBUG_DUMP = Refusal(
    id="refused-debug-dump",
    reason=(
        "xpk's debug dump sets XLA_FLAGS itself and needs gcloud in the image, else the container exits 24. Put "
        "--xla_dump_to=gs://… under xla_flags."
    ),
)
_SIDECAR = Refusal(
    id="refused-sidecar",
    reason=("xpk's stack-trace sidecar shares the trainer's wrapper and breaks its YAML together with other volumes."),
)
_SCRIPT_DIR = Refusal(
    id="refused-script-dir",
    reason=(
        "Packing a folder onto an image at submission creates an image that cannot be named again; build one "
        "with a digest, push it, and name it under image.ref."
    ),
)
_VERTEX = Refusal(
    id="refused-vertex-tensorboard",
    reason=(
        "xpk's Vertex TensorBoard needs a cluster made for it and fails without one, even in a dry run; "
        "TensorBoard reads the files in the output bucket."
    ),
)

REFUSALS: Mapping[str, Refusal] = MappingProxyType(
    {
        **dict.fromkeys(("headless", "pathways.headless"), _HEADLESS),
        **dict.fromkeys(
            (
                "elastic",
                "pathways.elastic",
                "elastic_slices",
                "max_slice_restarts",
                "pathways.elastic_slices",
                "pathways.max_slice_restarts",
                "restarts.max_slice_restarts",
                "tpu.elastic_slices",
            ),
            _ELASTIC,
        ),
        **dict.fromkeys(
            ("colocated_python_sidecar_image", "pathways.colocated_python_sidecar_image", "pathways.colocated_python"),
            _COLOCATED,
        ),
        **dict.fromkeys(("storage", "storages", "volumes", "mounts"), _STORAGE),
        **dict.fromkeys(
            ("ramdisk", "ramdisk_directory", "mtc_enabled", "train.ramdisk_directory", "train.mtc_enabled"), _RAMDISK
        ),
        **dict.fromkeys(
            ("flex", "tpu.flex", "tpu.capacity=flex", "tpu.capacity=flex-start", "tpu.capacity=queued"), _FLEX
        ),
        **dict.fromkeys(("super_slicing", "tpu.super_slicing"), _SUPER_SLICING),
        **dict.fromkeys(
            ("sub_slicing", "sub_slicing_topology", "tpu.sub_slicing", "tpu.sub_slicing_topology"), _SUB_SLICING
        ),
        **dict.fromkeys(("debug_dump_gcs", "train.debug_dump_gcs"), _DEBUG_DUMP),
        "deploy_stacktrace_sidecar": _SIDECAR,
        **dict.fromkeys(
            ("base_docker_image", "script_dir", "image.base_docker_image", "image.script_dir", "image.base"),
            _SCRIPT_DIR,
        ),
        **dict.fromkeys(("use_vertex_tensorboard", "experiment_name"), _VERTEX),
    }
)
"""Key path that an xpk user would try, or `path=value` -> (problem id, reason)."""
