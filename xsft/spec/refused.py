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
        "Headless Pathways starts servers without a trainer. Kubernetes before 1.34 refuses its containers, and it "
        "uses the slices until a user deletes it."
    ),
)
_ELASTIC = Refusal(
    id="refused-elastic",
    reason=(
        "Elastic slices need a trainer that continues with fewer slices; MaxText's SFT trainer cannot (only its "
        "pre-training loop can). Use restarts.max, which resumes from the last checkpoint."
    ),
)
_COLOCATED = Refusal(
    id="refused-colocated-python",
    reason=(
        "Colocated Python needs a sidecar with a matching image on every worker; SFT reads its data on the head and "
        "does not use the sidecar."
    ),
)
_STORAGE = Refusal(
    id="refused-storage",
    reason=(
        "xpk cannot render volumes: a dry run drops --storage, and under Pathways xpk mounts volumes that the pod"
        " does not have. Use gs:// paths."
    ),
)
_RAMDISK = Refusal(
    id="refused-ramdisk",
    reason=(
        "The SFT trainer never writes checkpoints to a RAM disk (MTC), and MTC needs a cluster created with "
        "--enable-mtc."
    ),
)
_FLEX = Refusal(
    id="refused-flex",
    reason=(
        "xpk supports flex start only for GPUs, or on clusters with node auto-provisioning; otherwise it silently "
        "drops the flag."
    ),
)
_SUPER_SLICING = Refusal(
    id="refused-super-slicing",
    reason=(
        "xpk reads from the cluster whether to use super-slicing (tpu7x), so a plan without a cluster would differ."
    ),
)
_SUB_SLICING = Refusal(
    id="refused-sub-slicing",
    reason=(
        "Sub-slicing is experimental in xpk (an environment variable enables it), and needs a special v6e cluster."
    ),
)
_DEBUG_DUMP = Refusal(
    id="refused-debug-dump",
    reason=(
        "xpk's debug dump sets XLA_FLAGS itself and needs gcloud in the image; without gcloud the container exits "
        "with 24. Put --xla_dump_to=gs://… under xla_flags."
    ),
)
_SIDECAR = Refusal(
    id="refused-sidecar",
    reason=("xpk's stack-trace sidecar changes the trainer's wrapper, and with other volumes xpk writes invalid YAML."),
)
_SCRIPT_DIR = Refusal(
    id="refused-script-dir",
    reason=(
        "An image that is built at submission has no name for later attempts. Build and push an image, and name it "
        "with its digest under image.ref."
    ),
)
_VERTEX = Refusal(
    id="refused-vertex-tensorboard",
    reason=(
        "xpk's Vertex TensorBoard needs a special cluster, and fails without it even in a dry run. Use TensorBoard "
        "with the files in the output bucket."
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
