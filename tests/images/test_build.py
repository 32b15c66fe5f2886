"""The real build files on a real engine, with a lock of small packages from an index that requires a login."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.base import ROOTFS_TAG, BaseImage
from tests.engine.daemon import Engine
from tests.engine.steps import context, found_in_image
from tests.image.materials import recipe
from tests.images.tiny import BUILD, PACKAGES, Index, index, uv_wheel
from xsft.image.code_layer import RECORD, DepsRecord, decode_record
from xsft.image.engine import connect_engine
from xsft.image.failures import FailedRequest, explain_failure
from xsft.image.push import ImageMaker, _build_code
from xsft.machine.paths import own_cache

pytestmark = pytest.mark.engine

LIST = "import importlib.metadata as m; print(sorted(f'{d.name}=={d.version}' for d in m.distributions()))"


@pytest.fixture(scope="module")
def private_index(engine: Engine) -> Iterator[Index]:
    with index(
        engine.gateway, login=f"builder:{secrets.token_hex(16)}", uv=uv_wheel(own_cache() / "tests-engine")
    ) as running:
        yield running


@pytest.fixture(scope="module")
def folder(engine: Engine) -> Path:
    file = engine.folder / "tiny"
    file.mkdir()
    return file


@pytest.fixture(scope="module")
def deps(engine: Engine, base_image: BaseImage, private_index: Index, folder: Path) -> str:
    """A deps image of the tiny lock, built by the real Dockerfile with the index's login as a secret.

    Without the cache, which has that lock where other tests built it.
    """
    return build_deps(engine, base_image, private_index, folder, "--no-cache", tag="tiny:deps")


def test_login_of_the_index_is_used_and_is_in_no_layer_or_history(
    engine: Engine, private_index: Index, deps: str, tmp_path: Path, folder: Path
) -> None:
    assert [path for path, is_authorized in private_index.asked if is_authorized and path.endswith(".whl")]
    marker = secrets.token_hex(16)
    code = build_code(engine, tmp_path, deps, {"code/mine.py": f"# {marker}\n"})
    user, _, password = private_index.login.partition(":")
    needles = [password, base64.b64encode(private_index.login.encode()).decode(), private_index.url.partition("//")[2]]
    places = found_in_image(engine, code, [*needles, marker], folder=folder)
    assert places == [marker], "the search finds what is there"
    history = engine.docker("history", "--no-trunc", code).stdout
    assert "pip_conf" in history
    assert [needle for needle in (*needles, user) if needle in history] == []


def test_build_without_the_login_fails(
    engine: Engine, base_image: BaseImage, private_index: Index, folder: Path
) -> None:
    conf = folder / "without.conf"
    conf.write_text(private_index.pip_conf().replace(f"{private_index.login}@", ""), encoding="utf-8")
    argv = deps_argv(base_image, conf, tag="tiny:no")
    failed = engine.docker(*argv, "--no-cache", str(deps_context(private_index, folder)), check=False)
    assert failed.returncode != 0
    assert "401" in failed.stderr or "User for" in failed.stderr


def test_another_login_is_not_tried_for_cached_steps(
    engine: Engine, base_image: BaseImage, private_index: Index, deps: str, folder: Path
) -> None:
    """docs/guides/images.md says so: a secret is no part of what BuildKit knows a step by."""
    conf = folder / "other.conf"
    conf.write_text(private_index.pip_conf().replace(private_index.login, "somebody:else"), encoding="utf-8")
    before = len(private_index.asked)
    engine.docker(*deps_argv(base_image, conf, tag="tiny:cached"), str(deps_context(private_index, folder)))
    assert len(private_index.asked) == before
    assert layers(engine, "tiny:cached") == layers(engine, deps)


def test_two_builds_of_one_lock_have_identical_package_layers(
    engine: Engine, base_image: BaseImage, private_index: Index, deps: str, folder: Path
) -> None:
    again = build_deps(engine, base_image, private_index, folder, "--no-cache", tag="tiny:again")
    assert image_id(engine, again) != image_id(engine, deps)
    assert "'maxtext==9.9'" in run(engine, again, LIST)
    first, second = (installed_layers(engine, image, base_image) for image in (deps, again))
    assert len(set(first)) == 3
    assert first == second


@pytest.mark.parametrize(("package", "number"), [("libtpu", 1), ("scipy", 2), ("maxtext", 3)])
def test_changed_row_changes_only_its_own_layer(
    engine: Engine, base_image: BaseImage, private_index: Index, deps: str, folder: Path, package: str, number: int
) -> None:
    newer = build_deps(engine, base_image, private_index, folder, tag=f"tiny:{package}", newer=package)
    assert run(engine, newer, f"import importlib.metadata as m; print(m.version('{package}'))") == "9.10"
    pairs = zip(*(installed_layers(engine, image, base_image) for image in (deps, newer)), strict=True)
    assert [before != after for before, after in pairs] == [position == number for position in (1, 2, 3)]


def test_byte_code_is_loaded_without_checking_its_source(engine: Engine, deps: str) -> None:
    """PEP 552: the flags after the magic number; 1 is a hash that is not checked."""
    code = "import libtpu.chip as c; print(open(c.__cached__, 'rb').read()[4:8])"
    assert run(engine, deps, code) == repr(b"\x01\x00\x00\x00")


def test_the_last_layer_records_the_lock_and_what_is_installed(
    engine: Engine, deps: str, private_index: Index, base_image: BaseImage
) -> None:
    record = record_of(engine, deps)
    assert record.lock_sha256 == hashlib.sha256(private_index.lock().encode()).hexdigest()
    assert record.packages["maxtext"]["train.py"] == hashlib.sha256(b"LOSS = 2\n").hexdigest()
    assert run(engine, deps, "import maxtext; print(maxtext.__file__)") == f"/{record.site}/maxtext/__init__.py"
    assert 0 < last_layer_bytes(engine, deps) < 10_000


def test_a_changed_line_of_a_fork_is_one_file_and_its_byte_code_is_not_the_old_one(
    engine: Engine, deps: str, tmp_path: Path
) -> None:
    fork = {name: text for name, text in PACKAGES["maxtext"].items() if name != "maxtext/train.py"}
    images = [
        build_code(engine, tmp_path / name, deps, {**fork, "maxtext/train.py": f"LOSS = {name}\n"}) for name in "21"
    ]
    assert [run(engine, image, "import maxtext.train as t; print(t.LOSS)") for image in images] == ["2", "1"]
    assert run(engine, images[1], "import maxtext.train as t; print(t.LOSS)", user="12345:12345") == "1"
    unforked = build_code(engine, tmp_path / "none", deps, fork)
    assert run(engine, unforked, "import importlib.util as u; print(u.find_spec('maxtext.train'))") == "None"
    old, new = (layers(engine, image) for image in images)
    assert old[: len(layers(engine, deps))] == layers(engine, deps) == new[: len(layers(engine, deps))]
    assert 0 < added_bytes(engine, images[1], deps) < 10_000 < len(fork["maxtext/large.py"])


def test_code_fork_and_tunix_can_be_imported_and_the_labels_stay(engine: Engine, deps: str, tmp_path: Path) -> None:
    files = {"code/mine/__init__.py": "X = 5\n", "maxtext/__init__.py": "", "maxtext/own.py": "Y = 6\n"}
    image = build_code(engine, tmp_path, deps, {**files, "tunix/__init__.py": "Z = 7\n"})
    assert run(engine, image, "import mine, maxtext.own, tunix; print(mine.X, maxtext.own.Y, tunix.Z)") == "5 6 7"
    assert labels(engine, deps) == {
        "org.opencontainers.image.title": "xsft post-training",
        "org.opencontainers.image.base.name": "xsft-tests-base",
    }
    tag = image.rpartition(":")[2]
    assert labels(engine, image) == {**labels(engine, deps), "dev.xsft.kind": "code", "dev.xsft.tag": tag}


def test_a_base_without_python_is_reported_at_once(
    engine: Engine, base_image: BaseImage, private_index: Index, folder: Path
) -> None:
    without = BaseImage(reference=ROOTFS_TAG, pip_conf=base_image.pip_conf)
    context = deps_context(private_index, folder)
    failed = engine.docker(*deps_argv(without, folder / "pip.conf", tag="tiny:no"), str(context), check=False)
    assert failed.returncode != 0
    error = explain_failure(failed.stderr, FailedRequest(what="build", stage="build"))
    assert error.problem_id == "base-without-python"


def installed_layers(engine: Engine, image: str, base: BaseImage) -> list[str]:
    """Digests of the three that install: behind the base's, and three for Debian's packages, /etc and the folders."""
    return layers(engine, image)[len(layers(engine, base.reference)) + 3 :][:3]


def build_deps(
    engine: Engine, base: BaseImage, index: Index, folder: Path, *options: str, tag: str, newer: str = ""
) -> str:
    conf = folder / "pip.conf"
    conf.write_text(index.pip_conf(), encoding="utf-8")
    engine.docker(*deps_argv(base, conf, tag=tag), *options, str(deps_context(index, folder, newer=newer)))
    return tag


def deps_argv(base: BaseImage, pip_conf: Path, *, tag: str) -> tuple[str, ...]:
    return ("build", "-t", tag, "--secret", f"id=pip_conf,src={pip_conf}", f"--build-arg=BASE_IMAGE={base.reference}")


def deps_context(index: Index, folder: Path, *, newer: str = "") -> Path:
    context = folder / "context"
    context.mkdir(exist_ok=True)
    for name in ("Dockerfile", "install.py", "installer.txt"):
        shutil.copy(BUILD / name, context)
    (context / "requirements.txt").write_text(index.lock(newer=newer), encoding="utf-8")
    return context


def build_code(engine: Engine, folder: Path, deps: str, files: dict[str, str]) -> str:
    """Lay the files over `deps` as `xsft image build` does; return the image's name."""
    docker = connect_engine(engine.env)
    start_recipe = recipe(code=context(folder, files))
    docker.tag(deps, repository="localhost/xsft/post-training", tag=start_recipe.deps.tag)
    _build_code(docker, start_recipe, ImageMaker(images=folder, env=engine.env))
    return start_recipe.local(start_recipe.code.tag)


