"""Tell with whose rights a run's pods reach its buckets: not the submitter's. Pure.

source: cloud.google.com/kubernetes-engine/docs/how-to/workload-identity: the annotation of a Kubernetes ServiceAccount,
the principal of one without it, and the node label, without which pods use the account of their node pool.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from itertools import chain

from msgspec import Struct

from xsft.aliases import JsonObject
from xsft.checks.demand import Demand
from xsft.problems import Problem, note, warning
from xsft.reading.supply import NODE_POOL

ANNOTATION = "iam.gke.io/gcp-service-account"
METADATA_SERVER = "iam.gke.io/gke-metadata-server-enabled"
"""Label of nodes with Workload Identity."""


class PodIdentity(Struct, frozen=True, kw_only=True):
    """Whom Google Cloud takes the pods for, and the two commands that tell its rights."""

    who: str
    commands: tuple[str, str]


def identity_problems(
    account: JsonObject, nodes: Mapping[str, tuple[JsonObject, ...]], demand: Demand, *, context: str
) -> Iterator[Problem]:
    """Yield a note that names the pods' identity, and a warning if its annotation has no effect. `account`: the
    ServiceAccount; `nodes`: those of each pod set. Nothing is known of nodes that are not GKE's.
    """
    labels = [node["metadata"].get("labels") or {} for node in chain.from_iterable(nodes.values())]
    pools = sorted({str(found[NODE_POOL]) for found in labels if NODE_POOL in found})
    if not demand.buckets or not pools:
        return
    email = (account["metadata"].get("annotations") or {}).get(ANNOTATION)
    without = sorted({str(found.get(NODE_POOL)) for found in labels if found.get(METADATA_SERVER) != "true"})
    if email and without:
        yield _no_effect(email, without, demand)
    identity = _of_node_pool(without[0], demand) if without else _of_account(email, demand, context)
    message = (
        f"The pods reach {', '.join(demand.buckets)} with the rights of {identity.who}. Not established: whether these"
        " suffice; what was asked of the buckets was asked with the rights of your login."
    )
    yield note("pod-rights-not-checked", "output", message, f"To see them: {' ; '.join(identity.commands)}")


def _no_effect(email: str, pools: list[str], demand: Demand) -> Problem:
    message = (
        f"The ServiceAccount {demand.service_account} is annotated with {email}, and the nodes of {', '.join(pools)}"
        " have no Workload Identity: pods there use the node pool's account instead."
    )
    fix = f"gcloud container node-pools update {pools[0]} --cluster=… --workload-metadata=GKE_METADATA"
    return warning("workload-identity-off", "output", message, f"Ask the administrator to run it for each pool: {fix}")


def _of_account(email: str | None, demand: Demand, context: str) -> PodIdentity:
    if email:
        who = f"the Google service account {email} (of the Kubernetes ServiceAccount {demand.service_account})"
        policy = shlex.join(("gcloud", "iam", "service-accounts", "get-iam-policy", email))
        return PodIdentity(who=who, commands=(policy, _bucket_policy(demand, email)))
    subject = f"ns/{demand.namespace}/sa/{demand.service_account}"
    kubectl = ("kubectl", "--context", context, "-n", demand.namespace)
    look = shlex.join((*kubectl, "get", "serviceaccount", demand.service_account, "-o", "yaml"))
    who = (
        f"the Kubernetes ServiceAccount {demand.service_account} itself (principal …/subject/{subject}): it has no"
        f" annotation {ANNOTATION}, and with Workload Identity the node pool's rights do not count"
    )
    return PodIdentity(who=who, commands=(look, _bucket_policy(demand, subject)))


def _of_node_pool(pool: str, demand: Demand) -> PodIdentity:
    describe = ("gcloud", "container", "node-pools", "describe", pool, "--format=value(config.serviceAccount)")
    look = f"{shlex.join(describe)} --cluster=… --location=…"
    who = f"the service account of the node pool {pool}"
    return PodIdentity(who=who, commands=(look, _bucket_policy(demand, "ACCOUNT")))


def _bucket_policy(demand: Demand, member: str) -> str:
    flags = ("--flatten=bindings[].members", f"--filter=bindings.members:{member}")
    return shlex.join(("gcloud", "storage", "buckets", "get-iam-policy", demand.buckets[0], *flags))
