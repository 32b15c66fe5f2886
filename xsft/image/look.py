"""Reads for `submit` what a registry has of an image. Never fails: what could not be read is part of the result."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from xsft.base.errors import XsftError
from xsft.image.contents import ENV_NAMES, ImageConfiguration, ImageLook
from xsft.image.recipe import PLATFORM
from xsft.image.reference import parse_reference
from xsft.image.registry import Manifest, RegistryClient
from xsft.image.registry_names import is_google
from xsft.machine.parallel import call_within
from xsft.machine.process import own_environment

DEADLINE_S = 10.0
"""Time limit for one look."""
PAUSES_S = 2.0
"""Maximum part of it that is spent on waiting for a busy registry."""


class _RunConfiguration(Struct, frozen=True, kw_only=True):
    labels: dict[str, str] | None = msgspec.field(default=None, name="Labels")
    env: tuple[str, ...] | None = msgspec.field(default=None, name="Env")
    entrypoint: tuple[str, ...] | None = msgspec.field(default=None, name="Entrypoint")


class _HistoryEntry(Struct, frozen=True, kw_only=True):
    created_by: str = ""


class _Configuration(Struct, frozen=True, kw_only=True):
    """source: OCI image-spec v1.1 config.md."""

    os: str = ""
    architecture: str = ""
    config: _RunConfiguration | None = None
    history: tuple[_HistoryEntry, ...] | None = ()


_CONFIGURATION = msgspec.json.Decoder(_Configuration)


def look_at_image(ref: str, *, env: Mapping[str, str] | None = None) -> ImageLook:
    """Return what the registry tells of the image, with the login that this machine has for it."""
    login = "no login"
    try:
        reference = parse_reference(ref)
        if not reference.host:
            return ImageLook(ref=ref, status="unread", asked_with=login, why="The node chooses its registry.")
        repository = RegistryClient(reference.name, env=own_environment() if env is None else env, budget_s=PAUSES_S)
        if repository.login is not None:
            login = "your login"
        elif is_google(reference.host):  # Google's registries answer nothing without one
            return ImageLook(
                ref=ref, status="unread", asked_with=login, why=f"There is no login for {reference.host} here."
            )
        tag = reference.digest or reference.tag or "latest"
        return call_within(DEADLINE_S, lambda: _look(repository, ref, tag, login))
    except (XsftError, ValueError) as failed:
        return ImageLook(ref=ref, status="unread", asked_with=login, why=str(failed))


def _look(repository: RegistryClient, ref: str, tag: str, login: str) -> ImageLook:
    answer = repository.manifest(tag)
    if answer is None:
        return ImageLook(ref=ref, status="missing", asked_with=login)
    manifest = answer[1]
    if digest := manifest.platforms.get(PLATFORM):
        of_platform = repository.manifest(digest)
        manifest = of_platform[1] if of_platform else manifest
    return ImageLook(ref=ref, status="there", asked_with=login, configuration=_read_configuration(repository, manifest))


def _read_configuration(repository: RegistryClient, manifest: Manifest) -> ImageConfiguration | None:
    """Return the configuration; of an index without an image for TPU hosts, its platforms only; None if the content is
    not an image.
    """
    if manifest.platforms:
        return ImageConfiguration(platforms=tuple(sorted(manifest.platforms)))
    if manifest.config is None or not manifest.config.digest:
        return None
    try:
        configuration = _CONFIGURATION.decode(repository.blob(manifest.config.digest))
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise ValueError(f"its configuration is invalid: {wrong}") from None
    run = configuration.config or _RunConfiguration()
    variables = (variable.partition("=") for variable in run.env or ())
    return ImageConfiguration(
        platforms=(f"{configuration.os}/{configuration.architecture}",)
        if configuration.os and configuration.architecture
        else (),
        size=manifest.size,
        labels=run.labels or {},
        env={name: text for name, _, text in variables if name in ENV_NAMES},
        entrypoint=run.entrypoint or (),
        made_by=tuple(entry.created_by for entry in configuration.history or ()),
    )
