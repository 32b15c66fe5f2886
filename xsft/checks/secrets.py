"""Secrets: none in the workload, and one where the hub will ask for it. No message shows a value. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from xsft.catalog.tokenizers import is_gated
from xsft.checks.values import texts
from xsft.facts import Facts
from xsft.problems import Problem, error, warning
from xsft.spec.base import Value
from xsft.spec.keypath import below
from xsft.spec.resolve import Run
from xsft.spec.secrets import looks_secret, names_secret

NO_SECRET = re.compile(r"|[0-9]+|true|false|/[^\s]*|gs://[^\s]*", re.IGNORECASE)
"""Values under a name like TOKEN that give nothing away: switches, numbers and paths."""


def check(run: Run, keys: Mapping[str, Value], facts: Facts) -> Iterator[Problem]:
    """`secret-literal`, `env-secret`, `hub-token-missing`."""
    del facts
    on_command_line = {text for value in keys.values() for text in texts(value)}  # checks.trainer_keys speaks of those
    for where, text in _leaves(run.spec.model_dump(mode="json", exclude_defaults=True), ""):
        if text in on_command_line:
            continue
        if looks_secret(text):
            yield _literal(where)
        elif where.startswith("env.") and names_secret(where) and not NO_SECRET.fullmatch(text):
            yield _named(where)
    if run.spec.on_cluster and run.spec.secrets.hf_token is None:
        yield from _gated(run)


def _literal(where: str) -> Problem:
    message = "This holds something shaped like a token; it would be readable in the manifest, the record and the logs."
    fix = "Remove it, revoke the token, and name a Kubernetes Secret: secrets.hf_token."
    return error("secret-literal", where, message, fix)


def _named(where: str) -> Problem:
    message = f"{where.removeprefix('env.')} names a secret, and its value would be readable in the manifest."
    fix = "Name a Kubernetes Secret (secrets.hf_token for the hub), or give the path of a mounted file."
    return error("env-secret", where, message, fix)


def _gated(run: Run) -> Iterator[Problem]:
    """Weights are converted elsewhere; tokenizer and data are fetched by the run itself."""
    model, data = run.spec.model, run.spec.data
    fetched = {"model.hf.repo": model.hf.repo if model.hf else None, "model.tokenizer": model.tokenizer}
    for where, repo in {**fetched, "data.hf_path": data.hf_path}.items():
        if repo and is_gated(repo):
            message = f"{repo} is gated on the hub, and no token is named: the download is refused."
            fix = "Name its Secret: secrets: {hf_token: {secret: NAME, key: KEY}}; or stage the files on gs://."
            yield warning("hub-token-missing", where, message, fix)


def _leaves(tree: object, at: str) -> Iterator[tuple[str, str]]:
    """Every text with its key path, and a key that is a token itself."""
    if isinstance(tree, str):
        yield at, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if looks_secret(key):
                yield below(at, key), key
            yield from _leaves(value, below(at, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _leaves(value, below(at, index))
