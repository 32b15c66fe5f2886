"""`xsft submit` as people and CI run it: the real xpk for rendering, a cluster and a bucket; as a process where that
makes a difference.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import yaml

from tests.cluster.test_cluster import CREATE
from tests.contract.commandline import INPUTS, XSFT, Machine
from tests.documents import read_document
from tests.fakes.kubeapi import CONTEXT
from tests.faults.world import deny
from tests.runs.test_log_sources_read import until
from tests.tools.calls import calls_of, two_way
from tests.verbs.test_place_secret import to

pytestmark = pytest.mark.contract
NAME = "deepseek-ultrachat"


def test_submit_creates_the_planned_jobset_and_adopts_it_the_next_time(here: Machine) -> None:
    file = here.workload()
    shown = json.loads(here.xsft("plan", file, "--json").stdout)["plans"][0]
    first = here.xsft("submit", file, "--json", closed=True)
    assert first.returncode == 0, first.stderr
    document = read_document("submit", first.stdout)
    (create,) = here.api.server.asked(CREATE)
    assert create.body == shown["manifest"]
    (jobset,) = here.jobsets
    notes = document.pop("problems")
    late = {"maxtext-not-asked"}  # on a busy machine its parser takes longer than a submission waits
    assert {note["id"] for note in notes} - late == {"image-not-read"}, "no registry is asked without a login"
    assert {key: value for key, value in document.items() if value not in (None, [], 0)} == {
        "schema": "xsft.submit/1",
        "run_name": NAME,
        "jobset": NAME,
        "action": "created",
        "uid": jobset["metadata"]["uid"],
        "spec_digest": shown["spec_digest"],
        "record": f"gs://my-bucket/runs/{NAME}/xsft/attempt-1.json",
    }
    again = json.loads(here.xsft("submit", file, "--json").stdout)
    assert again == {**document, "action": "adopted", "problems": []}
    assert len(here.jobsets) == 1


def test_the_modules_of_a_submission_call_each_other_one_way(here: Machine) -> None:
    file = here.workload()
    calls = calls_of(lambda: here.xsft("submit", file, "--yes"))
    assert len(here.jobsets) == 1
    # the question before the creation, the bucket's retries, the words of a submission, and the terminal's lock
    assert len(pairs := two_way(calls)) <= 2, pairs


def test_python_submits_and_adopts_as_the_command_line_does(here: Machine) -> None:
    file = here.workload()
    done = here.python(f"import xsft; print(*(xsft.submit(xsft.load({str(file)!r})).action for _ in range(2)))")
    assert done.stdout.split() == ["created", "adopted"], done.stderr
    here.api.world.limit_chips(256)
    assert json.loads(here.xsft("submit", file, "--json").stdout)["action"] == "adopted"


def test_submit_prints_the_chips_and_the_jobset(here: Machine) -> None:
    done = here.xsft("submit", here.workload())
    assert done.returncode == 0
    assert "512 chips, 2 x v6e-256" in done.stderr
    assert f"queue multislice-queue in namespace {here.api.namespace}" in done.stderr
    uid = here.jobsets[0]["metadata"]["uid"]
    assert done.stdout.splitlines() == [
        f"{NAME}: created JobSet {NAME}, uid {uid}",
        f"checkpoints  gs://my-bucket/runs/{NAME}/checkpoints",
        f"tensorboard  gs://my-bucket/runs/{NAME}/tensorboard",
        f"record       gs://my-bucket/runs/{NAME}/xsft/attempt-1.json",
        f"next         xsft logs -f {NAME}, or xsft status {NAME}",
    ]


def at_a_terminal(here: Machine, *arguments: object, answer: str = "") -> tuple[int, str]:
    """Exit status, and what the terminal showed."""
    person, terminal = os.openpty()
    os.write(person, answer.encode())
    with subprocess.Popen(
        (str(XSFT), *map(str, arguments)),
        env={**here.env, "TERM": "dumb", "COLUMNS": "200"},
        cwd=here.folder,
        stdin=terminal,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        shown = read_to_the_end(person)
    return process.returncode, shown


def read_to_the_end(terminal: int) -> str:
    shown = b""
    with suppress(OSError), os.fdopen(terminal, "rb", buffering=0) as file:  # EIO: the other end is closed
        while part := file.read(4096):
            shown += part
    return shown.decode()


QUESTION = "Take 512 chips (2 x v6e-256) from queue multislice-queue? [y/N]"


@pytest.mark.standin_only("prompt")
def test_a_person_at_a_terminal_is_asked_before_slices_are_taken(here: Machine) -> None:
    status, shown = at_a_terminal(here, "submit", here.workload(), answer="n\n")
    assert (status, QUESTION in shown, here.jobsets) == (4, True, [])
    assert "Nothing was created." in shown
    assert "error" not in shown.partition(QUESTION)[2]
    status, shown = at_a_terminal(here, "submit", here.workload(), answer="y\n")
    assert (status, QUESTION in shown, len(here.jobsets)) == (0, True, 1)
    assert QUESTION not in at_a_terminal(here, "submit", here.workload())[1]  # adopted


@pytest.mark.standin_only("prompt")
@pytest.mark.parametrize("option", ["--yes", "--json"])
def test_submit_does_not_prompt_with_an_option_for_scripts(here: Machine, option: str) -> None:
    status, shown = at_a_terminal(here, "submit", here.workload(), option)
    assert (status, QUESTION in shown, len(here.jobsets)) == (0, False, 1)


def test_a_failed_run_is_tried_again_and_a_finished_one_is_left(here: Machine) -> None:
    file = here.workload()
    here.xsft("submit", file)
    here.api.world.end(NAME, "Failed")
    second = json.loads(here.xsft("submit", file, "--json").stdout)
    assert (second["action"], second["jobset"]) == ("attempt", f"{NAME}-2")
    assert here.jobsets[1]["metadata"]["name"] == f"{NAME}-2"
    here.api.world.end(f"{NAME}-2", "Completed")
    here.bucket.objects[f"runs/{NAME}/checkpoints/1000/commit_success.txt"] = b""
    third = here.xsft("submit", file, "--json")
    document = read_document("submit", third.stdout)
    assert (third.returncode, document["action"], len(here.jobsets)) == (0, "finished", 2)
    assert document["result"] == {"steps": 1000, "first_loss": None, "last_loss": None}


@pytest.mark.standin_only("no-request")
def test_submit_dry_run_prints_the_plan_and_changes_nothing(here: Machine) -> None:
    file = here.workload()
    for flags in ((), ("--json",)):
        plan, dry = here.xsft("plan", file, *flags), here.xsft("submit", "--dry-run", file, *flags)
        assert (dry.returncode, dry.stdout) == (plan.returncode, plan.stdout)
        assert dry.stderr == f"{plan.stderr}`xsft submit FILE --dry-run` is now `xsft plan FILE`\n"
    assert here.api.server.seen == []
    assert here.bucket.objects.keys() == INPUTS.keys()


def _too_little(here: Machine) -> None:
    here.api.world.limit_chips(256)


def _unclear(here: Machine) -> None:
    here.api.server.fail(CREATE, action="cut-after")
    here.api.server.fail(r"^GET .*/jobsets/deepseek-ultrachat\?$", code=0, times=2)  # the looks before the create
    here.api.server.fail(r"^GET .*/jobsets/deepseek-ultrachat\?$", action="cut-before", times=9)


def _live(here: Machine) -> None:
    here.xsft("submit", here.workload())


UNCONVERTED = {
    "model": {"name": "deepseek3-671b", "hf": {"repo": "deepseek-ai/DeepSeek-V3"}},
    "checks": {"checkpoint-to-convert": "it will be"},
}
SECRET = {"secrets": {"hf_token": {"secret": "hf", "key": "token"}}}
FAILURES: dict[str, tuple[Callable[[Machine], Any], dict[str, Any], int, str]] = {
    "unknown field": (lambda _: None, {"trian": {}}, 2, "unknown-key"),
    "quota too small": (_too_little, {}, 2, "quota-too-small"),
    "missing queue": (lambda _: None, {"queue": "nosuch"}, 2, "queue-missing"),
    "weights not converted": (lambda _: None, UNCONVERTED, 2, "checkpoint-to-convert"),
    "missing Secret": (lambda _: None, SECRET, 2, "secret-missing"),
    "name taken by another workload": (
        _live, {"train": {"steps": 7, "per_device_batch_size": 1, "max_target_length": 1024}}, 4, "refused",
    ),
    "login expired": (lambda here: here.api.expire_login(), {}, 5, "login-expired"),
    "create forbidden": (lambda here: deny(here.api.world, ("create", "jobsets")), {}, 5, "forbidden"),
    "bucket busy": (lambda here: setattr(here.bucket, "status", 503), {"checks": {}}, 5, "checkpoint-unread"),
    "outcome unknown": (_unclear, {}, 8, "create-unclear"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_each_failure_of_submit_has_its_exit_status(here: Machine, case: str) -> None:
    spoil, changes, status, problem = FAILURES[case]
    spoil(here)
    before = len(here.jobsets)
    done = here.xsft("submit", here.workload(**changes), "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit_status"]) == (status, status), done.stderr
    assert document["schema"] == "xsft.submit/1"
    read_document("error", document)
    assert problem in [p["id"] for p in document["problems"]], done.stderr
    assert all(p["fix"] and "`xsft run FILE`" not in p["fix"] for p in document["problems"])
    assert "Traceback" not in done.stderr
    if status == 8:
        here.api.server.faults.clear()
        again = json.loads(here.xsft("submit", here.workload(), "--json").stdout)
        assert (again["action"], len(here.jobsets)) == ("adopted", 1)
    else:
        assert len(here.jobsets) == before


@pytest.mark.parametrize("created", [True, False], ids=["created", "not-created"])
def test_ctrl_c_between_the_create_and_its_answer_says_what_is_known(here: Machine, created: bool) -> None:
    here.api.server.fail(CREATE, action="hang-after" if created else "hang-before")
    file = here.workload()
    argv = (str(XSFT), "submit", str(file), "--wait")
    with subprocess.Popen(argv, env=here.env, cwd=here.folder, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: here.api.server.asked(CREATE) and len(here.jobsets) == int(created))
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=300)
    assert process.returncode == 130
    *_, interrupted, advice = output.splitlines()
    assert interrupted.endswith("interrupted")
    assert f"Interrupted while creating JobSet {NAME}; it may exist" in advice
    assert "Traceback" not in output
    status = json.loads(here.xsft("status", NAME, "--json").stdout)
    assert [run["state"] for run in status["runs"]] == ["queued" if created else "unknown"]
    again = json.loads(here.xsft("submit", file, "--json").stdout)
    assert (again["action"], len(here.jobsets)) == ("adopted" if created else "created", 1)


@pytest.mark.standin_only("not-installed")
def test_submit_exits_3_on_a_cluster_without_jobset(here: Machine) -> None:
    here.api.standin.objects.uninstall("jobset.x-k8s.io")
    done = here.xsft("submit", here.workload(), "--json")
    assert done.returncode == 3
    assert "jobset-not-installed" in [p["id"] for p in json.loads(done.stdout)["problems"]]


def test_an_unknown_context_names_the_known_ones(here: Machine) -> None:
    done = here.xsft("submit", here.workload(place={"context": "stand-inn"}))
    assert done.returncode == 2
    assert CONTEXT in done.stderr


# ---- nothing secret leaves


@pytest.fixture
def token() -> str:
    """Shaped like Hugging Face's, made now."""
    return "_".join(("hf", secrets.token_hex(17)))


