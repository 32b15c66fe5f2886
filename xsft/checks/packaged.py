"""Check data that ships with xsft (`xsft://…`): it exists, and is used only for runs on this machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.problems import Problem, error
from xsft.catalog.data import SCHEME, SHIPPED
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import where_of
from xsft.spec.base import Keys
from xsft.spec.resolve import Run


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check `packaged-data-unknown` and `packaged-data-remote`; in `keys`, packaged data is already a path."""
    del facts
    for key, value in keys.items():
        if not isinstance(value, str) or not value.startswith(SCHEME):
            continue
        if run.spec.on_this_machine:
            names = ", ".join(SCHEME + name for name in SHIPPED)
            message = f"{value} is not a file of xsft. Known: {names}."
            yield error("packaged-data-unknown", where_of(key, run), message, "Use one of these, or a path.")
        else:
            message = f"{value} is a file of this machine's xsft; a container on a cluster does not have it."
            yield error("packaged-data-remote", where_of(key, run), message, "Use the hub or gs://, or target: local.")
