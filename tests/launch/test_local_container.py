"""A local run in an image: the same result, output and signals as without one; only named files are mounted."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.engine.base import BaseImage
from tests.engine.daemon import Engine as RunningEngine
from tests.engine.trainer import fake_trainer_image, plan_in_image, seen_in
from tests.localruns import FakeTrainer, local_plan
from tests.replacing import replace
from tests.until import until
from xsft.base.errors import EnvironmentMissing, Refused, SpecError, Unreachable
from xsft.image.container import FOLDER_LABEL, Mount
from xsft.image.engine import Engine, connect_engine
from xsft.launch.local_container import LocalContainer, container_for, mounts, refuse_remote_engine, user_in
from xsft.launch.local_machine import Machine, in_image
from xsft.launch.local_run import LocalResult, run_local
from xsft.planning.steps import Plan
from xsft.verbs.submit import submit_local

needs_engine = pytest.mark.engine


def test_mounts_are_exactly_the_files_that_the_command_names(tmp_path: Path) -> None:
    for name in ("data/a.json", "data/b.json", "tok/tokenizer.json", "here.json", "out/run/x", "unnamed"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    argv = (
        "python3", "-m", "maxtext.trainers", f"hf_train_files={tmp_path}/data/*.json", f"tokenizer_path={tmp_path}/tok",
        f"base_output_directory={tmp_path}/out", "chat=./here.json", "hf_path=json", "steps=1", "bucket=gs://b/data",
        f"list=['{tmp_path}/data/a.json', 'x']", "root=/", "gone=/no/such/file", "hub=org/name",
    )  # fmt: skip
    mounted = mounts(
        argv, {"TOKEN": str(tmp_path / "tok/tokenizer.json")}, writable=(tmp_path / "out/run",), cwd=tmp_path
    )
    assert mounted == (
        Mount(path=tmp_path / "data"),
        Mount(path=tmp_path / "data/a.json"),
        Mount(path=tmp_path / "here.json"),
        Mount(path=tmp_path / "out"),
        Mount(path=tmp_path / "out/run", writable=True),
        Mount(path=tmp_path / "tok"),
        Mount(path=tmp_path / "tok/tokenizer.json"),
    )


def test_a_file_in_a_writable_folder_is_not_mounted_twice(tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    argv = (f"a={tmp_path}/run/checkpoints", f"b={tmp_path}/run")
    assert mounts(argv, {}, writable=(tmp_path / "run",), cwd=tmp_path) == (
        Mount(path=tmp_path / "run", writable=True),
    )


@pytest.mark.parametrize("path", ["/", "/usr", "/etc", "/proc", "/dev"])
def test_system_folders_of_the_image_are_never_mounted_over(path: str) -> None:
    assert mounts((f"a={path}",), {}, writable=(), cwd=Path("/")) == ()


def test_a_workload_without_an_image_needs_no_engine(tmp_path: Path) -> None:
    nowhere = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    assert container_for(local_plan(tmp_path), env=nowhere) is None


def test_a_workload_with_an_image_needs_an_engine(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing) as missing:
        container_for(local_plan(tmp_path, image__ref="i:1"), env={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert missing.value.problem_id in {"docker-not-running", "docker-missing"}


class Asked(Exception):
    """Raised with the container that would have been created."""


@dataclass
class Api:
    """docker.APIClient up to the moment when a container is made."""

    rootless: bool = False
    host: dict[str, Any] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)

    def info(self) -> dict[str, Any]:
        return {"SecurityOptions": ["name=seccomp", "name=rootless"] if self.rootless else ["name=seccomp"]}

    def containers(self, *, filters: dict[str, str], **_: Any) -> list[dict[str, str]]:
        return [{"Id": "1" * 64, "State": "running"}] if filters == {"label": f"{FOLDER_LABEL}=/runs/one"} else []

    def create_host_config(self, **host: Any) -> None:
        self.host = host

    def create_container_config(self, **settings: Any) -> None:
        self.made = settings

    def create_container_from_config(self, _config: object, *, name: str) -> None:
        raise Asked(name)


def asked_for(api: Api, folder: Path, **changes: Any) -> None:
    engine = Engine(host="unix:///none", api=api, env={})
    container = LocalContainer(engine=engine, ref="i:1", image="sha256:1", user="1234:2345", cwd=folder)
    plan = local_plan(folder / "out", image__ref="i:1", **changes)
    with pytest.raises(Asked, match=f"^xsft-{plan.run_name}-"):
        container.run(
            plan, argv=plan.trainer_argv, env={}, writable=(folder,), log=folder / "log", on_line=print, grace_s=1
        )


def test_a_container_runs_as_the_user_in_the_current_folder_with_an_owner_label(tmp_path: Path) -> None:
    asked_for(api := Api(), tmp_path)
    assert (api.made["user"], api.made["image"], api.made["working_dir"]) == ("1234:2345", "sha256:1", str(tmp_path))
    assert api.made["labels"][FOLDER_LABEL] == str(tmp_path)


def test_a_container_has_a_network_only_if_the_command_names_a_hub_repository(tmp_path: Path) -> None:
    asked_for(api := Api(), tmp_path)
    assert api.host["network_mode"] == "none"
    asked_for(api, tmp_path, model__tokenizer="org/name")
    assert api.host["network_mode"] == "default"


def test_a_run_folder_that_a_container_still_writes_to_is_refused(tmp_path: Path) -> None:
    engine = Engine(host="unix:///none", api=Api(), env={})
    container = LocalContainer(engine=engine, ref="i:1", image="sha256:1", user="", cwd=tmp_path)
    container.refuse_where_running(Path("/runs/other"))
    with pytest.raises(Refused, match="one is running now"):
        container.refuse_where_running(Path("/runs/one"))


@pytest.mark.parametrize(("rootless", "user"), [(False, "1234:2345"), (True, "0:0")])
def test_a_container_runs_as_root_only_in_a_rootless_engine(rootless: bool, user: str) -> None:
    engine = Engine(host="unix:///none", api=Api(rootless=rootless), env={})
    assert user_in(engine, uid=1234, gid=2345) == user


@pytest.fixture
def docker(engine: RunningEngine) -> Engine:
    return connect_engine(engine.env)


@pytest.fixture(scope="module")
def image(engine: RunningEngine, base_image: BaseImage, tmp_path_factory: pytest.TempPathFactory) -> str:
    new_engine = connect_engine(engine.env)
    return fake_trainer_image(new_engine, tmp_path_factory.mktemp("trainer"), base=base_image.reference)


def machine(plan: Plan, docker: Engine, folder: Path) -> Machine:
    container = container_for(plan, env=docker.env)
    assert container is not None
    env = {**docker.env, "SECRET": "not for the trainer", "XSFT_STATE_DIR": str(folder / "state")}
    return replace(in_image(container, env=env, cache=folder / "cache"), now=lambda: "now")


def ran(plan: Plan, docker: Engine, folder: Path) -> LocalResult:
    return run_local(plan, machine=machine(plan, docker, folder), on_event=lambda _: None)


@needs_engine
def test_a_run_in_an_image_has_the_losses_of_a_run_without(docker: Engine, image: str, tmp_path: Path) -> None:
    (tmp_path / "fake").mkdir()
    without = run_local(
        local_plan(tmp_path / "plain", train__steps=6, train__checkpoint_period=2),
        machine=FakeTrainer(folder=tmp_path / "fake").machine(), on_event=lambda _: None,
    )  # fmt: skip
    run_plan = plan_in_image(tmp_path, image)
    within = ran(run_plan, docker, tmp_path)
    assert (within.action, within.outcome, within.exit_status) == ("created", "completed", 0)
    assert (within.losses, within.steps) == (without.losses, without.steps)
    assert [path.name for path in within.checkpoints] == [path.name for path in without.checkpoints]
    assert within.log is not None
    assert "Train loop finished" in within.log.read_text()
    assert within.private_pids
    assert ran(run_plan, docker, tmp_path).action == "finished"


@needs_engine
def test_the_trainer_in_an_image_gets_the_planned_arguments_and_environment(
    docker: Engine, image: str, tmp_path: Path
) -> None:
    run_plan = plan_in_image(tmp_path, image)
    ran(run_plan, docker, tmp_path)
    call = seen_in(tmp_path)
    assert call["argv"][3:] == list(run_plan.trainer_argv[3:])
    assert run_plan.trainer_env.items() <= call["env"].items()
    assert "SECRET" not in call["env"]
    assert call["cwd"] == os.getcwd()
    assert call["env"]["PATH"] != os.environ["PATH"]
    scratch = call["env"]["TMPDIR"]
    assert call["env"]["HOME"] == scratch
    assert not Path(scratch).exists()
    owner = (tmp_path / "out" / "tiny-local" / "checkpoints" / "6" / "_CHECKPOINT_METADATA").stat()
    assert (owner.st_uid, owner.st_gid) == (os.getuid(), os.getgid())


@needs_engine
@pytest.mark.parametrize(
    ("does", "outcome", "says"),
    [
        ({"exit": 3}, "failed", "3"),
        ({"data_ends": 4}, "short", "data"),
    ],
)
def test_a_failed_run_in_an_image_reports_its_reason(
    docker: Engine, image: str, tmp_path: Path, does: dict[str, int], outcome: str, says: str
) -> None:
    result = ran(plan_in_image(tmp_path, image, does=does), docker, tmp_path)
    assert result.outcome == outcome
    assert says in str(result.reason)


@needs_engine
def test_submit_in_an_image_prints_one_document_with_the_result(
    docker: Engine, image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_plan = plan_in_image(tmp_path, image)
    string_io = io.StringIO()
    assert submit_local(run_plan, json=True, machine=machine(run_plan, docker, tmp_path), stderr=string_io) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["result"] == {"steps": 6, "first_loss": 6.9, "last_loss": 6.4}
    assert "6 of 6 steps, loss 6.900 -> 6.400" in string_io.getvalue()


INTERRUPTED = """
import pickle, sys
from pathlib import Path
from xsft.verbs.submit import submit_local
from xsft.launch.local_container import container_for
from xsft.launch.local_machine import in_image
plan, env, cache = pickle.load(open(sys.argv[1], "rb"))
machine = in_image(container_for(plan, env=env), env=env, cache=cache)
sys.exit(submit_local(plan, json=False, machine=machine))
"""


def until_logged(text: str, log: Path) -> None:
    until(lambda: log.exists() and text in log.read_text(), what=f"{text} in {log}")


@needs_engine
@pytest.mark.parametrize("signals", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_in_an_image_resumes_at_the_next_call(
    docker: Engine, image: str, tmp_path: Path, signals: signal.Signals
) -> None:
    run_plan = plan_in_image(tmp_path, image, does={"hang_at": 5})
    env = {**docker.env, "XSFT_STATE_DIR": str(tmp_path / "state")}
    (tmp_path / "asked").write_bytes(pickle.dumps((run_plan, env, tmp_path / "cache")))
    child = subprocess.Popen(
        (sys.executable, "-c", INTERRUPTED, str(tmp_path / "asked")), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    with child:
        until_logged("completed step: 5", tmp_path / "out" / "tiny-local" / "xsft" / "trainer-1.log")
        child.send_signal(signals)
        output, _ = child.communicate(timeout=300)
    assert child.returncode == 130, output
    assert "interrupted after step 5 of 6; the trainer is stopped" in output
    assert docker.api.containers(all=True) == []
    (tmp_path / "does.json").write_text(json.dumps({"seen": str(tmp_path / "out/tiny-local/seen.json")}))
    again = ran(run_plan, docker, tmp_path)
    assert (again.action, again.outcome, again.resumed_from, again.steps) == ("attempt", "completed", 4, 6)


@needs_engine
def test_an_image_with_another_maxtext_is_refused_unless_accepted(
    docker: Engine, base_image: BaseImage, tmp_path: Path
) -> None:
    other = fake_trainer_image(docker, tmp_path / "image", base=base_image.reference, maxtext="0.2.4")
    with pytest.raises(SpecError) as refused:
        container_for(plan_in_image(tmp_path, other), env=docker.env)
    assert [problem.id for problem in refused.value.problems] == ["image-maxtext-differs"]
    accepted = plan_in_image(tmp_path, other, checks={"image-maxtext-differs": "the keys are the same"})
    assert container_for(accepted, env=docker.env) is not None


@needs_engine
def test_an_image_of_an_unreachable_registry_is_unreachable(docker: Engine, tmp_path: Path) -> None:
    for ref in ("127.0.0.1:1/team/none:1", "xsft-tests-nowhere.invalid/none:1"):
        with pytest.raises(Unreachable):
            container_for(plan_in_image(tmp_path, ref), env=docker.env)


def test_an_engine_on_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing) as refused:
        refuse_remote_engine(Engine(host="tcp://10.0.0.1:2376", api=None, env={}))
    assert refused.value.problem_id == "docker-elsewhere"
    refuse_remote_engine(Engine(host="unix:///var/run/docker.sock", api=None, env={}))
