"""Asks the hub, with a short time limit, before MaxText does: its libraries try for a minute."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from xsft.base.errors import SpecError, Unreachable
from xsft.base.problems import errors_in
from xsft.checks.facts import Facts
from xsft.checks.hub_data import check_hub_data as check
from xsft.machine.paths import hub_cache, own_cache, repository_folder
from xsft.planning.hub_check import check_data, tokenizer_access
from xsft.spec.paths import FILE_FORMATS, is_local
from xsft.spec.resolve import Run

COPY = "Check the network and HF_ENDPOINT, or name a copy: --set data.hf_path=json --set data.hf_train_files=FILE."
FOLDER = "Check the network and HF_ENDPOINT, or name a folder: --set model.tokenizer=FOLDER."


def refuse_unreachable(run: Run) -> None:
    """Raise Unreachable if the data or the tokenizer is on the hub and the hub does not answer, SpecError if it refuses
    this login.
    """
    refuse_unreachable_data(run)
    name = run.tokenizer
    if name and not is_local(name) and "://" not in name and not Path(name).is_dir():
        _refuse_tokenizer(name, run.tokenizer_revision)


def refuse_unreachable_data(run: Run) -> None:
    """Raise as `refuse_unreachable` does, for the data only."""
    path = run.spec.data.hf_path
    if path in FILE_FORMATS or is_local(path) or "://" in path:
        return
    found = check_data(path)
    if found.unanswered:
        raise Unreachable(f"{path} cannot be read: {found.unanswered}", fix=COPY)
    problems = errors_in(tuple(check(run, {}, Facts(hub_data=replace(found, splits={})))))
    if problems:
        raise SpecError(problems)


def _refuse_tokenizer(name: str, revision: str | None) -> None:
    try:
        problem = tokenizer_access(name, revision)
    except Unreachable as failed:
        if repository_folder(name, hub_cache({"HF_HOME": str(own_cache() / "huggingface")})).is_dir():
            return  # transformers then loads what it downloaded before
        raise Unreachable(f"The tokenizer {name} cannot be read: {failed.message}", fix=FOLDER) from failed
    if problem:
        raise SpecError((problem,))
