"""Checks for `xsft doctor` the places of places.yaml: the login, the right to submit, JobSet, and the bucket."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import EnvironmentMissing, SpecError, UsageError, XsftError
from xsft.base.problems import Problem
from xsft.checks.admission import UnreadFact
from xsft.checks.place_needs import ModeNeed, PlaceFacts, place_needs
from xsft.checks.pod_identity import google_account
from xsft.cluster import resources as kinds
from xsft.cluster.api import FOR_READS
from xsft.cluster.cluster import Cluster, connect
from xsft.cluster.errors import last_net
from xsft.cluster.sources import known_places, names_a_cluster
from xsft.launch.admission import unless_forbidden
from xsft.machine import clock
from xsft.machine.parallel import StartedCall, start
from xsft.machine.process import own_environment
from xsft.machine.storage import bucket_and_name
from xsft.machine.writable import check_writable
from xsft.records.run_cluster import address_of
from xsft.spec.place import Place
from xsft.world.tools import ToolCheck

LATE_S = 25.0
"""Time limit for all checks together; a login program alone takes a second."""
NO_JOBSET = "xsft-doctor-asks-for-none"
"""A name that no JobSet has: the answer shows whether the cluster serves JobSets."""


def _lacking_permissions(email: str, bucket: str) -> tuple[str, ...] | None:
    from xsft.launch.admission import connect_iam  # through google-auth

    iam = connect_iam(own_environment())
    return iam.lacking_permissions(email, bucket) if iam else None


class PlaceProbe(Struct, frozen=True, kw_only=True):
    """The functions that query a place; a test passes others."""

    connect: Callable[[Place], Cluster] = lambda place: connect(place, patience=FOR_READS)
    writable: Callable[[str], tuple[Problem, ...]] = check_writable
    lacking: Callable[[str, str], tuple[str, ...] | None] = _lacking_permissions
    """Return the permissions that an account lacks on a bucket; None if this login may not impersonate it."""
    late_s: float = LATE_S


class PlaceReport(Struct, frozen=True, kw_only=True):
    """A place as `xsft doctor --place` reports it."""

    checks: tuple[ToolCheck, ...]
    needs: tuple[ModeNeed, ...] = ()
    """Needs of runs of each mode; empty if the cluster did not answer."""


def place_checks(world: PlaceProbe | None = None) -> tuple[ToolCheck, ...]:
    """Return one check per place that names a cluster, and one per bucket. All run at once, and none changes
    anything.
    """
    try:
        places, _ = known_places()
    except SpecError as wrong:
        return tuple(
            _failed_check(_check_row("places.yaml", "runs on clusters"), problem) for problem in wrong.problems[:1]
        )
    return tuple(_in_time(dict(_place_questions(places, world or PlaceProbe())), late_s=(world or PlaceProbe()).late_s))


def check_place(name: str, world: PlaceProbe | None = None, *, impersonate: bool = False) -> PlaceReport:
    """Return the checks of one place and of its bucket, and what runs of each mode need there. `impersonate`: also test
    the rights of the pods, with a token of their account. Raises UsageError for a name that is not in places.yaml,
    SpecError if that is invalid.
    """
    probe = world or PlaceProbe()
    places, file = known_places()
    if name not in places:
        names = f"Known: {', '.join(sorted(places)) or 'none'} ({file or 'no places.yaml'})."
        raise UsageError(f"Place {name} was not found. {names}", fix="Use one of them, or add it: xsft place add.")
    place = places[name]
    checks = tuple(_in_time(dict(_place_questions({name: place}, probe)), late_s=probe.late_s))
    if not all(check.ok for check in checks if check.id == f"place:{name}"):
        return PlaceReport(checks=checks)
    with last_net(name):
        cluster = probe.connect(place)
        needs = place_needs(name, place, read_place_facts(cluster, place))
        if impersonate and place.output:
            checks = (*checks, _check_pods(cluster, place, place.output, probe))
    return PlaceReport(checks=checks, needs=needs)


def read_place_facts(cluster: Cluster, place: Place) -> PlaceFacts:
    """Return the facts; all are read at once. Raises as `Cluster` does, except for what this login may not read and for
    JobSet or Kueue that is not installed.
    """
    namespace = place.namespace
    controllers = {
        "JobSet": start(partial(_why_absent, partial(cluster.get_jobset, name=NO_JOBSET, namespace=namespace))),
        "Kueue": start(partial(_why_absent, partial(cluster.local_queues, namespace=namespace))),
    }
    calls: dict[str, StartedCall[Any]] = {
        "namespace": start(partial(_read_or_unseen, partial(cluster.namespace, namespace))),
        "queues": start(partial(_read_or_unseen, partial(cluster.local_queues, namespace=namespace))),
        "cluster_queues": start(partial(_read_or_unseen, cluster.cluster_queues)),
        "priority_classes": start(partial(_read_or_unseen, cluster.priority_classes)),
        "tpu_nodes": start(partial(_read_or_unseen, cluster.tpu_nodes)),
        "cpu_nodes": start(partial(_read_or_unseen, cluster.cpu_nodes)),
    }
    absent = {name: why for name, call in controllers.items() if (why := call.result())}
    return PlaceFacts(context=cluster.context, absent=absent, **{name: call.result() for name, call in calls.items()})


def _read_or_unseen(look: Callable[[], object]) -> object:
    try:
        return unless_forbidden(look)
    except EnvironmentMissing as absent:
        return UnreadFact(why=absent.message)


def _why_absent(look: Callable[[], object]) -> str | None:
    """Return the message that the controller is not installed, or None."""
    try:
        unless_forbidden(look)
    except EnvironmentMissing as absent:
        return absent.message
    return None


def _place_questions(places: Mapping[str, Place], world: PlaceProbe) -> Iterator[tuple[str, Callable[[], ToolCheck]]]:
    for name, place in sorted(places.items()):
        if names_a_cluster(place):
            yield f"place:{name}", partial(_check_place, name, place, world)
    for output in sorted({place.output for place in places.values() if place.output}):
        bucket, _ = bucket_and_name(output)
        yield f"bucket:{bucket}", partial(_bucket, bucket, output, world)


def _in_time(questions: Mapping[str, Callable[[], ToolCheck]], *, late_s: float) -> Iterator[ToolCheck]:
    until = clock.monotonic() + late_s
    calls = [(name, start(question)) for name, question in questions.items()]
    for name, call in calls:
        if call.ended(max(0.0, until - clock.monotonic())):
            yield call.result()
        else:
            late = f"timed out: no answer within {late_s:g} s"
            yield replace(
                _check_row(name, ""), detail=late, fix="Check the network, the VPN and the login, and try again."
            )


def _check_place(name: str, place: Place, world: PlaceProbe) -> ToolCheck:
    row = _check_row(f"place:{name}", f"runs on {address_of(place).name}")
    try:
        with last_net(name):
            cluster = world.connect(place)
            cluster.get_jobset(name=NO_JOBSET, namespace=place.namespace)
            who, may = cluster.whoami(), cluster.may("create", kinds.JOBSETS, namespace=place.namespace)
    except XsftError as failed:
        return _failed_check(row, failed.problems[0])
    who = who or "your login"
    if may is False:
        fix = f"Ask for an RBAC rule that lets you create {kinds.JOBSETS.full_name} in the namespace {place.namespace}."
        return replace(row, detail=f"{who} may not create JobSets in the namespace {place.namespace}", fix=fix)
    return replace(row, ok=True, detail=f"logged in as {who}")


def _bucket(bucket: str, output: str, world: PlaceProbe) -> ToolCheck:
    row = _check_row(f"bucket:{bucket}", f"results in {output}")
    try:
        problems = world.writable(output)
    except XsftError as failed:
        return _failed_check(row, failed.problems[0])
    return _failed_check(row, problems[0]) if problems else replace(row, ok=True, detail="your login may write to it")


def _check_pods(cluster: Cluster, place: Place, output: str, world: PlaceProbe) -> ToolCheck:
    """Return whether the pods may use the bucket, by the Google service account of the ServiceAccount `default`."""
    bucket, _ = bucket_and_name(output)
    row = _check_row(f"pods:{bucket}", f"results in {output}")
    account = cluster.service_account(name="default", namespace=place.namespace)
    email = google_account(account) if account else None
    if email is None:
        detail = f"the ServiceAccount default in {place.namespace} names no Google service account"
        return replace(row, detail=detail, fix="`xsft submit` says which account the pods use.")
    lacking = world.lacking(email, bucket)
    if lacking is None:
        fix = f"Ask for roles/iam.serviceAccountTokenCreator on {email}."
        return replace(row, detail=f"your login may not impersonate {email}", fix=fix)
    if lacking:
        flags = (f"--member=serviceAccount:{email}", "--role=roles/storage.objectUser")
        grant = shlex.join(("gcloud", "storage", "buckets", "add-iam-policy-binding", f"gs://{bucket}", *flags))
        return replace(row, detail=f"{email} lacks {', '.join(lacking)}", fix=f"Ask its owner to run: {grant}")
    return replace(row, ok=True, detail=f"the pods may write to it as {email}")


def _failed_check(row: ToolCheck, problem: Problem) -> ToolCheck:
    return replace(row, detail=problem.message, fix=problem.fix)


def _check_row(id: str, needed_for: str) -> ToolCheck:
    return ToolCheck(id=id, ok=False, required=False, version="", needed_for=needed_for, detail="", fix="")
