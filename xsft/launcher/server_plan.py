"""The plan of a server on a cluster. Pure data."""

from __future__ import annotations

from msgspec import Struct

from xsft.base.aliases import JsonObject
from xsft.spec.serving_inputs import PORT, ServingInputs


class ServingPlan(Struct, frozen=True, kw_only=True):
    """One server: a run of its own, `<run_name>-serve`."""

    run_name: str
    """Name of the Deployment, the Service and the PodDisruptionBudget."""
    training: str
    """run_name of the run whose export is served."""
    namespace: str
    inputs: ServingInputs
    manifest: JsonObject
    """The Deployment: exactly what is created."""
    dependents: tuple[JsonObject, ...]
    """The Service and the PodDisruptionBudget, without the ownerReferences that name the Deployment's UID."""

    @property
    def digest(self) -> str:
        return self.inputs.digest

    @property
    def output(self) -> str:
        """Return the address of the server in the cluster."""
        return f"http://{self.run_name}.{self.namespace}.svc.cluster.local:{PORT}/v1"
