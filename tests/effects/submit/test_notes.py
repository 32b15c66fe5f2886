"""Notes about an adopted run, with the words of `xsft why`."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.submissions import NAME, planned
from xsft.effects.submit.notes import adopted_notes

QUEUE = "kueue.x-k8s.io/queue-name"


def held(*, queued: bool, suspended: bool) -> dict[str, Any]:
    body = copy.deepcopy(planned().manifest)
    assert body is not None
    body["spec"]["suspend"] = suspended
    if not queued:
        del body["metadata"]["labels"][QUEUE]
    return body


@pytest.mark.parametrize(
    ("queued", "suspended", "ids"),
    [(True, True, []), (True, False, []), (False, True, ["suspended"]), (False, False, ["no-queue"])],
)
def test_an_adopted_run_without_a_queue_is_a_warning(queued: bool, suspended: bool, ids: list[str]) -> None:
    told = adopted_notes(held(queued=queued, suspended=suspended))
    assert [one.id for one in told] == ids
    assert all(one.severity == "warning" and NAME in one.fix for one in told)
