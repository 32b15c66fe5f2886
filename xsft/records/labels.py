"""Labels and annotations that identify the run of a JobSet, its requests, and its pods. Pure."""

from __future__ import annotations

from xsft.base.targets import FIRST

RUN_LABEL = "xsft.dev/run"
JOBSET_LABEL = "xsft.dev/jobset"
MODE_LABEL = "xsft.dev/mode"
TARGET_LABEL = "xsft.dev/target"
"""Label with the launcher that rendered a JobSet; one that xpk rendered has none."""
WORK_LABEL = "xsft.dev/work"
"""Label of a JobSet that does not train, with its kind of work (`naming.StageWork`); a training has none."""
SERVERS = f"{WORK_LABEL}=serve"
"""Label selector of the Deployments of all servers, and of their pods."""
DIGEST_ANNOTATION = "xsft.dev/spec-digest"
STEPS_ANNOTATION = "xsft.dev/steps"
OUTPUT_ANNOTATION = "xsft.dev/output"
FOR_ANNOTATION = "xsft.dev/for-run"
"""Annotation with the run_name of the training that such a job belongs to."""
DATA_ANNOTATION = "xsft.dev/data-on-restart"
"""Annotation with `reshuffle` or `repeat` (`restarts.data`)."""

TPU_NODE = "cloud.google.com/gke-tpu-accelerator"
"""GKE's label of TPU hosts; its value names the generation."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""Label of every node: its machine type."""

WRITES_ANNOTATION = "xsft.dev/writes"
"""Annotation with the path of such a job's result."""
SERVES_ANNOTATION = "xsft.dev/serves"
"""Annotation with the weights that a server loads: a folder, or a repository of the hub."""

RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
"""Label of each pod and Job: the restarts of its JobSet when it was made. source: jobset@v0.10.1
api/jobset/v1alpha2/jobset_types.go."""
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
"""Label of each pod and Job: its JobSet's name. source: jobset@v0.10.1 api/jobset/v1alpha2/jobset_types.go."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Index of a pod in its Job: a label since Kubernetes 1.28, an annotation always. source: k8s.io/api batch/v1,
JobCompletionIndexAnnotation."""

FIRST_HOSTS = f"{JOBSET_NAME},{COMPLETION_INDEX}=0"
"""Label selector of the first pod of every Job. With exclusive placement JobSet makes no other before that one has a
node (jobset@v0.10.1 pkg/webhooks/pod_admission_webhook.go), so if it cannot pull the image, no pod can.
"""


def target_label(target: str) -> dict[str, str]:
    """Return the label of a launcher; empty for xpk, because `status` counts every JobSet without the label as
    xpk's."""
    return {} if target == FIRST else {TARGET_LABEL: target}
