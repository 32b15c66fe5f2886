"""Fixtures for every test. What is not here is skipped, loudly: tests/run.py counts it with its reason."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import warm
from tests.contract.commandline import here, without_hub
from tests.control_plane.fixtures import chip, cluster_namespace, cluster_tools, real_cluster
from tests.engine.fixtures import bad_proxy, base_image, deps_image, engine, engine_slot, registry, registry_server
from tests.fakes.clusters import ClusterApi, cluster_api, pytest_generate_tests, standing_in
from tests.fakes.gcs import bucket
from tests.goldens import Golden
from tests.ids import pytest_make_parametrize_id
from tests.localruns import private_pids, trainer_machine, warm_machine
from tests.maxtext import PARSER, PARSERS, Worker, kept_answers, worker
from tests.pipeline import ROWS, Pipeline
from tests.run import NAMED_BY
from tests.tputypes import new_generation
from tests.tunedmodels import memorised
from tests.userfolders import files_naming, user_folders
from xsft.environments import environments
from xsft.environments.installed import BuiltEnvironment

for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:  # under nohup, or behind `&` in a script: what tests start inherits
        signal.signal(_number, _usual)

# A busy machine is no failure, and examples may share a fixture. `--hypothesis-profile=thorough` draws more of them.
SUPPRESSED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)
for _profile, _examples in (("thorough", 1000), ("xsft", 50)):
    settings.register_profile(_profile, deadline=None, max_examples=_examples, suppress_health_check=SUPPRESSED)
settings.load_profile("xsft")

# fixtures that live beside what they start
__all__ = [
    "bad_proxy",
    "base_image",
    "bucket",
    "chip",
    "cluster_api",
    "cluster_namespace",
    "cluster_tools",
    "deps_image",
    "engine",
    "engine_slot",
    "here",
    "memorised",
    "new_generation",
    "private_pids",
    "pytest_generate_tests",
    "pytest_make_parametrize_id",
    "real_cluster",
    "registry",
    "registry_server",
    "trainer_machine",
    "warm_machine",
    "without_hub",
]

# Read once, before any fixture empties the environment that a test sees.
_NAMED = {name: os.environ.get(f"XSFT_TEST_{name.upper()}_PYTHON") for name in environments.NAMES}


@pytest.fixture(autouse=True, scope="session")
def _folders_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests, and the processes they start, from the user's index of runs and places; fail if one wrote there."""
    users = user_folders(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XSFT_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.setenv(
            "HF_ENDPOINT", "http://127.0.0.1:9"
        )  # a check asks the hub; here the connection is refused at once
        yield
    written = files_naming(tmp_path_factory.getbasetemp(), users)
    assert not written, f"tests wrote into the user's own folders: {written}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/ anew; read the diff afterwards")
    files = {"type": lambda text: frozenset(text.split(",")), "default": frozenset()}
    parser.addoption("--only-files", **files, help="the test files to collect, with commas (tests/run.py)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    only = config.getoption("only_files")
    unnamed = only and collection_path.suffix == ".py" and str(collection_path.relative_to(Path.cwd())) not in only
    return True if unnamed else None  # None: as pytest does


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without the garbage collector, which would look at all tests again and again, now and during each test. Later
    it runs less often: with Python's threshold of 700 objects it and its hook of hypothesis take 5 % of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test whose stage would not find its file (tests/run.py)."""
    words = {path: path.read_text() for path in {item.path for item in items}}
    for item in items:
        for stage, named in NAMED_BY.items():
            if item.get_closest_marker(stage) and not any(word in words[item.path] for word in named):
                raise pytest.UsageError(f"{item.nodeid} has the marker {stage}; write one of {named} into its file")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(update=request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def xpk_environment() -> BuiltEnvironment:
    """The real, pinned xpk. Built by `make test`, never by a test."""
    return _built("xpk")


@pytest.fixture(scope="session")
def maxtext_environment() -> BuiltEnvironment:
    """The real, pinned MaxText. Built by `make test` where a Python >= 3.12 is here."""
    return _built("maxtext")


@pytest.fixture(scope="session")
def warm_cache(maxtext_environment: BuiltEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder whose MaxText is imported already (tests/warm.py)."""
    with warm.cache_of(maxtext_environment, tmp_path_factory.mktemp("warm")) as cache:
        yield cache


@pytest.fixture(scope="session")
def warm_python(warm_cache: Path, maxtext_environment: BuiltEnvironment) -> Path:
    """Return the environment's interpreter."""
    return warm_cache / "envs" / maxtext_environment.folder.name / "bin" / "python"


@pytest.fixture
def warm_maxtext(warm_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """xsft's verbs in this process find that MaxText."""
    monkeypatch.setenv("XSFT_CACHE_DIR", str(warm_cache))


@pytest.fixture(scope="session")
def inference_engine() -> BuiltEnvironment:
    """The real, pinned mlx-lm. Built by `make test` where a Python >= 3.12 is here."""
    return _built("engine")


@pytest.fixture(scope="session")
def tpu_compiler() -> BuiltEnvironment:
    """The real, pinned libtpu with MaxText. Built by `make test` on Linux x86-64."""
    return _built("compiler")


@pytest.fixture(scope="session")
def xpk_python() -> Path:
    """The interpreter of xpk's environment: the one that XSFT_TEST_XPK_PYTHON names, else the built one."""
    return _python("xpk")


@pytest.fixture(scope="session")
def maxtext_python() -> Path:
    """The interpreter of MaxText's environment: the one that XSFT_TEST_MAXTEXT_PYTHON names, else the built one."""
    return _python("maxtext")


@pytest.fixture(scope="session")
def maxtext_pipeline(maxtext_python: Path) -> Iterator[Pipeline]:
    """The rows that the pinned MaxText's input pipeline gives the trainer; one process for all tests."""
    with worker(maxtext_python, ROWS) as started:
        yield Pipeline(worker=started)


@pytest.fixture(scope="session")
def maxtext(maxtext_python: Path) -> Iterator[Worker]:
    """Start one MaxText process that answers all tests: what it makes of command lines, and the models it builds."""
    with worker(maxtext_python, PARSER, kept=kept_answers(maxtext_python, *PARSERS)) as started:
        yield started


def _python(name: str) -> Path:
    named = _NAMED[name]
    return Path(named) if named else _built(name).python


def _built(name: str) -> BuiltEnvironment:
    built_environment = environments.find_environment(name)
    if built_environment is None:
        pytest.skip(f"the {name} environment is not built: `xsft setup {name}`, or `xsft doctor` for what is missing")
    return built_environment


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterApi]:
    """The stand-in, as the cluster of this folder's kubeconfig."""
    with standing_in(tmp_path) as standin:
        monkeypatch.setenv("KUBECONFIG", str(standin.kubeconfig))
        monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
        monkeypatch.chdir(tmp_path)
        yield standin
