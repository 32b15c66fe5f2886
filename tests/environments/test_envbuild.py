"""Environments are built for real, from a wheel made here, without an index or a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.replacing import replace
from tests.wheels import Shop
from xsft.base.errors import EnvironmentMissing
from xsft.environments import envbuild
from xsft.environments.ask import PROGRAMS
from xsft.environments.envbuild import BuildPlace
from xsft.environments.installed import MARKER, BuiltEnvironment, EnvironmentSpec, find_in, folder_for

pytestmark = pytest.mark.contract

BUILDER = """
import sys
from pathlib import Path
from tests.wheels import Shop
from xsft.environments import envbuild
from xsft.base.errors import XsftError
root, shop = Path(sys.argv[1]), Shop(folder=Path(sys.argv[2]), lock=Path(sys.argv[3]).read_text())
try:
    built = envbuild.build(shop.spec(), shop.place(root), progress=lambda line: print(line, flush=True), verify=False)
    print("AT", built.folder)
except XsftError as problem:
    print("ERROR", type(problem).__name__, problem.message)
print("LEFT", [entry.name for entry in (root / "envs").iterdir() if not entry.name.startswith(".")])
"""


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop.open(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def place(shop: Shop, tmp_path: Path) -> BuildPlace:
    return shop.place(tmp_path)


def build(spec: EnvironmentSpec, place: BuildPlace, *, verify: bool = False) -> tuple[BuiltEnvironment, list[str]]:
    lines: list[str] = []
    return envbuild.build(spec, place, progress=lines.append, verify=verify), lines


def left_over(place: BuildPlace) -> list[str]:
    return [entry.name for entry in place.cache.iterdir() if not entry.name.startswith(".")]


def builders(root: Path, shop: Shop, *, count: int, prefix: tuple[str, ...] = ()) -> list[str]:
    """Return the output of `count` builders that run at the same time."""
    lock = root / "lock.txt"
    lock.write_text(shop.lock)
    argv = (*prefix, sys.executable, "-c", BUILDER, str(root), str(shop.folder), str(lock))
    checkout = Path(__file__).parents[2]
    running = [
        subprocess.Popen(argv, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(count)
    ]
    return [process.communicate(timeout=300)[0] for process in running]


def test_a_built_environment_works_and_is_found_again(shop: Shop, place: BuildPlace) -> None:
    built, lines = build(shop.spec(), place)
    stdout = subprocess.run((built.script("tinything"),), capture_output=True, text=True, check=True).stdout
    assert (stdout, built.version, built.digest) == ("tiny 1.0\n", "1.0", shop.spec().digest)
    assert built == find_in(place.cache, shop.spec())
    assert "1 packages" in lines[0]
    assert build(shop.spec(), place) == (built, [])


def test_another_lock_gives_another_environment(shop: Shop, place: BuildPlace) -> None:
    first, _ = build(shop.spec(), place)
    second, _ = build(shop.spec(lock=f"# another\n{shop.lock}"), place)
    assert first.folder != second.folder
    assert find_in(place.cache, shop.spec()) == first


def test_two_concurrent_builders_build_once(shop: Shop, tmp_path: Path) -> None:
    outputs = builders(tmp_path, shop, count=2)
    assert [text.count("once per machine") for text in outputs] in ([0, 1], [1, 0])
    assert len({line for text in outputs for line in text.splitlines() if line.startswith("AT ")}) == 1


def _without_marker(built: BuiltEnvironment) -> None:
    (built.folder / MARKER).unlink()


def _without_interpreter(built: BuiltEnvironment) -> None:
    built.python.unlink()
    built.python.symlink_to(built.folder / "gone")


def _with_an_interpreter_that_does_not_run(built: BuiltEnvironment) -> None:
    built.python.unlink()
    built.python.write_text("not a program")


def _without_package(built: BuiltEnvironment) -> None:
    shutil.rmtree(next(built.folder.glob("lib/python*/site-packages/tinything")))


def _without_script(built: BuiltEnvironment) -> None:
    built.script("tinything").unlink()


def _with_half_a_marker(built: BuiltEnvironment) -> None:
    (built.folder / MARKER).write_text('{"schema": ')


@pytest.mark.parametrize(
    "damage",
    [
        _without_marker,
        _without_interpreter,
        _with_an_interpreter_that_does_not_run,
        _without_package,
        _without_script,
        _with_half_a_marker,
    ],
)
def test_a_broken_environment_is_not_found_and_built_again(shop: Shop, place: BuildPlace, damage: object) -> None:
    built, _ = build(shop.spec(), place)
    assert callable(damage)
    damage(built)
    assert find_in(place.cache, shop.spec()) is None
    again, lines = build(shop.spec(), place)
    assert lines[0].startswith("building")
    assert envbuild.faults(again, shop.spec(), place) == ()


def test_verify_finds_and_repairs_a_missing_file(shop: Shop, place: BuildPlace) -> None:
    built, _ = build(shop.spec(), place)
    part = next(built.folder.glob("lib/python*/site-packages/tinything/part.py"))
    part.unlink()
    again, lines = build(shop.spec(), place, verify=True)
    assert "broken: tinything: tinything/part.py is gone" in lines
    assert part.is_file()
    assert build(again_spec := shop.spec(), place, verify=True)[0] == again == find_in(place.cache, again_spec)


@pytest.mark.parametrize("series", ["3.11", "3.12", "3.13"])
def test_files_missing_are_found_by_every_python(tmp_path: Path, series: str) -> None:
    """Python 3.12 changed what `importlib.metadata` says about files that are not there."""
    python = envbuild.find_python(series, os.environ)
    if python is None:
        pytest.skip(f"no Python {series} on this machine")
    info = tmp_path / "tinything-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n")
    (info / "RECORD").write_text("tinything-1.0.dist-info/METADATA,,\ntinything/__init__.py,,\n")
    script = f"import sys; sys.path[:] = [{str(tmp_path)!r}, *sys.path]; from runpy import run_path; run_path"
    script += f"({str(PROGRAMS / 'entry.py')!r}, run_name='__main__')"
    question, reply = tmp_path / "question.json", tmp_path / "reply.json"
    question.write_text('{"imports": []}')
    argv = (python, "-I", "-c", script, "xsft.workers.installed_packages", question, reply)
    subprocess.run(argv, check=True)
    assert "tinything: tinything/__init__.py is gone" in json.loads(reply.read_text())


def test_the_settings_of_a_project_around_the_current_folder_are_not_read(
    shop: Shop, place: BuildPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.uv]\nrequired-version = ">=99"\n')
    monkeypatch.chdir(tmp_path)
    built, _ = build(shop.spec(), place)
    assert envbuild.faults(built, shop.spec(), place) == ()


def test_a_wrong_hash_is_refused_and_leaves_nothing(shop: Shop, place: BuildPlace) -> None:
    spec = shop.spec(lock="tinything==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(EnvironmentMissing, match="hash differs from the lock"):
        build(spec, place)
    assert left_over(place) == []


def test_a_missing_network_is_reported_and_leaves_nothing(shop: Shop, place: BuildPlace) -> None:
    env = {name: value for name, value in place.env.items() if name not in {"UV_FIND_LINKS", "UV_NO_INDEX"}}
    with pytest.raises(EnvironmentMissing, match="no answer from the package index") as caught:
        build(shop.spec(), replace(place, env=env))
    assert "xsft setup tiny" in caught.value.fix
    assert left_over(place) == []


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "envs").mkdir()
    shop = Shop.open(tmp_path / "shop", payload=3 * 2**20)
    mount = f'mount -t tmpfs -o size=1m tmpfs "{tmp_path}/envs" && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", mount, "sh")
    if (
        shutil.which("unshare") is None
        or subprocess.run((*prefix, "true"), capture_output=True, check=False).returncode
    ):
        pytest.skip("needs the right to mount a small disk (unshare --mount)")
    (output,) = builders(tmp_path, shop, count=1, prefix=prefix)
    assert "could not be built" in output
    assert "no space left" in output
    assert "LEFT []" in output


def test_a_cache_that_cannot_be_written_is_reported(shop: Shop, place: BuildPlace) -> None:
    place.cache.write_text("a file, not a folder")
    with pytest.raises(EnvironmentMissing, match="could not be written") as caught:
        build(shop.spec(), place)
    assert "XSFT_CACHE_DIR" in caught.value.fix


def test_a_missing_python_is_reported_with_the_fix(shop: Shop, place: BuildPlace) -> None:
    with pytest.raises(EnvironmentMissing, match=r"needs Python 3\.99") as caught:
        build(replace(shop.spec(), pythons=("3.99",)), place)
    assert "install Python 3.99" in caught.value.fix
    assert left_over(place) == []
    assert "UV_PYTHON_INSTALL_MIRROR" in caught.value.fix


@pytest.mark.parametrize("leftover", ["lib/python3.12/site-packages/tinything.py", "pyvenv.cfg"])
def test_what_an_interrupted_build_left_is_replaced(shop: Shop, place: BuildPlace, leftover: str) -> None:
    folder = folder_for(place.cache, shop.spec(), shop.spec().pythons[0])
    (folder / leftover).parent.mkdir(parents=True)
    (folder / leftover).touch()
    built, _ = build(shop.spec(), place)
    assert envbuild.faults(built, shop.spec(), place) == ()
    assert not (folder / "lib/python3.12/site-packages/tinything.py").exists()


def test_an_interrupted_build_leaves_nothing(shop: Shop, place: BuildPlace) -> None:
    def interrupt(line: str) -> None:
        if line.startswith("verifying"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        envbuild.build(shop.spec(), place, progress=interrupt, verify=False)
    assert left_over(place) == []


def test_an_environment_that_cannot_import_its_modules_is_refused(shop: Shop, place: BuildPlace) -> None:
    with pytest.raises(EnvironmentMissing, match=r"import tinything\.absent"):
        build(replace(shop.spec(), imports=("tinything.absent",)), place)
    assert left_over(place) == []
