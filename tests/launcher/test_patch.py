from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.everything import everything
from xsft.base.names import ModeName
from xsft.base.pointers import MISSING, NamedEntry, Pointer, find_pointer
from xsft.checks.facts import Facts
from xsft.launcher.patch import NODE_TERMS, RESERVATION_LABEL, SPOT_LABEL, Change, apply, changes
from xsft.launcher.pod_settings import HF_VOLUME, SAFE_TO_EVICT
from xsft.records.jobset_paths import (
    DATA_ANNOTATION,
    DIGEST_ANNOTATION,
    JOBSET_LABEL,
    MODE_LABEL,
    OUTPUT_ANNOTATION,
    RUN_LABEL,
    STEPS_ANNOTATION,
    places,
)
from xsft.spec.resolve import resolve

MODES: tuple[ModeName, ...] = ("mcjax", "pathways")


def _manifest(mode: ModeName, **fields: Any) -> Any:
    """An empty JobSet, patched."""
    return apply(_changes(mode, **fields), {"metadata": {"name": "x"}})


def _changes(mode: ModeName, attempt: int = 1, **fields: Any) -> tuple[Change, ...]:
    run, _ = resolve(everything(mode=mode, **fields), Facts(attempt=attempt))
    return changes(run, digest="d" * 64)


def _at(manifest: Any, path: Pointer) -> Any:
    return find_pointer(manifest, path)[1]


def test_changes_apply_in_order_on_a_copy() -> None:
    manifest = {"a": {"b": 1}, "c": [{"name": "x"}]}
    before = copy.deepcopy(manifest)
    made = (
        Change(path=("a", "b"), value=2, why="first"),
        Change(path=("a", "b"), value=3, why="then"),
        Change(path=("c", NamedEntry("x")), action="remove", why="gone"),
    )
    assert apply(made, manifest) == {"a": {"b": 3}, "c": []}
    assert manifest == before


@pytest.mark.parametrize("mode", MODES)
def test_every_change_gives_its_reason(mode: ModeName) -> None:
    assert [change.path for change in _changes(mode) if not change.why.strip()] == []


@pytest.mark.parametrize("mode", MODES)
def test_the_identity_is_on_the_jobset_and_on_every_pod(mode: ModeName) -> None:
    manifest = _manifest(mode, attempt=2, run_name_suffix="none")
    paths_in_manifest = places(mode)
    labels = {"app.kubernetes.io/managed-by": "xsft", RUN_LABEL: "everything", JOBSET_LABEL: "everything-2"}
    assert _at(manifest, ("metadata", "labels")) == {
        **labels, MODE_LABEL: mode, "kueue.x-k8s.io/queue-name": "my-queue"
    }  # fmt: skip
    assert _at(manifest, ("metadata", "annotations")) == {
        DIGEST_ANNOTATION: "d" * 64,
        STEPS_ANNOTATION: "500",
        OUTPUT_ANNOTATION: "gs://my-bucket/runs",
        DATA_ANNOTATION: "repeat",
    }
    again = _manifest(mode, restarts__data="reshuffle")
    assert _at(again, ("metadata", "annotations", DATA_ANNOTATION)) == "reshuffle"
    for pod in (paths_in_manifest.slice_pod, paths_in_manifest.trainer_pod):
        assert _at(manifest, (*pod[:-1], "metadata", "labels", RUN_LABEL)) == "everything"


@pytest.mark.parametrize("mode", MODES)
def test_the_token_is_a_file_in_the_trainers_container_only(mode: ModeName) -> None:
    manifest, paths_in_manifest = _manifest(mode), places(mode)
    volume = _at(manifest, (*paths_in_manifest.trainer_pod, "volumes", NamedEntry(HF_VOLUME)))
    assert volume["secret"] == {"secretName": "my-secret", "defaultMode": 0o444}
    assert _at(manifest, (*paths_in_manifest.trainer, "volumeMounts", NamedEntry(HF_VOLUME), "readOnly")) is True
    if mode == "pathways":
        assert _at(manifest, (*paths_in_manifest.slice_pod, "volumes")) is MISSING


@pytest.mark.parametrize("mode", MODES)
def test_without_a_token_nothing_is_mounted(mode: ModeName) -> None:
    assert not any(HF_VOLUME in str(change) for change in _changes(mode, secrets=None))


@pytest.mark.parametrize("mode", MODES)
def test_variables_from_secrets_are_references_of_the_process_that_trains(mode: ModeName) -> None:
    manifest, paths_in_manifest = _manifest(mode), places(mode)
    key = {"secretKeyRef": {"name": "wandb", "key": "api", "optional": False}}
    assert _at(manifest, (*paths_in_manifest.trainer, "env", NamedEntry("WANDB_API_KEY"))) == {
        "name": "WANDB_API_KEY", "valueFrom": key
    }  # fmt: skip
    path = _at(manifest, (*paths_in_manifest.trainer, "env", NamedEntry("NETRC"), "value"))
    assert path == "/etc/xsft/secrets/NETRC/file"
    mount = next(
        m for m in _at(manifest, (*paths_in_manifest.trainer, "volumeMounts")) if path.startswith(f"{m['mountPath']}/")
    )
    assert (
        _at(manifest, (*paths_in_manifest.trainer_pod, "volumes", NamedEntry(mount["name"]), "secret", "secretName"))
        == "netrc"
    )


