"""MaxText connects its hosts, and sets its learning rate, as the checks say."""

from __future__ import annotations

import pytest

from tests.maxtext import Worker, ask
from xsft.checks.hosts import TOPOLOGY, UNCONNECTED
from xsft.checks.schedule import SCHEDULE

pytestmark = [pytest.mark.contract, pytest.mark.maxtext]


def test_hosts_stay_unconnected_with_the_refused_keys(maxtext: Worker) -> None:
    bad = [*({key: value} for key, value in UNCONNECTED.items()), {TOPOLOGY: "v6e-16"}]
    good = [{}, *({key: not value} for key, value in UNCONNECTED.items())]
    answers = ask([{"connects": keys} for keys in (*bad, *good)], of=maxtext)
    assert [answer["connects"] for answer in answers] == [False] * len(bad) + [True] * len(good)


def test_the_rate_is_zero_after_the_schedule(maxtext: Worker) -> None:
    ends, longer = ask([{"rates": {"steps": 9, SCHEDULE: length}} for length in (4, 9)], of=maxtext)
    assert [rate > 0 for rate in ends["rates"]] == [True] * 4 + [False] * 5
    assert all(rate > 0 for rate in longer["rates"])
