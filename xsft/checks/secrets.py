"""Check that the workload contains no secret, and names a token if the hub requires one. No message shows a value.
Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.problems import Problem, error, warning
from xsft.base.secrets import is_secret_variable, looks_secret
from xsft.catalog.tokenizers import is_gated
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, texts, where_of
from xsft.spec.base import Keys
from xsft.spec.keypath import key_part, path_below
from xsft.spec.resolve import Run

WANDB = frozenset({"NETRC", "WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_MODE"})
"""Variables with a login for W&B, or with which W&B needs none."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check `secret-literal`, `env-secret`, `hub-token-missing` and `wandb-login`."""
    del facts
    on_command_line = {text for value in keys.values() for text in texts(value)}  # reported by checks.trainer_keys
    for where, text in _texts_to_search(run):
        if text not in on_command_line and looks_secret(text):
            message = "This looks like a secret; it would be readable in the manifest, the record and logs."
            fix = (
                "Remove it, revoke it, and name a Kubernetes Secret of `xsft secret create`: secrets.hf_token, "
                "secrets.env."
            )
            yield error("secret-literal", where, message, fix, kind="secret")
    for name, value in run.spec.env.items():
        if is_secret_variable(name, value) and not looks_secret(value):
            message = f"{key_part(name)} is the name of a secret, whose value would be readable in the manifest."
            fix = (
                f"Write secrets.env.{key_part(name)}: {{secret: NAME, key: KEY}}, and put the value into that Secret "
                "with `xsft secret create` (a token of the hub: secrets.hf_token)."
            )
            yield error("env-secret", path_below("env", name), message, fix, kind="secret")
    if run.spec.on_cluster and run.spec.secrets.hf_token is None:
        yield from _check_gated_repos(run)
    if run.spec.on_cluster and is_on(keys.get("enable_wandb")) and not WANDB & {*run.spec.env, *run.spec.secrets.env}:
        message = (
            "enable_wandb: W&B asks for a login at a terminal, and the pods have none: the run stops at its start."
        )
        fix = (
            "Write secrets.env.WANDB_API_KEY: {secret: NAME, key: KEY}, made by `xsft secret create`; or "
            "env.WANDB_MODE: offline."
        )
        yield warning("wandb-login", where_of("enable_wandb", run), message, fix)


def _texts_to_search(run: Run) -> Iterator[tuple[str, str]]:
    """Yield every text of the workload, and of the place that it names."""
    yield from _walk_texts(run.spec.model_dump(mode="json", exclude_defaults=True), "")
    if isinstance(run.spec.place, str) and run.place is not None:
        yield from _walk_texts(run.place.model_dump(mode="json", exclude_defaults=True), "place")


def _check_gated_repos(run: Run) -> Iterator[Problem]:
    """Check for gated repositories: weights are converted elsewhere, but the run itself fetches tokenizer and data."""
    model = run.spec.model
    data = run.spec.data
    fetched = {"model.hf.repo": model.hf.repo if model.hf else None, "model.tokenizer": model.tokenizer}
    for where, repo in {**fetched, "data.hf_path": data.hf_path}.items():
        if repo and is_gated(repo):
            message = f"{repo} is gated on the hub, and no token is given; the download would fail."
            fix = "Set its Secret: secrets: {hf_token: {secret: NAME, key: KEY}}; or copy the files to gs://."
            yield warning("hub-token-missing", where, message, fix)


def _walk_texts(tree: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield every text with its key path, and each key that is a token itself."""
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if looks_secret(key):
                yield path_below(path, key), key
            yield from _walk_texts(value, path_below(path, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _walk_texts(value, path_below(path, index))
