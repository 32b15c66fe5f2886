"""The kubeconfig and context of a place; the user's file is not changed, and its current context not used."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from xsft.base.errors import EnvironmentMissing, Unreachable, UsageError, XsftError
from xsft.cluster.access import Access, AccessSources, access_for, context_access
from xsft.machine.process import ProcessResult
from xsft.spec.place import Place

GKE = Place(project="team-project", zone="us-east5-b", cluster="team-cluster")
GKE_CONTEXT = "gke_team-project_us-east5-b_team-cluster"


def config(*contexts: str) -> str:
    return yaml.safe_dump(
        {
            "current-context": contexts[0] if contexts else "",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in contexts],
        }
    )


def machine(
    tmp_path: Path, *, run: Callable[..., ProcessResult] | None = None, age_s: float = 0, **env: str
) -> AccessSources:
    def no_run(*_: Any, **__: Any) -> ProcessResult:
        raise AssertionError("no process is needed here")

    state = {"XSFT_STATE_DIR": str(tmp_path / "state")}
    return AccessSources(env={**state, **env}, home=tmp_path, run=run or no_run, age_s=lambda _: age_s)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


class Gcloud:
    """Writes a kubeconfig as gcloud does, or fails with its words."""

    def __init__(self, *, context: str = GKE_CONTEXT, says: str = "") -> None:
        self.calls: list[tuple[tuple[str, ...], dict[str, str]]] = []
        self.context, self.says = context, says

    def __call__(self, argv: Any, *, env: Any, timeout_s: float) -> ProcessResult:
        self.calls.append((tuple(argv), dict(env)))
        if not self.says:
            Path(env["KUBECONFIG"]).write_text(config(self.context))
        return ProcessResult(argv=tuple(argv), status=1 if self.says else 0, stdout="", stderr=self.says)


def test_access_for_uses_a_context_of_the_users_kubeconfig(tmp_path: Path) -> None:
    file = written(tmp_path / ".kube" / "config", config("current", "mine"))
    assert access_for(Place(context="mine"), here=machine(tmp_path)) == Access(
        kubeconfig=(file,), context="mine", gke=False
    )


def test_context_access_searches_several_kubeconfig_files(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a", config("one")), written(tmp_path / "b", config("two"))
    gone = tmp_path / "gone"
    access = context_access("two", here=machine(tmp_path, KUBECONFIG=f"{a}:{gone}:{b}"))
    assert access.kubeconfig == (a, gone, b)


def test_an_unknown_context_names_the_known_ones_and_never_falls_back(tmp_path: Path) -> None:
    written(tmp_path / ".kube" / "config", config("production", "staging"))
    with pytest.raises(UsageError, match=r"no context stagin; did you mean staging\?") as caught:
        context_access("stagin", here=machine(tmp_path))
    assert "Known: production, staging" in caught.value.message
    assert caught.value.problem_id == "context-unknown"


def test_an_unknown_context_without_a_kubeconfig_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Known: none \(.*\.kube/config\)"):
        context_access("x", here=machine(tmp_path))


@pytest.mark.parametrize("text", ["a: [", "- 1", "\0"])
def test_a_broken_kubeconfig_is_reported(tmp_path: Path, text: str) -> None:
    written(tmp_path / ".kube" / "config", text)
    with pytest.raises(EnvironmentMissing, match="cannot be read") as caught:
        context_access("x", here=machine(tmp_path))
    assert caught.value.problem_id == "kubeconfig-unreadable"


def test_a_place_without_a_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no cluster"):
        access_for(Place(project="team-project"), here=machine(tmp_path))


def test_gcloud_is_not_run_if_the_user_has_the_context(tmp_path: Path) -> None:
    file = written(tmp_path / ".kube" / "config", config("current", GKE_CONTEXT))
    access = access_for(GKE, here=machine(tmp_path))
    assert access == Access(kubeconfig=(file,), context=GKE_CONTEXT, gke=True)


def test_gcloud_writes_a_private_file_and_not_the_users(tmp_path: Path) -> None:
    users = written(tmp_path / ".kube" / "config", config("current"))
    before, gcloud = users.read_bytes(), Gcloud()
    access = access_for(GKE, here=machine(tmp_path, run=gcloud))
    (private,) = access.kubeconfig
    ((argv, env),) = gcloud.calls
    assert argv[:5] == ("gcloud", "container", "clusters", "get-credentials", "team-cluster")
    assert {"--location=us-east5-b", "--project=team-project"} <= set(argv)
    assert env["KUBECONFIG"] != str(users)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(private.parent.stat().st_mode) == 0o700
    assert [p.name for p in private.parent.iterdir()] == [private.name]
    assert users.read_bytes() == before


def test_the_private_file_is_reused_for_12_hours(tmp_path: Path) -> None:
    gcloud = Gcloud()
    for age_s in (0, 60, 13 * 3600):
        access_for(GKE, here=machine(tmp_path, run=gcloud, age_s=age_s))
    assert len(gcloud.calls) == 2


def missing(*_: Any, **__: Any) -> ProcessResult:
    raise EnvironmentMissing("gcloud was not found")


def test_missing_gcloud_is_reported_with_both_fixes(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="gcloud was not found") as caught:
        access_for(GKE, here=machine(tmp_path, run=missing))
    assert caught.value.problem_id == "gcloud-missing"
    assert "cloud.google.com/sdk" in caught.value.fix
    assert "context" in caught.value.fix


@pytest.mark.parametrize(
    ("says", "kind", "id"),
    [
        ("ERROR: ... You do not currently have an active account selected.", Unreachable, "login-expired"),
        ("ERROR: (gcloud) Please run: $ gcloud auth login", Unreachable, "login-expired"),
        ("ERROR: ResponseError: code=404, message=Not found: projects/p", UsageError, "cluster-missing"),
        ("ERROR: ResponseError: code=403, message=Required container.clusters.get", Unreachable, "forbidden"),
        ("ERROR: something", Unreachable, "unreachable"),
    ],
)
def test_an_error_of_gcloud_is_quoted(tmp_path: Path, says: str, kind: type[XsftError], id: str) -> None:
    gcloud = Gcloud(says=says)
    with pytest.raises(kind) as caught:
        access_for(GKE, here=machine(tmp_path, run=gcloud))
    assert caught.value.problem_id == id
    assert says in caught.value.message
    assert list((tmp_path / "state" / "kube").iterdir()) == []
