"""Documents about this machine and about Secrets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xsft.commands.interface_base import Document


class MachineCheck(Document):
    """One thing that is there or not."""

    id: str
    """Stable, e.g. `xpk-environment`."""
    ok: bool
    required: bool
    """Whether planning and local runs need it."""
    version: str
    """Empty where it has none or could not be learnt."""
    needed_for: str
    detail: str
    fix: str
    """The command that mends it; empty where it is ok."""


class DoctorDocument(Document):
    """`xsft doctor --json`."""

    schema_: Literal["xsft.doctor/1"] = Field(alias="schema")
    checks: list[MachineCheck]
    ok: bool
    """Everything required is there."""


class Environment(Document):
    """An environment that is ready."""

    name: Literal["xpk", "maxtext"]
    version: str
    """Of xpk or MaxText."""
    digest: str
    """sha256 of the lock it was built from."""
    python: str
    """Its interpreter."""


class SetupDocument(Document):
    """`xsft setup --json`."""

    schema_: Literal["xsft.setup/1"] = Field(alias="schema")
    environments: list[Environment]


class SecretDocument(Document):
    """`xsft secret create NAME --json`. Never the value."""

    schema_: Literal["xsft.secret/1"] = Field(alias="schema")
    action: Literal["created"]
    """A Secret that exists is an error (exit status 4): nothing is overwritten."""
    name: str
    key: str
    namespace: str
    context: str
    """The kubeconfig context of its cluster."""
