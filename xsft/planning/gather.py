"""Gathers the facts from outside that planning needs, and only those that this workload needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from glob import iglob
from pathlib import Path
from re import fullmatch
from typing import TypeGuard

from msgspec.structs import replace

from xsft.base.errors import SpecError, Unreachable
from xsft.base.forms import HUB_ID
from xsft.base.names import stage_name
from xsft.base.problems import error
from xsft.catalog.datasets import dataset
from xsft.checks.facts import Facts
from xsft.cluster.places import load_places
from xsft.data.facts import DataFacts, HubDataFacts, TokenizerFacts
from xsft.data.read_rows import ReadRows, read_rows
from xsft.data.tokenizer import read_tokenizer, tokenizer_problem
from xsft.image.lock_file import image_facts
from xsft.machine.files import STDIN, ContentKind, read_content
from xsft.machine.parallel import start
from xsft.machine.paths import git_commit, hub_cache, own_cache, places_folders
from xsft.machine.process import own_environment
from xsft.planning.hub_reader import HubReader
from xsft.planning.tries import ListNames, ReadCheckpoint, folder_names, with_tries
from xsft.spec.conversion_inputs import BRANCH, is_commit
from xsft.spec.facts import CheckpointFacts, ImageFacts, SourceFacts, TemplateFacts
from xsft.spec.model import WorkloadSpec
from xsft.spec.paths import FILE_FORMATS, is_local, located_paths
from xsft.spec.place import Place
from xsft.spec.resolve import resolve
from xsft.spec.stages import later_stages
from xsft.spec.template import SUFFIXES, WHERE, template_name_problem
from xsft.weights.read_checkpoint import read_checkpoint
from xsft.weights.weights_folder import read_folder


def gather(
    spec: WorkloadSpec,
    *,
    file: str | Path,
    today: str,
    offline: bool = False,
    look: ReadCheckpoint = read_checkpoint,
    names: ListNames = folder_names,
    rows: ReadRows = read_rows,
    hub: HubReader | None = None,
) -> Facts:
    """Return the facts for one workload; `today` is the UTC date, YYYYMMDD. `offline` skips reading the checkpoint.
    Independent requests run in parallel.

    For many workloads, pass readers that send each request once (`parallel.Questions`): workloads often share data and
    a checkpoint, and a server that does not answer costs fifteen seconds. `hub`: the reader of repositories on the
    Hugging Face hub; None: they are not looked up. Raises SpecError if the places.yaml it names is invalid.
    """
    facts = facts_here(spec, file=file, today=today)
    data = start(partial(_gather_rows, spec, facts, rows, offline=offline))
    eval_data = start(partial(_eval_data, spec, facts, rows, offline=offline))
    on_hub = start(partial(_hub_data, spec, hub)) if hub else None
    commits = start(partial(_hub_commits, spec, facts, hub.commit)) if hub and hub.commit else None
    adapters = None if offline else start(partial(_gather_adapters, spec, facts, look))
    facts = replace(facts, source=_gather_source(spec, facts, hub))
    if not offline:
        facts = _with_taken(spec, _with_checkpoint(spec, facts, look, names), names)
    return replace(
        facts,
        adapters=adapters.result() if adapters else None,
        data=data.result(),
        eval_data=eval_data.result(),
        hub_data=on_hub.result() if on_hub else None,
        hub_commits=commits.result() if commits else {},
    )


def facts_here(spec: WorkloadSpec, *, file: str | Path, today: str) -> Facts:
    """Return the facts of this machine, the network left out."""
    folder = workload_folder(file)
    places, places_file = load_places(folder) if isinstance(spec.place, str) else ({}, None)
    searched: tuple[str, ...] = ()
    if isinstance(spec.place, str) and places_file is None:
        searched = tuple(map(str, places_folders(folder, env=own_environment(), home=Path.home())))
    facts = Facts(
        today=today,
        commit=git_commit(folder) if spec.run_name_suffix == "commit" else None,
        working_directory=str(Path.cwd()),
        folder=str(folder),
        places=places,
        places_file=places_file,
        places_folders=searched,
        image=_gather_image(spec, folder, places),
        memory_gib=memory_gib() if spec.on_this_machine else 0.0,
    )
    paths = located_paths(
        spec,
        run_name=resolve(spec, facts)[0].run_name,
        folders=(facts.folder, facts.working_directory),
        exists=lambda path: any(iglob(path, recursive=True)),
    )
    facts = replace(facts, paths=paths)
    tokenizer = resolve(spec, facts)[0].tokenizer
    if tokenizer and spec.on_this_machine:
        facts = replace(facts, tokenizer_problem=tokenizer_problem(tokenizer))
    return replace(facts, tokenizer=_gather_tokenizer(spec, facts))


def _with_taken(spec: WorkloadSpec, facts: Facts, names: ListNames) -> Facts:
    """Return the facts with the names of stages whose folder holds the checkpoints of a training."""
    stages = later_stages(spec.stages) if spec.on_cluster else ()
    run = resolve(spec, facts)[0] if stages else None
    if run is None or not run.output:
        return facts
    stage_names = (stage_name(run_name=run.run_name, stage=stage) for stage in stages)
    looks = {name: start(partial(names, f"{run.output.rstrip('/')}/{name}")) for name in stage_names}
    try:
        return replace(
            facts, taken=tuple(name for name, listing in looks.items() if "checkpoints/" in listing.result())
        )
    except Unreachable as failed:
        return replace(facts, taken_unread=failed.message)


def workload_folder(file: str | Path) -> Path:
    """Return the workload's folder, whose places and commit apply; for standard input the current folder."""
    return Path.cwd() if str(file) == STDIN else Path(file).absolute().parent


