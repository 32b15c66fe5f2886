"""Labels and annotations that tell whose run a JobSet is, what was asked of it, and which pods are its. Pure."""

from __future__ import annotations

RUN_LABEL = "xsft.dev/run"
JOBSET_LABEL = "xsft.dev/jobset"
MODE_LABEL = "xsft.dev/mode"
DIGEST_ANNOTATION = "xsft.dev/spec-digest"
STEPS_ANNOTATION = "xsft.dev/steps"
OUTPUT_ANNOTATION = "xsft.dev/output"
DATA_ANNOTATION = "xsft.dev/data-on-restart"
"""`reshuffle` or `repeat` (`restarts.data`)."""

RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
"""Of each pod and Job: how often JobSet had restarted when it was made. source: jobset@v0.10.1
api/jobset/v1alpha2/jobset_types.go.
"""
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
"""Of each pod and Job. source: jobset@v0.10.1 api/jobset/v1alpha2/jobset_types.go."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""A label since Kubernetes 1.28, an annotation always. source: k8s.io/api batch/v1, JobCompletionIndexAnnotation."""

FIRST_HOSTS = f"{JOBSET_NAME},{COMPLETION_INDEX}=0"
"""Label selector of the first pod of every Job. With exclusive placement JobSet makes no other before that one has a
node (jobset@v0.10.1 pkg/webhooks/pod_admission_webhook.go), and an image that one cannot pull none can.
"""
