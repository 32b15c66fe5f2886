"""ResourceQuotas limit all pods of a run together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.test_admission import facts, said


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> tuple[dict[str, Any], ...]:
    return ({"metadata": {"name": "few"}, "spec": {"hard": hard, **spec}, "status": {"used": used or {}}},)


@pytest.mark.parametrize(
    ("hard", "used", "ids"),
    [
        ({"requests.google.com/tpu": "512", "pods": "129"}, {}, []),
        ({"requests.google.com/tpu": "256"}, {}, ["resource-quota"]),
        ({"requests.google.com/tpu": "600"}, {"requests.google.com/tpu": "256"}, ["resource-quota-in-use"]),
        ({"pods": "128"}, {}, ["resource-quota"]),
        ({"cpu": "20"}, {}, ["resource-quota"]),
        ({"count/configmaps": "1"}, {"count/configmaps": "1"}, []),
    ],
)
def test_resource_quota_is_compared_with_all_pods(hard: dict[str, str], used: dict[str, str], ids: list[str]) -> None:
    assert [problem.id for problem in said(facts(resource_quotas=quota(hard, used)))] == ids


def test_scoped_resource_quota_is_not_checked() -> None:
    assert said(facts(resource_quotas=quota({"pods": "1"}, scopes=["BestEffort"]))) == ()
