"""Labels and annotations of a JobSet that tell whose run it is and what was asked of it. Pure."""

from __future__ import annotations

RUN_LABEL = "xsft.dev/run"
JOBSET_LABEL = "xsft.dev/jobset"
MODE_LABEL = "xsft.dev/mode"
DIGEST_ANNOTATION = "xsft.dev/spec-digest"
STEPS_ANNOTATION = "xsft.dev/steps"
OUTPUT_ANNOTATION = "xsft.dev/output"
