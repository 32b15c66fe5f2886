"""Conditions and pods, as types; a part of `model`, which everybody imports them from. Pure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Condition(Struct, frozen=True, kw_only=True):
    """One condition of any object. A state depends on type, status and reason; only `why` quotes the message."""

    type: str
    status: str
    """True | False | Unknown, as Kubernetes spells them."""
    reason: str = ""
    message: str = ""
    at: str = ""
    """lastTransitionTime; UTC, ISO 8601."""


class Container(Struct, frozen=True, kw_only=True):
    name: str
    state: Literal["waiting", "running", "terminated", "unknown"]
    reason: str = ""
    """ImagePullBackOff, OOMKilled, Error, …"""
    message: str = ""
    """Of a terminated container: its termination message."""
    exit_code: int | None = None
    restarts: int = 0
    started_at: str | None = None
    finished_at: str | None = None
    last: Container | None = None
    """How it ended before, if its pod restarted it (lastState)."""


class Pod(Struct, frozen=True, kw_only=True):
    name: str
    jobset: str
    replicated_job: str
    slice_index: int
    """Index of the Job in its replicated job, from 0; for the slices' job, the slice."""
    host: int
    """Completion index, from 0."""
    phase: str
    """Pending | Running | Succeeded | Failed | Unknown."""
    conditions: tuple[Condition, ...] = ()
    containers: tuple[Container, ...] = ()
    """Init containers first."""
    node: str | None = None
    attempt: int = 0
    """The restart-attempt of its Job: how often the JobSet had been restarted."""
    deleting: bool = False
    created_at: str = ""
