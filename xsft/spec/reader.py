"""Parse the text of a workload to a WorkloadSpec. Pure: YAML, then `--set`, then types; every problem of the stage that
failed."""

from __future__ import annotations

from collections.abc import Sequence

from xsft.spec.explain import validate
from xsft.spec.model import WorkloadSpec
from xsft.spec.overrides import apply_overrides
from xsft.spec.refused import REFUSALS
from xsft.spec.yamltext import parse_yaml


def read_spec(text: str, *, settings: Sequence[str] = ()) -> WorkloadSpec:
    """Return the workload. Raises SpecError."""
    parsed = apply_overrides(parse_yaml(text), settings)
    return validate(WorkloadSpec, parsed.data, parsed, refusals=REFUSALS)
