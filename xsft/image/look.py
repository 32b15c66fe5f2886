"""Reads for `submit` what a registry has of an image. Never fails: what could not be read is part of the result."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import XsftError
from xsft.image.code_layer import Manifest
from xsft.image.contents import ENV_NAMES, ImageConfiguration, ImageLook
from xsft.image.reference import is_google, parse_reference
from xsft.image.registry import RegistryClient
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
    look = ImageLook(ref=ref, status="unread", asked_with="no login")
    try:
        reference = parse_reference(ref)
        if not reference.host:
            return replace(look, why="The node chooses its registry.")
        repository = RegistryClient(reference.name, env=own_environment() if env is None else env, budget_s=PAUSES_S)
        if repository.login is not None:
            look = replace(look, asked_with="your login")
        elif is_google(reference.host):  # Google's registries answer nothing without one
            return replace(look, why=f"There is no login for {reference.host} here.")
        return call_within(DEADLINE_S, lambda: _look(repository, reference.identifier or "latest", look))
    except (XsftError, ValueError) as failed:
        return replace(look, why=str(failed))


def _look(repository: RegistryClient, tag: str, look: ImageLook) -> ImageLook:
    answer = repository.manifest_for_tpus(tag)
    if answer is None:
        return replace(look, status="missing")
    return replace(look, status="there", configuration=_read_configuration(repository, answer[1]))


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
    platform = f"{configuration.os}/{configuration.architecture}"
    variables = (variable.partition("=") for variable in run.env or ())
    return ImageConfiguration(
        platforms=(platform,) if configuration.os and configuration.architecture else (),
        size=manifest.size,
        labels=run.labels or {},
        env={name: text for name, _, text in variables if name in ENV_NAMES},
        entrypoint=run.entrypoint or (),
        made_by=tuple(entry.created_by for entry in configuration.history or ()),
    )