def _in_env(token: str) -> dict[str, Any]:
    return {"env": {"MY_SETTING": token}}


def _in_named_env(_token: str) -> dict[str, Any]:
    return {"env": {"HF_TOKEN": _token}}


def _in_override(token: str) -> dict[str, Any]:
    return {"overrides": {"maxtext": {"hf_access_token": token}}}


def _in_other_override(token: str) -> dict[str, Any]:
    return {"overrides": {"maxtext": {"mu_dtype": token}}}


def _in_name(token: str) -> dict[str, Any]:
    return {"name": token}


def _in_url(token: str) -> dict[str, Any]:
    return {"model": {"name": "deepseek3-671b", "tokenizer": f"https://user:{token}@example.com/tokenizer"}}


def _in_path(token: str) -> dict[str, Any]:
    return {"output": f"gs://my-bucket/{token}"}


def _as_secret(token: str) -> dict[str, Any]:
    return {"secrets": {"hf_token": token}}


def _as_secret_name(token: str) -> dict[str, Any]:
    return {"secrets": {"hf_token": {"secret": token, "key": "token"}}}


def _as_unknown_key(token: str) -> dict[str, Any]:
    return {"hf_token": token}


def _as_key(token: str) -> dict[str, Any]:
    return {token: "x"}


def _in_check_reason(token: str) -> dict[str, Any]:
    return {"checks": {"image-not-pinned": token}}


