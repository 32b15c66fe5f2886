"""The verbs about runs, whole: the command line, a kubeconfig and the stand-in for a cluster."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents import read_document
from tests.fakes.clusters import ClusterApi
from tests.fakes.gcs import Bucket, serving
from tests.fakes.kubelogs import Log
from tests.fakes.kubeobjects import Objects
from tests.fakes.kuberuns import PARTLY_UP, RUNNING, Runs, ended
from tests.replacing import replace
from xsft.records.index import IndexEntry, keep_entry
from xsft.records.run_cluster import ClusterAddress
from xsft.verbs.cli import main

pytestmark = pytest.mark.loopback


@pytest.fixture
def runs(api: ClusterApi) -> Runs:
    return Runs(api.standin.objects)


@pytest.fixture
def xsft(api: ClusterApi, capsys: pytest.CaptureFixture[str]) -> Any:
    def asked(*arguments: str) -> tuple[int, str, str]:
        status = main((arguments[0], "--context", api.context, *arguments[1:]))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return asked


def document(verb: str, text: str) -> dict[str, Any]:
    return read_document(verb, text)


def test_status_shows_runs_of_xsft_and_of_plain_xpk(api: ClusterApi, runs: Runs, xsft: Any) -> None:
    runs.admitted("going")
    runs.pod("going")
    runs.plain("by-xpk")
    runs.queued("waits", position=2)
    status, out, _ = xsft("status", "--json")
    printed = document("status", out)
    assert status == 0
    rows = {run["run_name"]: run for run in printed["runs"]}
    assert set(rows) == {"going", "by-xpk", "waits"}
    assert (rows["waits"]["state"], rows["waits"]["queue_position"]) == ("queued", 2)
    assert rows["going"]["cluster"] == api.context
    _, out, _ = xsft("status")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["going", "by-xpk", "waits"] or len(
        out.splitlines()
    ) == 4


def test_verbs_take_only_exact_names_and_offer_a_close_match(runs: Runs, xsft: Any) -> None:
    runs.admitted("gemma-ultrachat")
    xsft("status")
    for verb in ("status", "why", "logs", "wait", "cancel", "compare"):
        status, out, err = xsft(verb, "gemma")
        assert (status, out) == (2, ""), verb
        assert "gemma-ultrachat" in err
        assert "xsft status --all" in err


@pytest.mark.parametrize("path", [".", "watch=true"])
def test_a_timeout_of_wait_holds_when_requests_hang(api: ClusterApi, runs: Runs, xsft: Any, path: str) -> None:
    runs.admitted("gemma")
    runs.pod("gemma")
    api.server.fail(path, action="hang-before", times=99)
    began = time.monotonic()
    status, out, err = xsft("wait", "gemma", "--timeout", "3s", "--poll", "1h", "--json")
    assert time.monotonic() - began < 14  # what hangs would hold it for 15 s and more
    printed = document("wait", out)
    assert printed["waited_s"] < 14
    assert (status, printed["outcome"]) == ((5, "unreachable") if path == "." else (7, "timeout")), err


def test_a_timeout_of_wait_includes_a_login_program(api: ClusterApi, runs: Runs, tmp_path: Path) -> None:
    """In a process of its own, whose end waits for no thread."""
    runs.admitted("gemma")
    config = yaml.safe_load(api.kubeconfig.read_text())
    section = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["30"]}
    config["users"][0]["user"] = {"exec": section}
    api.kubeconfig.write_text(yaml.safe_dump(config))
    argv = (sys.executable, "-m", "xsft", "wait", "gemma", "--context", api.context, "--timeout", "1s")
    began = time.monotonic()
    ended = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == 5
    assert "No answer so far" in ended.stderr
    assert time.monotonic() - began < 20


def test_an_expired_login_ends_every_verb_at_once_and_keeps_its_id(api: ClusterApi, runs: Runs, xsft: Any) -> None:
    runs.admitted("gemma")
    api.expire_login()
    for verb in ("status", "why", "logs", "wait", "cancel"):
        status, out, err = xsft(verb, "gemma")
        assert (status, out) == (5, ""), verb
        assert "[login-expired]" in err, verb
        assert "HTTP 401" in err, verb


@pytest.mark.early
def test_cancel_deletes_the_named_run_and_no_other(api: ClusterApi, runs: Runs, xsft: Any) -> None:
    runs.admitted("gemma")
    runs.admitted("gemma-ultrachat")
    status, _, err = xsft("cancel", "gemma")
    assert status == 4
    assert "--yes" in err
    assert _there(api) == {"gemma", "gemma-ultrachat"}
    status, out, _ = xsft("cancel", "gemma", "--yes", "--json")
    assert status == 0
    assert document("cancel", out)["action"] == "cancelled"
    assert _there(api) == {"gemma-ultrachat"}


def test_a_run_that_ends_before_it_is_cancelled_keeps_its_end(api: ClusterApi, runs: Runs, xsft: Any) -> None:
    runs.admitted("gemma")
    api.server.fail(r"^GET .*/jobsets/gemma", code=0, do=lambda: api.world.end("gemma", "Completed"))
    assert xsft("cancel", "gemma", "--yes")[:2] == (0, "gemma: nothing to cancel: it has just ended\n")
    assert _there(api) == {"gemma"}


def test_a_cancel_is_kept_on_this_machine_if_the_bucket_cannot_be_read(
    api: ClusterApi, runs: Runs, xsft: Any, tmp_path: Path
) -> None:
    """Without a login to the bucket the cancel can be neither recorded there nor read."""
    uid = runs.admitted("gemma")["metadata"]["uid"]
    where = ClusterAddress(context=api.context)
    entry = IndexEntry(
        run_name="gemma", target="xpk", output="gs://my-bucket/runs", jobset="gemma", uid=uid, cluster=where
    )
    keep_entry(tmp_path / "state" / "runs", replace(entry, updated_at=datetime.now(UTC).isoformat(timespec="seconds")))
    status, _, err = xsft("cancel", "gemma", "--yes")
    assert (status, "[cancel-not-recorded]" in err) == (0, True)
    (run,) = document("status", xsft("status", "gemma", "--json")[1])["runs"]
    assert run["state"] == "cancelled"
    assert xsft("wait", "gemma")[0] == 6


def test_a_missing_context_is_a_problem_if_it_is_named_or_has_an_active_run(
    api: ClusterApi, runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "places.yaml").write_text(f"lab: {{context: {api.context}}}\n")
    runs.admitted("gemma")

    def submitted(name: str, submitted_at: str) -> None:
        where = ClusterAddress(context="elsewhere")
        entry = IndexEntry(
            run_name=name, target="xpk", output="gs://b/runs", cluster=where, uid=name, updated_at=submitted_at
        )
        keep_entry(tmp_path / "state" / "runs", entry)

    def shown() -> tuple[set[str], list[str]]:
        assert main(("status", "--json")) == 0
        printed = document("status", capsys.readouterr().out)
        return {run["run_name"] for run in printed["runs"]}, [problem["id"] for problem in printed["problems"]]

    submitted("old", "2020-01-01T00:00:00+00:00")
    assert shown() == ({"gemma"}, [])
    submitted("new", datetime.now(UTC).isoformat(timespec="seconds"))
    assert shown() == ({"gemma", "new"}, ["context-unknown"])
    assert main(("status",)) == 0
    assert "no context elsewhere" in capsys.readouterr().err
    assert main(("wait", "new")) == 5
    assert "[context-unknown]" in capsys.readouterr().err
    (tmp_path / "places.yaml").write_text("lab: {context: elsewhere}\n")
    assert shown()[1] == ["context-unknown"]


def test_a_run_of_a_missing_context_can_be_forgotten(
    api: ClusterApi, runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.admitted("gemma")
    where = ("--context", api.context)
    assert main(("status", *where)) == 0
    for output in ("gs://a", "gs://b"):
        place = ClusterAddress(context="elsewhere")
        submitted_at = datetime.now(UTC).isoformat(timespec="seconds")
        entry = IndexEntry(
            run_name="new", target="xpk", output=output, cluster=place, uid=output, updated_at=submitted_at
        )
        keep_entry(tmp_path / "state" / "runs", entry)
    capsys.readouterr()
    assert main(("status", "--forget", "new", "gemma")) == 0
    forgotten = "{} is forgotten on this machine; the run and its output are not touched.\n"
    assert capsys.readouterr().err == forgotten.format("new") + forgotten.format("gemma")
    assert main(("status",)) == 0
    assert capsys.readouterr().err == "no runs\n"
    for wrong in (("new",), ("gemma", "--json"), ()):
        assert main(("status", "--forget", *wrong)) == 2
    assert main(("status", "gemma", *where)) == 0


STEP = "metric_logger.py:265] completed step: {n}, seconds: 4.5, TFLOP/s/device: 459.0, total_weights: 84, loss: {loss}"


def steps(first: int, last: int) -> list[str]:
    """The two lines of each, as MaxText and Tunix print them."""
    lines = ((f"Train step {n} training loss: 2.500000", STEP.format(n=n, loss=2.5)) for n in range(first, last + 1))
    return [line for pair in lines for line in pair]


def test_cancel_asks_the_bucket_for_the_last_checkpoint(
    api: ClusterApi, runs: Runs, xsft: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """900 steps are 1,800 lines: more of a log than is read."""
    runs.admitted("gemma")
    pod = runs.pod("gemma")["metadata"]["name"]
    saved = "Finished saving checkpoint (finalized tmp dir) to `gs://my-bucket/deepseek/gemma/checkpoints/1000`."
    api.standin.logs.say(pod, *steps(901, 1000), saved, *steps(1001, 1900))
    output = runs.objects.of("jobset.x-k8s.io/jobsets")[("default", "gemma")]["metadata"]["annotations"]
    assert output["xsft.dev/output"].startswith("gs://my-bucket/")
    prefix = f"{output['xsft.dev/output'].removeprefix('gs://my-bucket/').rstrip('/')}/gemma/checkpoints"
    objects = {f"{prefix}/{step}/commit_success.txt": b"x" for step in (500, 1000)} | {f"{prefix}/1500/d/0": b"x"}
    with serving(Bucket(objects=objects)) as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        status, out, err = xsft("cancel", "gemma", "--yes", "--json")
    assert status == 0
    assert "900 steps since the checkpoint of step 1000 would be lost (it is at step 1900)" in err
    printed = document("cancel", out)
    assert (printed["step"], printed["saved_step"], printed["lost_steps"]) == (1900, 1000, 900)


@pytest.mark.parametrize(
    ("printer", "says", "lost"),
    [
        ({}, "30 steps since the checkpoint of step 400 would be lost (it is at step 430)", 30),
        ({"phase": "Pending"}, "unknown: its progress was not read (its pods are not all running)", None),
    ],
    ids=["another host lost", "host 0 lost"],
)
def test_cancel_of_a_run_that_lost_a_pod_reports_the_steps_since_its_checkpoint(
    api: ClusterApi,
    runs: Runs,
    xsft: Any,
    monkeypatch: pytest.MonkeyPatch,
    printer: dict[str, str],
    says: str,
    lost: int | None,
) -> None:
    output = runs.admitted("gemma", status=PARTLY_UP)["metadata"]["annotations"]["xsft.dev/output"]
    pod = runs.pod("gemma", **printer)["metadata"]["name"]
    if not printer:
        api.standin.logs.say(pod, *steps(401, 430))
    name = f"{output.removeprefix('gs://my-bucket/').rstrip('/')}/gemma/checkpoints/400/commit_success.txt"
    with serving(Bucket(objects={name: b"x"})) as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        status, out, err = xsft("cancel", "gemma", "--yes", "--json")
    printed = document("cancel", out)
    assert status == 0
    assert says in err
    assert (printed["state"], printed["saved_step"], printed["lost_steps"]) == ("starting", 400, lost)


def test_cancel_reports_lost_steps_as_unknown_without_a_bucket_login(api: ClusterApi, runs: Runs, xsft: Any) -> None:
    runs.admitted("gemma")
    api.standin.logs.say(runs.pod("gemma")["metadata"]["name"], *steps(1001, 1900))
    status, out, err = xsft("cancel", "gemma", "--yes", "--json")
    assert status == 0
    assert "how many steps would be lost is unknown: it is at step 1900" in err
    assert "no Google Cloud login was found" in err
    printed = document("cancel", out)
    assert (printed["step"], printed["saved_step"], printed["lost_steps"]) == (1900, None, None)


def test_wait_exits_6_for_a_failed_run_and_7_at_the_timeout(runs: Runs, xsft: Any) -> None:
    runs.jobset("broken", status=ended("Failed", "FailJobSetFailurePolicyAction"))
    runs.admitted("going")
    runs.pod("going")
    status, out, _ = xsft("wait", "broken", "--json")
    assert status == 6
    assert document("wait", out)["outcome"] == "ended"
    assert xsft("wait", "going", "--timeout", "0s")[0] == 7


def says_now(api: ClusterApi, pod: str, *lines: str) -> None:
    """Just now, by the real clock: what was said long ago is a trainer that has stalled."""
    minute = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    log = api.standin.logs.logs.setdefault((pod, False), Log())
    log.lines += [(f"{minute}.{len(log.lines) + n:09}Z", line) for n, line in enumerate(lines)]


NOTHING = STEP.replace("total_weights: 84", "total_weights: 0").replace("{loss}", "0.000, lm_loss: 0.000")


def test_a_run_that_learns_nothing_is_reported_while_active_and_fails_at_its_end(
    api: ClusterApi, runs: Runs, xsft: Any
) -> None:
    runs.admitted("gemma")
    pod = runs.pod("gemma")["metadata"]["name"]
    says_now(api, pod, *(NOTHING.format(n=n) for n in (1, 2)))
    (row,) = document("status", xsft("status", "--json")[1])["runs"]
    assert (row["state"], row["reason"], row["progress"]["no_target_steps"]) == ("training", "", 2)
    says_now(api, pod, *(NOTHING.format(n=n) for n in range(3, 9)))
    (row,) = document("status", xsft("status", "--json")[1])["runs"]
    assert (row["state"], row["reason"], row["progress"]["no_target_steps"]) == ("training", "no-target-tokens", 8)
    printed = document("why", xsft("why", "gemma", "--json")[1])
    assert printed["cause"]["id"] == "no-target-tokens"
    assert "xsft cancel gemma" in printed["cause"]["fix"]
    assert "total_weights: 0" in printed["cause"]["evidence"][0]
    status, _, err = xsft("wait", "gemma")
    assert status == 6
    assert "It still runs" in err
    ended_well = ended("Completed", "AllJobsCompleted", at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    jobset_object = runs.objects.of("jobset.x-k8s.io/jobsets")["default", "gemma"]
    jobset_object["status"], jobset_object["metadata"]["resourceVersion"] = ended_well, "999999"
    (row,) = document("status", xsft("status", "--json")[1])["runs"]
    assert (row["state"], row["reason"]) == ("failed", "no-target-tokens")
    assert "Nothing is wrong" not in xsft("why", "gemma")[1]
    status, out, _ = xsft("wait", "gemma", "--json")
    assert (status, document("wait", out)["run"]["reason"]) == (6, "no-target-tokens")


def test_a_loss_of_0_with_targets_is_a_warning(api: ClusterApi, runs: Runs, xsft: Any) -> None:
    runs.admitted("gemma")
    pod = runs.pod("gemma")["metadata"]["name"]
    says_now(api, pod, *(STEP.format(n=n, loss="0.000") for n in (1, 2, 3)))
    printed = document("status", xsft("status", "--json")[1])
    assert (printed["runs"][0]["state"], printed["runs"][0]["reason"]) == ("training", "")
    assert [problem["id"] for problem in printed["problems"]] == ["loss-zero"]
    assert document("why", xsft("why", "gemma", "--json")[1])["cause"]["id"] == "loss-zero"


def test_logs_status_and_compare_read_the_one_process_that_prints_steps(
    api: ClusterApi, runs: Runs, xsft: Any, tmp_path: Path
) -> None:
    runs.admitted("going")
    pod = runs.pod("going")["metadata"]["name"]
    api.standin.logs.say(pod, *(STEP.format(n=n, loss=7 - n) for n in (1, 2, 3)))
    status, out, _ = xsft("logs", "going", "--tail", "1")
    assert (status, out.strip()) == (0, STEP.format(n=3, loss=4))
    _, out, _ = xsft("status", "going", "--json")
    (row,) = document("status", out)["runs"]
    assert (row["step"], row["loss"], row["mfu"]) == (3, 4.0, 0.5)
    _, out, _ = xsft("compare", "going", "--json")
    (curve,) = document("compare", out)["runs"]
    assert [(p["step"], p["loss"]) for p in curve["points"]] == [(1, 6.0), (2, 5.0), (3, 4.0)]
    assert "log" in curve["sources"]
    assert xsft("wait", "going", "--for", "step=3")[0] == 0
    assert xsft("logs", "going", "--all")[0] == 2


def test_why_names_the_process_that_failed_first(api: ClusterApi, runs: Runs, xsft: Any) -> None:
    runs.jobset("broken", status=ended("Failed", "FailJobSetFailurePolicyAction"))
    over = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-21T10:59:00Z"}}
    statuses = [{"name": "jax-tpu", "restartCount": 0, "state": over}]
    pod = runs.pod("broken", host=5, phase="Failed", containerStatuses=statuses)["metadata"]["name"]
    api.standin.logs.say(pod, "Traceback (most recent call last):", "ValueError: the fifth host is odd")
    status, out, _ = xsft("why", "broken", "--json")
    printed = document("why", out)
    assert status == 0
    assert "slice 0 host 5" in printed["cause"]["where"]
    assert any("the fifth host is odd" in line for line in printed["cause"]["evidence"])


def test_why_explains_the_requested_attempt(api: ClusterApi, runs: Runs, xsft: Any) -> None:
    first = runs.jobset("gemma", status=ended("Failed", "FailJobSetFailurePolicyAction"))
    first["metadata"]["creationTimestamp"] = "2026-11-21T09:00:00Z"
    runs.admitted("gemma-2", run="gemma")
    runs.pod("gemma-2")
    states = {}
    for arguments in ((), ("--attempt", "1"), ("--attempt", "2")):
        status, out, _ = xsft("why", "gemma", "--json", *arguments)
        printed = document("why", out)
        states[arguments] = (status, printed["jobset"], printed["state"] == "failed")
    assert states == {
        (): (0, "gemma-2", False),
        ("--attempt", "1"): (0, "gemma", True),
        ("--attempt", "2"): (0, "gemma-2", False),
    }
    status, _, err = xsft("why", "gemma", "--attempt", "3")
    assert status == 2
    assert "no attempt 3" in err
    assert xsft("why", "gemma", "--attempt", "x")[0] == 2


def test_why_explains_a_restart_of_which_no_pod_is_left(api: ClusterApi, runs: Runs, xsft: Any) -> None:
    """As an OOM kill leaves it: JobSet has made its Jobs anew, and the pods of before are gone."""
    restarted = runs.admitted("gemma", status={**RUNNING, "restarts": 1})
    restarted["status"]["replicatedJobsStatus"] = [{"name": "slice-job", "ready": 0, "active": 2}]
    runs.pod("gemma", attempt=1)
    policy = {
        "reason": "RestartJobSetFailurePolicyAction",
        "message": "applying RestartJobSet failure policy action (first failed job: gemma-slice-job-0)",
        "involvedObject": {"kind": "JobSet", "name": "gemma", "uid": restarted["metadata"]["uid"]},
        "type": "Warning",
        "lastTimestamp": "2026-11-21T11:00:00Z",
    }
    api.standin.objects.add("/events", "e", namespace="default", **policy)
    status, out, _ = xsft("why", "gemma")
    assert status == 0
    assert "It was restarted 1 of 3 times, the last time at 2026-11-21T11:00:00Z" in out
    assert "its Job gemma-slice-job-0" in out
    assert 'gcloud logging read \'labels."k8s-pod/jobset_sigs_k8s_io/jobset-name"="gemma"' in out


def test_status_shows_the_last_known_state_of_a_silent_cluster(api: ClusterApi, runs: Runs, xsft: Any) -> None:
    runs.admitted("going")
    runs.pod("going")
    assert xsft("status")[0] == 0
    api.expire_login()
    status, out, err = xsft("status", "--json")
    printed = document("status", out)
    assert status == 0
    assert [run["run_name"] for run in printed["runs"]] == ["going"]
    assert printed["runs"][0]["state"] != "failed"
    assert printed["problems"]
    assert xsft("cancel", "going", "--yes")[0] == 5
    assert xsft("why", "going")[0] == 5
    assert _there(api) == {"going"}
    assert err == ""


def test_verbs_exit_5_for_a_silent_cluster_without_a_known_state(api: ClusterApi, xsft: Any) -> None:
    api.expire_login()
    for arguments in (("status",), ("status", "x"), ("why", "x"), ("logs", "x"), ("cancel", "x"), ("compare", "x")):
        assert xsft(*arguments)[0] == 5, arguments


def test_a_context_that_does_not_exist_is_a_usage_error(api: ClusterApi, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (("status",), ("wait", "x"), ("cancel", "x")):
        assert main((*verb, "--context", "nosuch")) == 2
        assert "nosuch" in capsys.readouterr().err
    assert main(("status", "--place", "nosuch")) == 2


def test_why_asks_each_object_once(api: ClusterApi, runs: Runs, xsft: Any) -> None:
    """Of a run that is up, of one in a queue, and of one whose earlier attempt failed."""
    runs.admitted("gemma")
    says_now(api, runs.pod("gemma")["metadata"]["name"], STEP.format(n=1, loss="2.000"))
    runs.queued("waits", position=0)
    first = runs.jobset("again", status=ended("Failed", "FailJobSetFailurePolicyAction"))
    first["metadata"]["creationTimestamp"] = "2026-11-21T09:00:00Z"
    over = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-21T09:30:00Z"}}
    failed = runs.pod(
        "again", phase="Failed", containerStatuses=[{"name": "jax-tpu", "restartCount": 0, "state": over}]
    )
    api.standin.logs.say(failed["metadata"]["name"], STEP.format(n=1, loss="2.000"), "ValueError: odd", end=True)
    runs.admitted("again-2", run="again")
    says_now(api, runs.pod("again-2")["metadata"]["name"], STEP.format(n=1, loss="2.000"))
    repeated = {}
    for name, jobsets in (("gemma", 2), ("waits", 3), ("again", 2)):
        before = len(api.server.asked("/"))
        assert xsft("why", name)[0] == 0
        paths = [request.path.partition("?")[0] for request in api.server.asked("/")[before:]]
        assert sum("/jobsets" in path for path in paths) == jobsets  # by label, by name; whole if it may lack an object
        counts = Counter(path for path in paths if "/jobsets" not in path and not path.endswith("/events"))
        repeated[name] = [path for path, count in counts.items() if count > 1]
    assert repeated == {"gemma": [], "waits": [], "again": []}


def _there(api: ClusterApi) -> set[str]:
    objects: Objects = api.standin.objects
    return {name for _, name in objects.of("jobset.x-k8s.io/jobsets")}