def record_of(engine: Engine, image: str) -> DepsRecord:
    record = decode_record(connect_engine(engine.env).read_file(image, f"/{RECORD}") or b"")
    assert record
    return record


def last_layer_bytes(engine: Engine, image: str) -> int:
    return int(engine.docker("history", "--human=false", "--format", "{{.Size}}", image).stdout.split()[0])


def run(engine: Engine, image: str, code: str, *, user: str = "0:0") -> str:
    return engine.docker("run", "--rm", "--user", user, image, "python3", "-c", code).stdout.strip()


def layers(engine: Engine, image: str) -> list[str]:
    return list(json.loads(engine.docker("inspect", image, "--format", "{{json .RootFS.Layers}}").stdout))


def labels(engine: Engine, image: str) -> dict[str, str]:
    return dict(json.loads(engine.docker("inspect", image, "--format", "{{json .Config.Labels}}").stdout))


def image_id(engine: Engine, image: str) -> str:
    return engine.docker("inspect", image, "--format", "{{.Id}}").stdout.strip()


def added_bytes(engine: Engine, image: str, deps: str) -> int:
    """Bytes of the layers over `deps`."""
    sizes, under = (
        engine.docker("history", "--human=false", "--format", "{{.Size}}", name).stdout.split()
        for name in (image, deps)
    )
    return sum(map(int, sizes[: len(sizes) - len(under)]))
