"""Check the account that a run's pods use for its buckets; it is not the submitter's. Pure.

source: cloud.google.com/kubernetes-engine/docs/how-to/workload-identity: the annotation of a Kubernetes ServiceAccount,
the principal of one without it, and the node label, without which pods use the account of their node pool. So do pods
on the host's network, as xpk renders all: the GKE metadata server serves the others only.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from itertools import chain

from msgspec import Struct

from xsft.base.acceptance import LateProblem
from xsft.base.lenient import JsonObject, mapping, rows, text
from xsft.base.problems import Problem, note
from xsft.checks.demand import Demand
from xsft.cluster.supply import NODE_POOL, Node

NODE_SCOPES = LateProblem(id="node-scopes")
WORKLOAD_IDENTITY_OFF = LateProblem(id="workload-identity-off")
WORKLOAD_IDENTITY_UNBOUND = LateProblem(id="workload-identity-unbound")

ANNOTATION = "iam.gke.io/gcp-service-account"
METADATA_SERVER = "iam.gke.io/gke-metadata-server-enabled"
"""Label of nodes with Workload Identity."""

USER_ROLE = "roles/iam.workloadIdentityUser"


class PodIdentity(Struct, frozen=True, kw_only=True):
    """The pods' identity for Google Cloud, and the two commands that print its rights."""

    who: str
    commands: tuple[str, str]


class PodRights(Struct, frozen=True, kw_only=True):
    """The rights of the Google service account that the pods use, as far as the user's login can read them."""

    email: str = ""
    """The account; empty if unknown."""
    writes: bool = True
    """False if the access scopes of the nodes allow no pod there to write to Cloud Storage."""
    bound: bool | None = None
    """Whether the Kubernetes ServiceAccount may use it; None if its policy may not be read."""


def google_account(account: JsonObject) -> str | None:
    """Return the Google service account that a ServiceAccount is annotated with."""
    return text(mapping(account, "metadata", "annotations").get(ANNOTATION))


def rights_source(account: JsonObject, nodes: Mapping[str, tuple[Node, ...]], demand: Demand) -> str | None:
    """Return the account whose rights to read: the email of the pods' Google service account, or
    `gce://project/zone/machine` of a node, whose account they use; None if neither is known."""
    if demand.host_network or _pools_without_identity(nodes):
        ids = (node.spec.provider_id for node in chain.from_iterable(nodes.values()))
        return next((machine for machine in ids if machine.startswith("gce://")), None)
    return google_account(account)


def _pools_without_identity(nodes: Mapping[str, tuple[Node, ...]]) -> list[str]:
    """Return the node pools without Workload Identity."""
    labels = [node.metadata.labels for node in chain.from_iterable(nodes.values())]
    return sorted(
        {str(node_labels.get(NODE_POOL)) for node_labels in labels if node_labels.get(METADATA_SERVER) != "true"}
    )


def member_of(demand: Demand) -> str:
    """Return the pods' ServiceAccount as a policy names it: `[namespace/name]`, after the pool of its project."""
    return f"[{demand.namespace}/{demand.service_account}]"


def is_bound(policy: JsonObject, member: str) -> bool:
    """Return whether a policy lets the ServiceAccount use the account, also by a set of principals."""
    members = [
        str(name)
        for binding in rows(policy.get("bindings"))
        if binding.get("role") == USER_ROLE
        for name in binding.get("members") or ()
    ]
    return any(name.endswith(f".svc.id.goog{member}") or name.startswith("principal") for name in members)


