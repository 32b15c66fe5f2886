"""Check data that ships with xsft (`xsft://…`): it exists, and is used only for runs on this machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xsft.data import SCHEME, SHIPPED
from xsft.facts import Facts
from xsft.problems import Problem, error
from xsft.spec.base import Value
from xsft.spec.resolve import Run


def check(run: Run, keys: Mapping[str, Value], facts: Facts) -> Iterator[Problem]:
    """Check `packaged-data-unknown` and `packaged-data-remote`; in `keys`, packaged data is already a path."""
    del facts
    for key, value in keys.items():
        if not isinstance(value, str) or not value.startswith(SCHEME):
            continue
        if run.spec.on_this_machine:
            yield _packaged_file_unknown(key, value)
        else:
            yield _remote(key, value)


def _packaged_file_unknown(key: str, value: str) -> Problem:
    known = ", ".join(SCHEME + name for name in SHIPPED)
    message = f"{value} is not a file of xsft. Known: {known}."
    return error("packaged-data-unknown", _workload_key(key), message, "Use one of these, or a path.")


def _remote(key: str, value: str) -> Problem:
    message = f"{value} is a file of this machine's xsft; a container on a cluster does not have it."
    return error("packaged-data-remote", _workload_key(key), message, "Use the hub or gs://, or target: local.")


def _workload_key(key: str) -> str:
    """Return the workload's key path of a MaxText key; source: xsft.trainers."""
    places = {
        "tokenizer_path": "model.tokenizer",
        "load_parameters_path": "model.checkpoint",
        "hf_path": "data.hf_path",
        "hf_train_files": "data.hf_train_files",
        "hf_eval_files": "data.hf_eval_files",
        "grain_train_files": "data.hf_train_files",
        "grain_eval_files": "data.hf_eval_files",
        "base_output_directory": "output",
    }
    return places.get(key, f"overrides.maxtext.{key}")
