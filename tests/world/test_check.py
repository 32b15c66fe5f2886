"""The checks of places and buckets in `xsft doctor`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.clusters import ClusterApi, standing_in
from xsft.base.problems import Problem
from xsft.cluster.cluster import connect
from xsft.machine.writable import check_writable
from xsft.world.check import PlaceProbe, check_place, place_checks
from xsft.world.tools import ToolCheck

PLACES = """\
lab: {context: stand-in, output: gs://my-bucket/runs}
other: {context: nowhere, output: gs://my-bucket/other}
bare: {output: gs://second/runs}
"""


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterApi]:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "places.yaml").write_text(PLACES)
    monkeypatch.chdir(tmp_path)
    with standing_in(tmp_path) as standin:
        yield standin


def found(api: ClusterApi, *problems: Problem, late_s: float = 25.0) -> dict[str, ToolCheck]:
    world = PlaceProbe(
        connect=lambda where: connect(where, here=api.here, patience=api.patience),
        writable=lambda output: problems if "second" in output else (),
        late_s=late_s,
    )
    return {check.id: check for check in place_checks(world)}


def test_usable_places_and_buckets_are_ok_and_others_name_the_fix(api: ClusterApi) -> None:
    problem = Problem(id="output-permission", severity="error", message="may not", fix="Have it granted.")
    checks = found(api, problem)
    assert list(checks) == ["place:lab", "place:other", "bucket:my-bucket", "bucket:second"]
    assert (checks["place:lab"].ok, checks["place:lab"].detail) == (True, "logged in as nightly")
    assert not checks["place:other"].ok
    assert "no context nowhere" in checks["place:other"].detail
    assert checks["bucket:my-bucket"].ok
    assert (checks["bucket:second"].detail, checks["bucket:second"].next_step) == ("may not", "Have it granted.")
    assert not any(check.required for check in checks.values())


def test_an_expired_login_and_a_missing_right_are_reported(api: ClusterApi) -> None:
    api.expire_login()
    expired = found(api)["place:lab"]
    assert "HTTP 401" in expired.detail
    assert "Log in again" in expired.next_step


def test_a_cluster_that_hangs_times_out_and_delays_no_other(api: ClusterApi) -> None:
    api.server.fail(".", action="hang-before", times=9)
    began = time.monotonic()
    checks = found(api, late_s=0.3)
    assert time.monotonic() - began < api.read_timeout_s / 2
    assert checks["place:lab"].detail == "timed out: no answer within 0.3 s"
    assert checks["bucket:my-bucket"].ok


def test_an_unreadable_places_file_is_one_row(api: ClusterApi) -> None:
    Path("places.yaml").write_text("lab: {contxt: x}\n")
    (check,) = found(api).values()
    assert (check.id, check.ok) == ("places.yaml", False)
    assert "contxt" in check.detail


def test_no_request_is_sent_without_places(api: ClusterApi) -> None:
    Path("places.yaml").unlink()
    assert found(api) == {}
    assert api.server.seen == []


def test_place_probe_uses_the_real_checks_by_default() -> None:
    assert PlaceProbe().writable is check_writable


@pytest.mark.parametrize(
    ("email", "lacking", "ok", "words"),
    [
        (None, (), False, "names no Google service account"),
        ("pods@p", None, False, "may not impersonate pods@p"),
        ("pods@p", ("storage.objects.create",), False, "pods@p lacks storage.objects.create"),
        ("pods@p", (), True, "as pods@p"),
    ],
)
def test_the_rights_of_the_pods_are_tested_if_asked(
    api: ClusterApi, email: str | None, lacking: tuple[str, ...] | None, ok: bool, words: str
) -> None:
    annotations = {"annotations": {"iam.gke.io/gcp-service-account": email}} if email else {}
    api.standin.objects.add("/serviceaccounts", "default", namespace="default", metadata=annotations)
    world = PlaceProbe(
        connect=lambda where: connect(where, here=api.here, patience=api.patience),
        writable=lambda _output: (),
        lacking=lambda account, bucket: lacking if (account, bucket) == (email, "my-bucket") else ("?",),
    )
    assert not any(check.id.startswith("pods:") for check in check_place("lab", world).checks)
    (check,) = (check for check in check_place("lab", world, impersonate=True).checks if check.id.startswith("pods:"))
    assert (check.id, check.ok) == ("pods:my-bucket", ok)
    assert words in check.detail