def check_identity(
    account: JsonObject,
    nodes: Mapping[str, tuple[Node, ...]],
    demand: Demand,
    *,
    context: str,
    rights: PodRights | None = None,
) -> Iterator[Problem]:
    """Yield the problems of the pods' identity, or a note that names it if its rights were not tested. `account`: the
    ServiceAccount; `nodes`: by pod set. Nodes outside GKE are not checked.
    """
    labels = [node.metadata.labels for node in chain.from_iterable(nodes.values())]
    pools = sorted({node_labels[NODE_POOL] for node_labels in labels if NODE_POOL in node_labels})
    if not demand.buckets or not pools:
        return
    email = google_account(account)
    pod_rights = rights or PodRights()
    without = pools if demand.host_network else _pools_without_identity(nodes)
    if email and without:
        yield _no_effect(email, without, demand)
    elif email and pod_rights.bound is False:
        # source: cloud.google.com/kubernetes-engine/docs/how-to/workload-identity,
        # "iam.serviceAccounts.getAccessToken denied"; a role on the whole project counts too, which is not read here.
        member = f"--member=serviceAccount:PROJECT.svc.id.goog{member_of(demand)}"
        grant = ("gcloud", "iam", "service-accounts", "add-iam-policy-binding", email, f"--role={USER_ROLE}", member)
        yield WORKLOAD_IDENTITY_UNBOUND.warning(
            "output",
            f"The policy of {email} does not let the Kubernetes ServiceAccount {demand.service_account} of the "
            f"namespace {demand.namespace} use it ({USER_ROLE}): the pods would get 403 from "
            f"{', '.join(demand.buckets)}.",
            f"Ask its owner to run: {shlex.join(grant)}",
        )
    # source: cloud.google.com/kubernetes-engine/docs/how-to/access-scopes: the default is devstorage.read_only.
    if not pod_rights.writes:
        yield NODE_SCOPES.error(
            "output",
            f"The nodes of {', '.join(pools)} have access scopes that do not allow writing to Cloud Storage: the pods"
            f" would get 403 from {demand.buckets[0]}, whatever their account ({pod_rights.email}) may do.",
            "Ask the administrator for a node pool with --scopes=storage-full,gke-default, as xpk creates them.",
        )
    identity = _of_node_pool(without[0], pod_rights, demand) if without else _of_account(email, demand, context)
    message = (
        f"The pods reach {', '.join(demand.buckets)} with the rights of {identity.who}. Unknown: whether these "
        "suffice. xsft tested the buckets with your login's rights only."
    )
    fix = f"To list these rights: {' ; '.join(identity.commands)}"
    if demand.repository:
        fix += f" ; and who may pull the image (the nodes pull with their own account): {_readers(demand.repository)}"
    yield note("pod-rights-not-checked", "output", message, fix, kind="unread")


def _readers(repository: str) -> str:
    _, project, _, location, _, name = repository.split("/")
    get = ("gcloud", "artifacts", "repositories", "get-iam-policy", name)
    return shlex.join((*get, f"--project={project}", f"--location={location}"))


def _no_effect(email: str, pools: list[str], demand: Demand) -> Problem:
    why = "the pods use the host's network" if demand.host_network else "these nodes have no Workload Identity"
    message = (
        f"The ServiceAccount {demand.service_account} is annotated with {email}, which has no effect on nodes of"
        f" {', '.join(pools)}: {why}, so they use the node pool's account instead."
    )
    fix = (
        "Grant the node pool's account the roles that the run needs. This command prints the account: "
        f"{_describe(pools[0])}"
    )
    if not demand.host_network:
        update = f"gcloud container node-pools update {pools[0]} --cluster=… --workload-metadata=GKE_METADATA"
        fix = f"Ask the administrator to run it for each pool: {update}"
    return WORKLOAD_IDENTITY_OFF.warning("output", message, fix)


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


def _of_node_pool(pool: str, rights: PodRights, demand: Demand) -> PodIdentity:
    who = f"the service account of the node pool {pool}{f', {rights.email}' if rights.email else ''}"
    return PodIdentity(who=who, commands=(_describe(pool), _bucket_policy(demand, rights.email or "ACCOUNT")))


def _describe(pool: str) -> str:
    describe = ("gcloud", "container", "node-pools", "describe", pool, "--format=value(config.serviceAccount)")
    return f"{shlex.join(describe)} --cluster=… --location=…"


def _bucket_policy(demand: Demand, member: str) -> str:
    flags = ("--flatten=bindings[].members", f"--filter=bindings.members:{member}")
    return shlex.join(("gcloud", "storage", "buckets", "get-iam-policy", demand.buckets[0], *flags))