def _in_image(token: str) -> dict[str, Any]:
    return {"image": {"ref": f"us-docker.pkg.dev/p/x/{token}:1", "maxtext": "0.2.5"}}


PLANTS = (
    _in_env, _in_named_env, _in_override, _in_other_override, _in_name, _in_url, _in_path, _as_secret, _as_secret_name,
    _as_unknown_key, _as_key, _in_check_reason, _in_image,
)  # fmt: skip


def everything(here: Machine, *printed: str) -> str:
    """Return all that xsft printed, sent and wrote; not what the user wrote."""
    given_files = {here.folder / "w.yaml", here.api.kubeconfig, here.folder / "token"}
    files = [f for f in here.folder.rglob("*") if f.is_file() and f not in given_files and "envs" not in f.parts]
    files += (here.folder / "cache" / "renders").iterdir()  # a link, which rglob does not follow
    written = [f.read_bytes().decode("utf-8", "replace") + str(f) for f in files]
    stored_objects = [name + content.decode("utf-8", "replace") for name, content in here.bucket.objects.items()]
    texts = [json.dumps([str(request), request.query, request.body]) for request in here.api.server.seen]
    return "\n".join((*printed, *written, *stored_objects, *texts, *here.bucket.asked, json.dumps(here.jobsets)))