def memory_gib() -> float:
    """Return the memory of this machine, which a local run may use."""
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def _gather_image(spec: WorkloadSpec, folder: Path, places: Mapping[str, Place]) -> ImageFacts | None:
    """Return the facts of the named image. Raises EnvironmentMissing if one of its files cannot be read."""
    if spec.image.name is None:
        return None
    place = places.get(spec.place) if isinstance(spec.place, str) else spec.place
    return image_facts(spec.image.name, start=folder, registry=place.registry if place else None)


def _gather_tokenizer(spec: WorkloadSpec, facts: Facts) -> TokenizerFacts | None:
    """Return the tokenizer's facts, or None. For a run on a cluster an absolute path is in its image and cannot be read
    here.
    """
    run, model = resolve(spec, facts)[0], spec.model
    if run.tokenizer is None or (spec.on_cluster and run.tokenizer.startswith(("/", "gs://"))):
        return None
    tokens = tuple(token for token in (model.pad_token, model.bos_token) if token)
    return read_tokenizer(
        run.located(run.tokenizer),
        revision=run.tokenizer_revision,
        hub_cache=hub_cache(own_environment()),
        wanted=tokens,
    )


def _gather_rows(spec: WorkloadSpec, facts: Facts, rows: ReadRows, *, offline: bool) -> DataFacts | None:
    """Return the facts of the data, or None if it cannot be read from here."""
    files = spec.data.hf_train_files
    if not _reads_rows(spec, files, offline=offline):
        return None
    return rows(facts.paths.get(files or "", files), of=spec.data.hf_path, where="data.hf_train_files")


def _eval_data(spec: WorkloadSpec, facts: Facts, rows: ReadRows, *, offline: bool) -> DataFacts | None:
    files = spec.data.hf_eval_files
    if spec.eval is None or not _reads_rows(spec, files, offline=offline):
        return None
    return rows(facts.paths.get(files or "", files), of=spec.data.hf_path, where="data.hf_eval_files")


def _reads_rows(spec: WorkloadSpec, files: str | None, *, offline: bool) -> bool:
    """Return whether the rows can be read here: on this machine for a local run, in a bucket for any. Under
    hf_data_dir the files' names are relative to it.
    """
    in_bucket = (files or "").startswith("gs://")
    reachable = not offline if in_bucket else spec.on_this_machine
    return reachable and not spec.data.hf_data_dir