@pytest.mark.parametrize("mode", MODES)
def test_account_labels_and_annotations_are_on_every_pod(mode: ModeName) -> None:
    manifest, paths_in_manifest = _manifest(mode), places(mode)
    for pod in (paths_in_manifest.slice_pod, paths_in_manifest.trainer_pod):
        assert _at(manifest, (*pod, "serviceAccountName")) == "trainer"
        assert _at(manifest, (*pod[:-1], "metadata", "labels", "team")) == "nlp"
        assert _at(manifest, (*pod[:-1], "metadata", "annotations", "example.com/owner")) == "nlp"


def test_an_autoscaler_may_not_move_the_head_and_slices_need_no_word() -> None:
    paths_in_manifest = places("pathways")
    metadata = (*paths_in_manifest.trainer_pod[:-1], "metadata", "annotations", SAFE_TO_EVICT)
    assert _at(_manifest("pathways"), metadata) == "false"
    assert SAFE_TO_EVICT not in str(_manifest("mcjax"))


@pytest.mark.parametrize("mode", MODES)
def test_the_pull_secret_named_none_is_removed(mode: ModeName) -> None:
    paths_in_manifest = places(mode)
    xpks = apply(
        (Change(path=(*paths_in_manifest.slice_pod, "imagePullSecrets"), value=[{"name": None}], why="xpk"),), {}
    )
    patched = apply(_changes(mode, image__pull_secret=None), xpks)
    assert _at(patched, (*paths_in_manifest.slice_pod, "imagePullSecrets")) is MISSING


@pytest.mark.parametrize("mode", MODES)
def test_a_pull_secret_is_on_every_pod(mode: ModeName) -> None:
    manifest, paths_in_manifest = _manifest(mode), places(mode)
    for pod in (paths_in_manifest.slice_pod, paths_in_manifest.trainer_pod):
        assert _at(manifest, (*pod, "imagePullSecrets")) == [{"name": "my-pull-secret"}]


@pytest.mark.parametrize("mode", MODES)
def test_spot_and_reservation_choose_the_nodes_of_the_slices(mode: ModeName) -> None:
    selector = (*places(mode).slice_pod, "nodeSelector")
    spot = _manifest(mode, tpu__capacity="spot", tpu__reservation=None)
    reserved = _manifest(mode, tpu__reservation="projects/my-project/reservations/my-reservation")
    assert _at(spot, selector) == {SPOT_LABEL: "true"}
    assert _at(reserved, selector) == {RESERVATION_LABEL: "my-reservation"}
    assert _at(_manifest(mode, tpu__capacity="on-demand", tpu__reservation=None), selector) is MISSING


@pytest.mark.parametrize("mode", MODES)
def test_on_demand_keeps_off_spot_and_reserved_nodes(mode: ModeName) -> None:
    terms = (*places(mode).slice_pod, *NODE_TERMS)
    ((spot, reserved),) = (t["matchExpressions"] for t in _at(_manifest(mode, tpu__capacity="on-demand"), terms))
    assert spot == {"key": SPOT_LABEL, "operator": "NotIn", "values": ["true"]}
    assert reserved == {"key": RESERVATION_LABEL, "operator": "DoesNotExist"}
    assert _at(_manifest(mode, tpu__capacity=None, tpu__reservation=None), terms) is MISSING


@pytest.mark.parametrize("mode", MODES)
def test_spot_pods_tolerate_the_taint_of_spot_nodes(mode: ModeName) -> None:
    tolerations = (*places(mode).slice_pod, "tolerations")
    spot = _at(_manifest(mode, tpu__capacity="spot", tpu__reservation=None), tolerations)
    assert [t["key"] for t in spot] == ["google.com/tpu", SPOT_LABEL]
    assert _at(_manifest(mode), tolerations) is MISSING  # xpk's own stays


def test_pathways_values_that_xpk_drops_are_added() -> None:
    manifest, paths_in_manifest = _manifest("pathways"), places("pathways")
    assert _at(manifest, ("spec", "failurePolicy", "maxRestarts")) == 3
    assert _at(manifest, ("spec", "ttlSecondsAfterFinished")) == 60
    assert _at(manifest, (*paths_in_manifest.trainer_pod, "priorityClassName")) == "high"
    assert _at(manifest, (*paths_in_manifest.trainer_pod, "terminationGracePeriodSeconds")) == 120
    codes = _at(manifest, (*paths_in_manifest.trainer_job, "podFailurePolicy", "rules", 0, "onExitCodes"))
    assert codes["operator"] == "NotIn"
    # 1 and 17 are the workload's; the rest is what xpk gives McJAX.
    assert codes["values"] == [1, 17, 42, *range(127, 256)]


def test_the_pathways_head_carries_xpks_label_like_its_workers() -> None:
    pod = places("pathways").trainer_pod[:-1]
    label = (*pod, "metadata", "labels", "xpk.google.com/workload")
    assert _at(_manifest("pathways", attempt=2, run_name_suffix="none"), label) == "everything-2"


def test_mcjax_values_that_xpk_sets_are_not_patched() -> None:
    touched = {change.path[:2] for change in _changes("mcjax") if change.path[0] == "spec"}
    assert ("spec", "failurePolicy") not in touched
    assert ("spec", "ttlSecondsAfterFinished") not in touched
