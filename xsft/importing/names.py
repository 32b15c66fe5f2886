"""Derive `name` and `run_name_suffix` from MaxText's run_name and the JobSet's name. Pure."""

from __future__ import annotations

import re

from pydantic import TypeAdapter, ValidationError

from xsft.importing.cluster import Tree
from xsft.importing.notes import Notes
from xsft.spec.model import RunName

_HOLE = r"\0[0-9]+\0"


def name_fields(workload: str | None, run_name: str | None, notes: Notes) -> Tree:
    """Return `name` and `run_name_suffix`; both empty if the paste has no name."""
    chosen = _chosen_name(workload, run_name, notes)
    return _split_completed_name(chosen, notes) if chosen is not None else {}


def _chosen_name(workload: str | None, run_name: str | None, notes: Notes) -> str | None:
    if run_name is None or workload is None or run_name == workload:
        return run_name if workload is None else workload
    if re.fullmatch(re.escape(run_name) + r"-[2-9]", workload):
        notes.differ("--workload", given=workload, now=run_name, why="xsft numbers later attempts itself")
        return run_name
    if _is_name(re.sub(_HOLE, "0", run_name)):
        why = "the JobSet takes the run's name, which is kept because it determines the output folder"
        notes.differ("--workload", given=workload, now=run_name, why=why)
        return run_name
    why = "the JobSet has the same name, which allows lower case, digits and dashes; the output folder has the new name"
    notes.differ("run_name", given=run_name, now=workload, why=why)
    return workload


def _split_completed_name(name: str, notes: Notes) -> Tree:
    """Split a completed name: `sft-$(date +%s)` is `sft` with run_name_suffix: date."""
    holes = notes.holes.holes_in(name)
    kinds = {"date" if hole.is_date else "commit" if hole.is_commit else "" for hole in holes}
    if kinds not in ({"date"}, {"commit"}):
        return {"name": name}
    (suffix,) = kinds
    base = re.sub(r"[-_.]*" + _HOLE + r"[-_.]*", "-", name).strip("-") or "sft"
    why = f"xsft import runs no command; run_name_suffix adds the {suffix} instead"
    notes.differ("run_name", given=name, now=f"{base} with run_name_suffix: {suffix}", why=why)
    return {"name": base, "run_name_suffix": suffix}


def _is_name(name: str) -> bool:
    try:
        TypeAdapter(RunName).validate_python(name)
    except ValidationError:
        return False
    return True