def _hub_data(spec: WorkloadSpec, hub: HubReader) -> HubDataFacts | None:
    """Return the hub's answer on a data set that the catalogue does not have."""
    path = spec.data.hf_path
    is_known = path in FILE_FORMATS or is_local(path) or "://" in path or dataset(path) is not None
    return None if is_known or spec.data.pipeline == "grain" else hub.data(path)


def _hub_commits(spec: WorkloadSpec, facts: Facts, look: Callable[[str, str], str | None]) -> dict[str, str]:
    """Return the hub's commit of the tokenizer and of the data set, where the workload names no commit."""
    run, data = resolve(spec, facts)[0], spec.data
    questions = {}
    tokenizer = run.located(run.tokenizer or "/")
    revision = run.tokenizer_revision or BRANCH
    if fullmatch(HUB_ID, tokenizer) and not is_commit(revision):
        questions["tokenizer"] = start(partial(look, f"models/{tokenizer}", revision))
    if data.pipeline != "grain" and data.hf_path not in FILE_FORMATS and fullmatch(HUB_ID, run.located(data.hf_path)):
        questions["data"] = start(partial(look, f"datasets/{data.hf_path}", BRANCH))
    return {part: commit for part, question in questions.items() if (commit := question.result())}


def _gather_source(spec: WorkloadSpec, facts: Facts, hub: HubReader | None) -> SourceFacts | None:
    """Return the facts of a weights folder on this machine, or the hub's facts of a repository."""
    run, _ = resolve(spec, facts)
    if run.conversion is None:
        return None
    if not run.conversion.source.is_folder:
        return hub.weights(run.conversion.source) if hub else None
    if not spec.on_this_machine:
        return None
    return read_folder(run.conversion.source.repo, cache=own_cache())


def _with_checkpoint(spec: WorkloadSpec, facts: Facts, look: ReadCheckpoint, names: ListNames) -> Facts:
    """Return the facts with the checkpoint's. On a cluster a path outside a bucket is in the image, which cannot be
    read from here; for a local run it is already absolute.
    """
    path = resolve(spec, facts)[0].checkpoint
    if not _is_readable_here(path, spec):
        return facts
    if spec.model.hf is not None and not spec.model.checkpoint:
        return with_tries(spec, facts, look=look, names=names)
    return replace(facts, checkpoint=look(path))


def _gather_adapters(spec: WorkloadSpec, facts: Facts, look: ReadCheckpoint) -> CheckpointFacts | None:
    path = resolve(spec, facts)[0].adapters
    if not _is_readable_here(path, spec):
        return None
    return look(path)


def _is_readable_here(path: str | None, spec: WorkloadSpec) -> TypeGuard[str]:
    """Return whether the path can be read from here. On a cluster a path outside a bucket is in the image."""
    return path is not None and (spec.on_this_machine or path.startswith("gs://"))


MAX_TEMPLATE_BYTES = 64 * 1024
"""Chat templates on the hub take up to 20 kB; a container's command holds 120,000 bytes (launchers.encoding)."""
TEMPLATE = ContentKind(
    noun="template",
    max_bytes=MAX_TEMPLATE_BYTES,
    suffixes=SUFFIXES,
    where="Check the path; it starts from the workload's folder.",
    make="Write the template, or remove data.chat_template.",
)


def template_facts(spec: WorkloadSpec, *, file: str | Path) -> TemplateFacts | None:
    """Return the file that `data.chat_template` names, relative to the folder of the workload `file`; None if it names
    none.
    """
    name = spec.data.chat_template
    if name is None:
        return None
    if refused := template_name_problem(name):
        return TemplateFacts(problem=refused)
    try:
        return TemplateFacts(text=read_content(workload_folder(file) / name, TEMPLATE))
    except SpecError as unread:
        (problem,) = unread.problems
        return TemplateFacts(problem=error(problem.id, WHERE, problem.message, problem.fix))