@pytest.mark.standin_only("no-request")
@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("verb", [("submit",), ("submit", "--json"), ("submit", "--dry-run"), ("check",)], ids="-".join)
def test_a_token_in_the_yaml_goes_nowhere(here: Machine, token: str, plant: Any, verb: tuple[str, ...]) -> None:
    """One as a process; what a process adds is the same for all."""
    done = here.xsft(*verb, here.workload(**plant(token)), closed=(verb, plant) == (("submit",), _in_env))
    assert done.returncode == 2
    assert token not in everything(here, done.stdout, done.stderr)
    assert here.jobsets == []


@pytest.mark.standin_only("no-request")
@pytest.mark.parametrize(
    "setting",
    ["env.HF_TOKEN={}", "overrides.maxtext.hf_access_token={}", "env.X={}", "{}=1", "name={}", "train.steps={}", "{}"],
)
def test_a_token_on_the_command_line_goes_nowhere(here: Machine, token: str, setting: str) -> None:
    done = here.xsft("submit", here.workload(), "--set", setting.format(token), "--json")
    assert done.returncode == 2
    assert token not in everything(here, done.stdout, done.stderr)


def test_a_token_in_the_environment_or_the_kubeconfig_goes_nowhere(here: Machine, token: str) -> None:
    login = here.api.token
    done = here.xsft("submit", here.workload(), env={"HF_TOKEN": token, "HUGGING_FACE_HUB_TOKEN": token}, closed=True)
    assert done.returncode == 0, done.stderr
    assert len(here.jobsets) == 1
    assert token not in everything(here, done.stdout, done.stderr)
    assert login not in everything(here, done.stdout, done.stderr)
    here.api.expire_login(token)
    refused = here.xsft("submit", here.workload())
    assert refused.returncode == 5
    assert token not in everything(here, refused.stdout, refused.stderr)


def test_a_token_in_a_servers_address_goes_nowhere(here: Machine, token: str) -> None:
    config = yaml.safe_load(here.api.kubeconfig.read_text())
    server = config["clusters"][0]["cluster"]["server"]
    config["clusters"][0]["cluster"]["server"] = server.replace("http://", f"http://user:{token}@")
    here.api.kubeconfig.write_text(yaml.safe_dump(config))
    done = here.xsft("submit", here.workload())
    assert token not in everything(here, done.stdout, done.stderr)


def test_the_secret_that_is_referred_to_is_made_and_mounted_and_nowhere_else(here: Machine, token: str) -> None:
    file = here.folder / "token"
    file.write_text(token)
    completed = here.xsft("secret", "create", "hf", "--from-file", file, *to(here.api), closed=True)
    assert completed.returncode == 0, completed.stderr
    here.api.server.seen.clear()  # the request that carries it
    variables = {"WANDB_API_KEY": {"secret": "hf"}, "NETRC": {"secret": "hf", "as_file": True}}
    pods = {"labels": {"team": "nlp"}, "annotations": {"example.com/owner": "nlp"}}
    workload = here.workload(secrets={**SECRET["secrets"], "env": variables}, pods=pods)
    done = here.xsft("submit", workload, "--json")
    assert done.returncode == 0, done.stderr
    assert token not in everything(here, completed.stdout, completed.stderr, done.stdout, done.stderr)
    text = json.dumps(here.jobsets)
    assert [word for word in ("HF_TOKEN_PATH", "secretKeyRef", '"team"', "example.com/owner") if word not in text] == []


def test_a_variable_without_its_secret_is_refused_by_name(here: Machine) -> None:
    workload = here.workload(secrets={"env": {"WANDB_API_KEY": {"secret": "nosuch"}}})
    done = here.xsft("submit", workload, "--json")
    assert done.returncode == 2, done.stderr
    (problem,) = (p for p in json.loads(done.stdout)["problems"] if p["severity"] == "error")
    assert (problem["id"], problem["where"]) == ("secret-missing", "secrets.env.WANDB_API_KEY")
