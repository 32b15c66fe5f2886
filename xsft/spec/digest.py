"""spec_digest: what makes two submissions the same run. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xsft.spec.resolve import Run  # the whole spec with pydantic, which who only reads digests need not load

NOT_IDENTITY: Mapping[str, bool | set[str]] = {
    "place": True,
    "name": True,
    "run_name_suffix": True,
    "priority": True,
    "restarts": True,
    "ttl_seconds_after_finished": True,
    "checks": True,
    "data": {"rows"},
    "image": {"name"},
}
"""Changing these does not make another run. The place and the image are written out instead of named, and the name and
its suffix count as the run_name they make: `--run-name` goes on with yesterday's dated run.
"""


def spec_digest(run: Run) -> str:
    """sha256 over the canonical JSON of the resolved workload, 64 hex digits."""
    return hashlib.sha256(canonical(run).encode()).hexdigest()


def canonical(run: Run) -> str:
    """Sorted keys, no spaces; user, time and git commit are not in it (but for a run name that asks for them).

    Defaults are left out, so that a key that a later xsft adds does not make another run of every run there is.
    """
    document = run.spec.model_dump(mode="json", exclude=NOT_IDENTITY, exclude_defaults=True)
    place = run.place.model_dump(mode="json", exclude={"registry"}, exclude_defaults=True) if run.place else None
    resolved = {
        "place": place,
        "target": run.spec.target,
        "run_name": run.run_name,
        "mode": run.mode.value,
        "output": run.output,
        "queue": run.queue,
        "namespace": run.namespace,
        "checkpoint": run.checkpoint,
        "checkpoint_period": run.checkpoint_period,
    }
    return json.dumps({**document, **resolved}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
