"""Errors of an older JobSet suggest an upgrade, not a change of the workload."""

from __future__ import annotations

import pytest

from xsft.effects.cluster.answers import Reply
from xsft.effects.cluster.errors import ApiRequest, invalid
from xsft.reading import resources as kinds

COORDINATOR, RESTART = "spec.coordinator", "spec.failurePolicy.restartStrategy"
OF_A_POD = "spec.replicatedJobs[0].template.spec.podReplacementPolicy"


@pytest.mark.parametrize(
    ("fields", "upgrade"),
    [
        ((COORDINATOR,), "upgrade it to JobSet v0.6.0 or later"),
        ((COORDINATOR, RESTART), "upgrade it to JobSet v0.7.0 or later"),
        ((OF_A_POD,), "upgrade it to JobSet (xpk installs v0.10.1"),
    ],
)
def test_fields_unknown_to_the_installed_jobset_name_the_release_to_install(
    fields: tuple[str, ...], upgrade: str
) -> None:
    """The words of the server: kubernetes@v1.35, fieldValidation=Strict."""
    told = ", ".join(f'unknown field "{field}"' for field in fields)
    said = f'JobSet in version "v1alpha2" cannot be handled as a JobSet: strict decoding error: {told}'
    reply = Reply(status=400, body={"kind": "Status", "message": said})
    (problem,) = invalid(reply, ApiRequest(verb="create", resource=kinds.JOBSETS, namespace="default", name="run"))
    assert upgrade in problem.fix
    assert all(field in problem.fix for field in fields)
