"""`xsft image` against a real engine and a real registry: made once, pushed once, pinned by what the registry has."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.contract.imagelab import Project, project
from tests.documents import read_document
from tests.engine.badproxy import BadProxy, Fault
from tests.engine.base import BaseImage
from tests.engine.daemon import Engine
from tests.engine.registryserver import Registry
from tests.stories import ROOT
from tests.until import until

pytestmark = pytest.mark.engine

LAYER = r"^(POST|PATCH|PUT) /v2/.*/blobs/uploads"
UPLOAD = r"^PATCH /v2/.*/blobs/uploads"
WITHIN_S = 60.0


@pytest.fixture
def small(engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    return project(tmp_path, engine, salt=request.node.name)


def repository(registry: Registry, *, at: str = "") -> str:
    """Return a repository for --registry; the image is pushed below it."""
    return f"{at or registry.address}/{registry.repository}"


def bytes_of(registry: Registry, tag: str) -> dict[str, int]:
    small = Registry(registry.address, f"{registry.repository}/small")
    return small.layers(tag)


def described(document: dict[str, Any]) -> dict[str, Any]:
    read_document("image", document)
    return document


def test_a_push_builds_missing_images_and_locks_the_digest_of_the_registry(
    small: Project, registry: Registry, engine: Engine
) -> None:
    images = described(small.image("push", f"--registry={repository(registry)}"))
    assert [images["deps"]["outcome"], images["code"]["outcome"]] == ["built", "built"]
    images_there = Registry(registry.address, f"{registry.repository}/small")
    assert sorted(images_there.tags()) == sorted([images["code"]["tag"], images["deps"]["tag"]])
    digest = images_there.digest(images["code"]["tag"])
    name = f"{repository(registry)}/small"
    assert images["ref"] == f"{name}@{digest}"
    assert small.locked()[name]["digest"] == digest
    engine.docker("rmi", "--force", f"{name}:{images['code']['tag']}", f"localhost/xsft/small:{images['code']['tag']}")
    engine.docker("pull", images["ref"])
    labels = json.loads(engine.docker("inspect", "--format", "{{json .Config.Labels}}", images["ref"]).stdout)
    assert labels["dev.xsft.kind"] == "code"
    assert labels["dev.xsft.maxtext.version"] == "0.2.5"


def test_a_second_push_sends_nothing_writes_nothing_and_needs_no_engine(
    small: Project, registry: Registry, bad_proxy: BadProxy
) -> None:
    where = f"--registry={repository(registry, at=bad_proxy.address)}"
    first = small.image("push", where)
    before = small.lock.stat().st_mtime_ns
    bad_proxy.seen.clear()
    no_engine = {"DOCKER_HOST": f"unix://{small.folder}/none.sock"}
    second = described(small.image("push", where, env=no_engine))
    assert (second["pushed"], second["ref"]) == (False, first["ref"])
    assert bad_proxy.sent() == 0
    assert small.lock.stat().st_mtime_ns == before


def test_a_one_line_change_pushes_kilobytes(small: Project, registry: Registry, bad_proxy: BadProxy) -> None:
    where = f"--registry={repository(registry, at=bad_proxy.address)}"
    first = small.image("push", where)
    layer_bytes = bad_proxy.sent(LAYER)
    bad_proxy.seen.clear()
    (small.folder / "extra" / "hooks.py").write_text("print(2)\n", encoding="utf-8")
    second = small.image("push", where)
    assert second["deps"]["tag"] == first["deps"]["tag"]
    assert [second["deps"]["outcome"], second["code"]["outcome"]] == ["in-registry", "built"]
    assert layer_bytes > 100_000
    assert 0 < bad_proxy.sent(LAYER) < 10_000
    assert second["sent_bytes"] == bad_proxy.sent()
    assert len(bad_proxy.seen) <= 15
    shared = bytes_of(registry, first["code"]["tag"]).keys() & bytes_of(registry, second["code"]["tag"]).keys()
    assert shared > bytes_of(registry, first["deps"]["tag"]).keys(), "and the programs of xsft"


def test_a_change_that_is_taken_back_is_neither_built_nor_pushed(small: Project, registry: Registry) -> None:
    where = f"--registry={repository(registry)}"
    first = small.image("push", where)
    file = small.folder / "extra" / "hooks.py"
    file.write_text("print(2)\n", encoding="utf-8")
    small.image("push", where)
    file.write_text("print(1)\n", encoding="utf-8")
    third = small.image("push", where)
    assert (third["pushed"], third["ref"]) == (False, first["ref"])
    assert small.locked()[f"{repository(registry)}/small"]["digest"] == first["lock"]["digest"]


def test_a_machine_without_an_engine_pushes_a_change_on_the_dependencies_of_the_registry(
    small: Project, registry: Registry, engine: Engine
) -> None:
    where = f"--registry={repository(registry)}"
    small.image("push", where)
    (small.folder / "extra" / "hooks.py").write_text("print(3)\n", encoding="utf-8")
    second = small.image("push", where, env={"DOCKER_HOST": "none"})
    assert [second["deps"]["outcome"], second["code"]["outcome"]] == ["in-registry", "built"]
    elsewhere = small.image("push", where)
    assert (elsewhere["pushed"], elsewhere["ref"]) == (False, second["ref"]), "the same files, the same digest"


def test_a_build_pulls_the_dependencies_from_the_registry(small: Project, registry: Registry, engine: Engine) -> None:
    where = f"--registry={repository(registry)}"
    first = small.image("push", where)
    names = [f"{prefix}/small" for prefix in ("localhost/xsft", repository(registry))]
    engine.docker("rmi", "--force", *(f"{name}:{first['deps']['tag']}" for name in names))
    built = small.image("build", where)
    assert [built["deps"]["outcome"], built["code"]["outcome"]] == ["pulled", "built"]


def other_image(engine: Engine, *names: str, labels: dict[str, str] | None = None) -> None:
    """Push an image that is not ours under each of the names."""
    dockerfile = "".join(["FROM scratch\n", *(f'LABEL {k}="{v}"\n' for k, v in (labels or {}).items())])
    for name in names:
        engine.docker("build", "-t", name, "-", input=dockerfile.encode())
        engine.docker("push", name)


@pytest.mark.parametrize(("part", "labelled"), [("code", False), ("code", True), ("deps", False), ("deps", True)])
def test_another_image_under_our_tag_is_neither_recorded_nor_overwritten(
    small: Project, registry: Registry, engine: Engine, part: str, labelled: bool
) -> None:
    """Whoever may push can copy every label."""
    where = f"--registry={repository(registry)}"
    shown = small.image("show", where)
    tag = shown[part]["tag"]
    lock = hashlib.sha256((small.folder / "images" / "small" / "requirements.txt").read_bytes()).hexdigest()
    labels = {
        "dev.xsft.kind": part,
        "dev.xsft.image": "small",
        "dev.xsft.maxtext.version": "0.2.5",
        "dev.xsft.lock.sha256": lock,
        "dev.xsft.tag": tag,
    }
    if part == "code":
        small.image("push", where)
        small.lock.unlink()
    other_image(engine, f"{repository(registry)}/small:{tag}", labels=labels if labelled else None)
    images_there = Registry(registry.address, f"{registry.repository}/small")
    digest = images_there.digest(tag)
    done = small.xsft("image", "push", "--image=small", "--code=extra", where, "--json")
    assert done.returncode == 4, done.stderr
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["id"] == "image-foreign"
    assert f"small:{tag} in the registry is another image ({digest})" in problem["message"]
    assert not small.lock.exists()
    assert images_there.digest(tag) == digest
    images = small.image("build", where)
    assert images["code"]["outcome"] == "built"
    assert images["deps"]["outcome"] == ("held" if part == "code" else "built")


def test_code_is_laid_on_the_locked_digest_of_the_dependencies_even_if_their_tag_moved(
    small: Project, registry: Registry, engine: Engine
) -> None:
    where, name = f"--registry={repository(registry)}", f"{repository(registry)}/small"
    first = small.image("push", where)
    deps_digest = small.locked()[name]["deps_digest"]
    images_there = Registry(registry.address, f"{registry.repository}/small")
    assert deps_digest == images_there.digest(first["deps"]["tag"])
    other_image(engine, f"{name}:{first['deps']['tag']}")
    (small.folder / "extra" / "hooks.py").write_text("print(6)\n", encoding="utf-8")
    second = small.image("push", where)
    assert [second["deps"]["outcome"], second["code"]["outcome"]] == ["in-registry", "built"]
    assert small.locked()[name]["deps_digest"] == deps_digest
    layers = images_there.layers(second["code"]["tag"]).keys()
    assert images_there.layers(deps_digest).keys() < layers, (
        "it is built on the dependencies, and not on what has their tag"
    )


def test_another_image_under_our_tag_in_the_engine_is_created_again(small: Project, engine: Engine) -> None:
    tags = {part: small.image("show")[part]["tag"] for part in ("deps", "code")}
    for tag in tags.values():
        engine.docker("build", "-t", f"localhost/xsft/small:{tag}", "-", input=b"FROM scratch\nLABEL a=b\n")
    images = small.image("build")
    assert [images["deps"]["outcome"], images["code"]["outcome"]] == ["built", "built"]
    for part, tag in tags.items():
        labels = engine.docker("inspect", "--format", "{{json .Config.Labels}}", f"localhost/xsft/small:{tag}").stdout
        assert json.loads(labels)["dev.xsft.kind"] == part


def test_the_first_push_prints_the_digest_of_its_base_which_later_ones_use(
    small: Project, registry: Registry, engine: Engine
) -> None:
    """The line pins the base for everybody once it is in the Dockerfile; until then the last push does."""
    name, push = registry.reference("base"), ("push", f"--registry={repository(registry)}")
    dockerfile = small.folder / "images" / "small" / "Dockerfile"
    text = dockerfile.read_text(encoding="utf-8").replace("FROM scratch\n", "FROM ${BASE_IMAGE}\n")
    dockerfile.write_text(f"ARG BASE_IMAGE={name}\n{text}", encoding="utf-8")
    other_image(engine, name)
    pinned = f"{name}@{registry.digest('base')}"
    first = small.xsft("image", *push, "--image=small", "--code=extra", "--json")
    assert (first.returncode, json.loads(first.stdout)["base"]) == (0, pinned), first.stderr
    assert f"pin it in images/small/Dockerfile: ARG BASE_IMAGE={pinned}" in first.stderr
    other_image(engine, name, labels={"another": "one"})
    assert registry.digest("base") not in pinned
    assert small.image(*push)["base"] == pinned
    moved = small.image(*push, "--update-base")["base"]
    assert moved == small.image(*push)["base"] == f"{name}@{registry.digest('base')}"
    dockerfile.write_text(f"ARG BASE_IMAGE={pinned}\n{text}", encoding="utf-8")
    assert small.image(*push)["base"] == pinned
    assert small.image(*push, f"--base={moved}")["base"] == small.image(*push)["base"] == moved


def test_two_simultaneous_pushes_both_succeed(small: Project, registry: Registry) -> None:
    arguments = ("image", "push", "--image=small", "--code=extra", f"--registry={repository(registry)}", "--json")
    both = [small.start(*arguments) for _ in range(2)]
    outputs = [running.communicate(timeout=WITHIN_S * 3) for running in both]
    assert [running.returncode for running in both] == [0, 0], outputs
    (locked,) = small.locked().values()
    images_there = Registry(registry.address, f"{registry.repository}/small")
    assert images_there.digest(locked["digest"]) == locked["digest"]
    assert locked["digest"] in {json.loads(out)["lock"]["digest"] for out, _ in outputs}


def test_a_registry_that_refuses_leaves_no_lock_and_says_what_to_do(
    small: Project, registry: Registry, bad_proxy: BadProxy
) -> None:
    bad_proxy.login = "someone:else"
    where = f"--registry={repository(registry, at=bad_proxy.address)}"
    done = small.xsft("image", "push", "--image=small", where, "--json")
    assert done.returncode == 5, done.stderr
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["id"] == "registry-login-missing"
    assert "docker login" in problem["fix"]
    assert not small.lock.exists()


def test_ctrl_c_while_the_image_is_pushed_leaves_no_half_made_lock(
    small: Project, registry: Registry, bad_proxy: BadProxy
) -> None:
    """Every upload is refused with a pause, so that it is always in the middle."""
    bad_proxy.faults.append(Fault(on=UPLOAD, code=503, times=10_000))
    where = f"--registry={repository(registry, at=bad_proxy.address)}"
    running = small.start("image", "push", "--image=small", where)
    until(lambda: bad_proxy.count(UPLOAD) or running.poll() is not None, what="an upload", within_s=WITHIN_S)
    running.send_signal(signal.SIGINT)
    _, output = running.communicate(timeout=WITHIN_S)
    assert running.returncode == 130, output
    assert "Traceback" not in output
    assert sorted(path.name for path in (small.folder / "images").iterdir()) == ["small"]
    bad_proxy.faults.clear()
    assert small.image("push", where)["pushed"] is True


def test_build_without_an_engine_prints_a_command_as_fix(small: Project, registry: Registry) -> None:
    nowhere = {"DOCKER_HOST": f"unix://{small.folder}/none.sock"}
    done = small.xsft("image", "build", "--image=small", "--json", env=nowhere)
    assert done.returncode == 3, done.stderr
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["id"] == "docker-not-running"
    assert "systemctl start docker" in problem["fix"]


def test_show_tells_whether_the_lock_has_the_image_of_the_files_here(small: Project, registry: Registry) -> None:
    where = f"--registry={repository(registry)}"
    before = described(small.image("show", where))
    assert (before["lock"], before["ref"], before["images"]) == (None, None, None)
    assert [entry["path"] for entry in before["code"]["largest"]] == ["xsft/evaluate.zip", "code/hooks.py"]
    small.image("push", where)
    after = described(small.image("show", where))
    assert after["lock"]["current"] is True
    listed = small.xsft("image", "list", "--image=small", "--json")
    assert (listed.returncode, "`xsft image show`" in listed.stdout) == (2, True)
    (small.folder / "extra" / "hooks.py").write_text("print(4)\n", encoding="utf-8")
    assert small.image("show", where)["lock"]["current"] is False


def test_a_workload_runs_the_digest_of_the_lock_and_reports_a_change(
    small: Project, registry: Registry, engine: Engine
) -> None:
    story = (ROOT / "workloads" / "qwen3_gsm8k.yaml").read_text(encoding="utf-8").replace("post_training", "small")
    workload = small.folder / "w.yaml"
    workload.write_text(story, encoding="utf-8")
    place = "{project: my-project, zone: us-east5-b, cluster: c, output: 'gs://my-bucket/r', registry: REGISTRY}"
    (small.folder / "places.yaml").write_text(
        f"main: {place.replace('REGISTRY', repository(registry))}\n", encoding="utf-8"
    )
    assert "image-not-pushed" in checked(small, workload)
    small.image("push", "--place=main")
    assert checked(small, workload) & {"image-not-pushed", "image-not-pinned", "image-stale"} == set()
    (small.folder / "extra" / "hooks.py").write_text("print(5)\n", encoding="utf-8")
    assert "image-stale" in checked(small, workload)


def checked(small: Project, workload: Path) -> set[str]:
    """Reading a lock needs no engine."""
    nowhere = {"DOCKER_HOST": f"unix://{small.folder}/none.sock"}
    done = small.xsft("check", str(workload), "--json", env=nowhere)
    return {problem["id"] for problem in json.loads(done.stdout)["problems"]}


INSTALL = """\
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY maxtext /usr/local/lib/python3.12/site-packages/maxtext
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /usr/local/lib/python3.12/site-packages/maxtext
COPY install.py requirements.txt /run/
RUN mkdir -p /usr/share/xsft && python3 /run/install.py record /run/requirements.txt /usr/share/xsft/deps.json
"""
LOOK = """
import importlib.util, json, pathlib
root = pathlib.Path(importlib.util.find_spec("maxtext").submodule_search_locations[0])
files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
print(json.dumps({str(path.relative_to(root)): path.read_text() for path in files}))
"""


def test_a_fork_is_in_the_image_whole_though_only_what_differs_is_sent(
    engine: Engine, base_image: BaseImage, registry: Registry, tmp_path: Path, bad_proxy: BadProxy
) -> None:
    installed = {"__init__.py": "", "same.py": "# same\n" * 9, "changed.py": "X = 1\n", "gone.py": "", "data.bin": "d"}
    fork = {
        "__init__.py": "",
        "same.py": "# same\n" * 9,
        "changed.py": "X = 2\n",
        "new/b.py": "Y = 1\n",
        "data.bin": "d",
    }
    made = project(tmp_path, engine, salt="fork")
    folder = tmp_path / "images" / "small"
    shutil.copy(ROOT / "images" / "post_training" / "install.py", folder)
    (folder / "Dockerfile").write_text(INSTALL, encoding="utf-8")
    lay(folder / "maxtext", installed)
    lay(tmp_path / "fork" / "src" / "maxtext", fork)
    where = f"--registry={repository(registry, at=bad_proxy.address)}"
    pushed = made.image("push", where, f"--base={base_image.reference}", "--maxtext-source=fork")
    built = made.image("build")
    assert pushed["deps"]["tag"] == built["deps"]["tag"], "the options of the push are repeated"
    for image in (pushed["ref"], f"localhost/xsft/small:{built['code']['tag']}"):
        assert json.loads(engine.docker("run", "--rm", image, "python3", "-c", LOOK).stdout) == fork
        ran = engine.docker("run", "--rm", image, "python3", "-c", "import maxtext.changed as c; print(c.X)")
        assert ran.stdout == "2\n", "the byte code of the installed file is gone"
    bad_proxy.seen.clear()
    lay(tmp_path / "fork" / "src" / "maxtext", {"changed.py": "X = 3\n"})
    again = made.image("push", where, env={"DOCKER_HOST": "none"})
    assert bad_proxy.sent() < 10_000
    assert len(bad_proxy.seen) <= 15
    assert engine.docker("run", "--rm", again["ref"], "python3", "-c", LOOK).stdout.count("X = 3") == 1


def lay(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
