"""Check the data set's splits, and what the hub answers about it: access, configuration, splits and columns. Pure.

MaxText streams the data, so a split has a name and no slice. source: maxtext@0.2.5 input_pipeline/hf_data_processing.py
(streaming=True), configs/types.py (hf_eval_files); datasets@5.2.0 builder.py as_streaming_dataset ("Bad split"),
data_files.py sanitize_patterns (files are `train`)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.datasets import dataset
from xsft.checks.facts import Facts
from xsft.data.facts import HubDataFacts
from xsft.spec.base import Keys
from xsft.spec.resolve import Run

TABLE = "configuration, splits and columns"
HUB = "https://huggingface.co"
_NAME = re.compile(r"\w+(\.\w+)*")
"""Pattern of a split's name. source: datasets@5.2.0 naming.py _split_re."""

_ALL = "all"
"""Name that stands for all splits, unless a split has this name."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    yield from check_hub_data(run, keys, facts)
    yield from check_splits(run, keys, facts)


def check_hub_data(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Yield the problems of the data section that the hub's answer shows."""
    del keys
    hub = facts.hub_data
    path = run.spec.data.hf_path
    if hub is None:
        return
    if hub.unanswered:
        message = f"{path} was not looked up on the hub: {hub.unanswered}"
        yield note("hub-data-unknown", "data.hf_path", message, f"Unknown: access, {TABLE}.", kind="unread")
    elif hub.access != "read":
        yield _no_access(run, hub, path)
    elif hub.script:
        message = f"{path} is loaded by its own script, {hub.script}; datasets 4.0 and newer refuse such scripts."
        fix = "Use a data set of parquet or JSON files, or write its rows to such files and set data.hf_train_files."
        yield error("hub-data-script", "data.hf_path", message, fix, kind="disputable")
    elif not hub.splits:
        message = f"The hub has no table of the configurations of {path}."
        yield note("hub-data-unknown", "data.hf_path", message, f"Unknown: {TABLE}.", kind="unread")
    elif not run.spec.data.hf_data_dir and not run.spec.data.hf_train_files:
        yield from _check_configuration_on_hub(run, hub, path)


def _no_access(run: Run, hub: HubDataFacts, path: str) -> Problem:
    """A run on a cluster reads with its own token; xsft never uses that token to ask the hub."""
    what = "is gated" if hub.access == "gated" else "does not exist on the hub, or is private"
    message = f"{path} {what}: your login (or, without one, an anonymous request) may not read it."
    if run.spec.on_cluster and run.spec.secrets.hf_token is not None:
        fix = f"Check that the account of secrets.hf_token may read it. {_login(hub, path)}"
        return warning("hub-data-access", "data.hf_path", message, fix)
    fix = _login(hub, path)
    if run.spec.on_cluster:
        fix = f"{fix} The pods need a token, too: secrets.hf_token."
    return error("hub-data-access", "data.hf_path", message, fix, kind="disputable")


def _login(hub: HubDataFacts, path: str) -> str:
    if hub.access == "gated":
        return f"Accept its terms at {HUB}/datasets/{path}, and log in: `hf auth login`."
    return "Check the spelling. If it is private, log in with `hf auth login`."


def _check_configuration_on_hub(run: Run, hub: HubDataFacts, path: str) -> Iterator[Problem]:
    data = run.spec.data
    name = data.hf_name or _default(hub)
    if name not in hub.splits:
        message = f"{path} has no configuration {data.hf_name or '(none given)'}."
        fix = f"Use one of: {', '.join(hub.splits)}."
        yield error("dataset-configuration", "data.hf_name", message, fix, kind="disputable")
        return
    for field in ("train_split", "hf_eval_split"):
        split = getattr(data, field)
        existing = hub.splits[name]
        missing = [name for name in names_of(split) if name not in existing] if split and existing else []
        if missing and split != "all":
            message = f"{path} has no split {' or '.join(missing)}."
            yield error(
                "dataset-split", f"data.{field}", message, f"Use one of: {', '.join(existing)}.", kind="disputable"
            )
    columns = hub.columns.get(name, ())
    missing = [column for column in data.columns if columns and column not in columns]
    if missing:
        message = f"{path} has no column {', '.join(missing)}; it has {', '.join(columns)}."
        fix = "Set data.columns to its columns, or rename them: `xsft data prepare --rename OLD=NEW`."
        yield error("columns-dataset", "data.columns", message, fix, kind="disputable")


def _default(hub: HubDataFacts) -> str:
    """Return the configuration that datasets takes if none is named: the only one, the one that the data set marks, or
    `default`."""
    return next(iter(hub.splits)) if len(hub.splits) == 1 else hub.default or "default"


def check_splits(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for a split that MaxText would not find once the slices are taken."""
    del keys, facts
    data = run.spec.data
    yield from _check_split(run, data.train_split, "data.train_split", of_files=data.hf_train_files is not None)
    if (
        data.hf_eval_split is not None and data.hf_eval_files is None
    ):  # for files MaxText uses the split `train` by default
        yield from _check_split(run, data.hf_eval_split, "data.hf_eval_split", of_files=False)


def names_of(split: str) -> tuple[str, ...]:
    """Return the names of the splits in the text; `a+b` is two."""
    return tuple(name.strip() for name in split.split("+"))


def _check_split(run: Run, split: str, where: str, *, of_files: bool) -> Iterator[Problem]:
    if not all(_NAME.fullmatch(name) for name in names_of(split)):
        message = (
            f"{split!r} is not the name of a split. MaxText streams the data, and streams have no slices: it fails "
            f"with `ValueError: Bad split: {split}`."
        )
        bare = split.partition("[")[0].strip()
        advice = f"Use {bare}; " if _NAME.fullmatch(bare) else "Use the name of a split; "
        yield error(
            "split-slice",
            where,
            message,
            f"{advice}to train on a part of the rows, lower train.steps or write them to files.",
        )
        return
    if of_files:
        if set(names_of(split)) - {"train", _ALL}:
            message = f"hf_train_files have one split, `train`, but {split} is set: MaxText fails with `Bad split`."
            yield error("split-of-files", where, message, "Set it to train; the files determine the rows.")
    else:
        yield from _check_known_split(run, split, where)
    joined = len(names_of(split)) > 1 or split == _ALL
    if joined and run.spec.on_cluster and run.spec.image.name is None:
        message = f"{split} joins splits, which the Python package datasets supports for streams only from 5.0 on."
        fix = "Use one split, or accept this under `checks:` if the image has datasets 5.0 or newer."
        yield warning("split-joined", where, message, fix)


def _check_known_split(run: Run, split: str, where: str) -> Iterator[Problem]:
    catalogued = dataset(run.spec.data.hf_path)
    splits = catalogued.splits(hf_name=run.spec.data.hf_name or "") if catalogued else ()
    missing = [name for name in names_of(split) if name not in splits]
    if catalogued and splits and missing and split != _ALL:
        message = f"{catalogued.hf_path} has no split {' or '.join(missing)}."
        yield error("dataset-split", where, message, f"Use one of: {', '.join(splits)}.", kind="disputable")
