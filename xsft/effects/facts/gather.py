"""Facts: what planning must know from the world, and only what this workload needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from xsft.effects.facts.checkpoint import read_checkpoint
from xsft.effects.facts.tokenizer import hub_cache, read_tokenizer
from xsft.effects.inputs.checkout import git_commit
from xsft.effects.inputs.places import load_places
from xsft.effects.machine.files import STDIN
from xsft.facts import CheckpointFacts, Facts, ImageFacts, MachineFacts, TokenizerFacts
from xsft.spec.model import WorkloadSpec
from xsft.spec.place import Place
from xsft.spec.resolve import resolve

Look = Callable[[str], CheckpointFacts]


def gather(
    spec: WorkloadSpec, *, file: str | Path, today: str, offline: bool = False, look: Look = read_checkpoint
) -> Facts:
    """Facts for one workload; `today` is the UTC date, YYYYMMDD.

    `offline` leaves the checkpoint unread. Pass a cached `look` for many workloads: they often share a checkpoint, and
    one that does not answer costs fifteen seconds. Raises SpecError when the places.yaml it names is wrong.
    """
    folder = folder_of(file)
    places, places_file = load_places(folder) if isinstance(spec.place, str) else ({}, None)
    facts = Facts(
        today=today,
        commit=git_commit(folder) if spec.run_name_suffix == "commit" else None,
        working_directory=str(Path.cwd()),
        places=places,
        places_file=places_file,
        image=_image(spec, folder, places),
        machine=machine() if spec.on_this_machine else MachineFacts(),
    )
    facts = replace(facts, tokenizer=_tokenizer(spec, facts))
    return facts if offline else replace(facts, checkpoint=_checkpoint(spec, facts, look))


def folder_of(file: str | Path) -> Path:
    """Folder of the workload, whose places and commit count; standard input counts as here."""
    return Path.cwd() if str(file) == STDIN else Path(file).absolute().parent


def machine() -> MachineFacts:
    """This machine, as a local run may use it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return MachineFacts(memory_gib=round(memory, 1))


def _image(spec: WorkloadSpec, folder: Path, places: Mapping[str, Place]) -> ImageFacts | None:
    """Of the image that is named. Raises EnvironmentMissing where a file of it cannot be read."""
    if spec.image.name is None:
        return None
    from xsft.effects.images.lock import image_facts

    place = places.get(spec.place) if isinstance(spec.place, str) else spec.place
    return image_facts(spec.image.name, start=folder, registry=place.registry if place else None)


def _tokenizer(spec: WorkloadSpec, facts: Facts) -> TokenizerFacts | None:
    """An absolute path of a run on a cluster lies in its image."""
    name, model = resolve(spec, facts)[0].tokenizer, spec.model
    if name is None or (spec.on_cluster and name.startswith(("/", "gs://"))):
        return None
    wanted = tuple(token for token in (model.pad_token, model.bos_token) if token)
    return read_tokenizer(name, hub_cache=hub_cache(os.environ), wanted=wanted)


def _checkpoint(spec: WorkloadSpec, facts: Facts, look: Look) -> CheckpointFacts | None:
    """On a cluster a path that is not in a bucket lies in the image, where nobody can look from here; here it is
    absolute already.
    """
    path = resolve(spec, facts)[0].checkpoint
    if path is None or (spec.on_cluster and not path.startswith("gs://")):
        return None
    return look(path)
