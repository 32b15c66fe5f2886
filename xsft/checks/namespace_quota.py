"""Check the ResourceQuotas of a namespace against all pods of a run; a dry run of one pod sees only that one. Pure.

source: kubernetes.io/docs/concepts/policy/resource-quotas: `cpu` and `memory` mean requests; other resources are named
`requests.NAME`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from decimal import Decimal

from xsft.base.acceptance import LateProblem
from xsft.base.aliases import JsonObject
from xsft.base.lenient import mapping
from xsft.base.problems import Problem
from xsft.checks.demand import Demand, decimal_text, quantity

RESOURCE_QUOTA = LateProblem(id="resource-quota")
RESOURCE_QUOTA_IN_USE = LateProblem(id="resource-quota-in-use")


def namespace_quota_problems(quotas: Iterable[JsonObject], demand: Demand, *, context: str) -> Iterator[Problem]:
    """Yield an error if the run alone exceeds a limit, and a warning if too little is left now. Quotas
    of some pods only, by scope, are left out.
    """
    needed = _needed_resources(demand)
    for quota in quotas:
        spec, name = quota.get("spec") or {}, str(quota["metadata"]["name"])
        used = mapping(quota, "status", "used")
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        for resource, limit in mapping(spec, "hard").items():
            requested, hard_limit = needed.get(resource, Decimal(0)), quantity(limit)
            free = hard_limit - quantity(used.get(resource, 0))
            if requested > free:
                yield _exceeded_quota_problem(
                    name,
                    f"{decimal_text(requested)} of {resource}",
                    free,
                    hard_limit,
                    demand,
                    context,
                    never=requested > hard_limit,
                )


def _needed_resources(demand: Demand) -> dict[str, Decimal]:
    needed = {"pods": Decimal(sum(pods.pods for pods in demand.pod_sets))}
    for pods in demand.pod_sets:
        for resource, amount in pods.requests.items():
            for name in (f"requests.{resource}", *((resource,) if resource in ("cpu", "memory") else ())):
                needed[name] = needed.get(name, Decimal(0)) + amount
    return needed


def _exceeded_quota_problem(
    name: str, requested: str, free: Decimal, hard_limit: Decimal, demand: Demand, context: str, *, never: bool
) -> Problem:
    message = (
        f"The pods of the run need {requested} together, and the ResourceQuota {name} of the namespace "
        f"{demand.namespace} has {decimal_text(free)} of {decimal_text(hard_limit)} left: only some pods would "
        "be created, and would wait for the others."
    )
    kubectl = shlex.join(("kubectl", "--context", context, "-n", demand.namespace))
    fix = f"Ask for more, or use another namespace: {kubectl} describe resourcequota {name}"
    if never:
        return RESOURCE_QUOTA.error("namespace", message, fix)
    return RESOURCE_QUOTA_IN_USE.warning("namespace", message, fix)
