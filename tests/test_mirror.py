"""A test file is named after its module, or after the module and a theme: a newcomer finds it by the module's name."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

TESTS = Path(__file__).parent
WHOLE = {"bench", "control_plane", "contract", "engine", "fakes", "failures", "faults", "images", "tools"}
"""Folders whose tests are of no single module."""
OTHERS = {
    "checks/test_all.py": "the list of all checks",
    "checks/test_documented.py": "docs/checks.toml",
    "verbs/test_every_document.py": "every document of --json",
    "verbs/test_runs_here.py": "verbs about runs, on runs of this machine",
    "verbs/test_runs_on_cluster.py": "verbs about runs, on runs of a cluster",
    "verbs/test_servers_on_cluster.py": "verbs about runs, on servers",
    "cluster/test_rights.py": "the rights in docs/guides/clusters.md",
    "importing/test_bad_pastes.py": "the importer as a whole",
    "launcher/test_second.py": "a second launcher",
    "runs/test_documented.py": "docs/states.md",
    "runs/test_messages.py": "the causes of messages.toml",
    "runs/test_skew.py": "states with a skewed clock",
    "trainer/test_second.py": "a second trainer",
}
"""Test files of a package, and what they are about."""


def test_every_test_file_is_named_after_its_module() -> None:
    files = [file.relative_to(TESTS) for file in TESTS.glob("*/**/test_*.py")]
    others = {str(file) for file in files if file.parts[0] not in WHOLE and not _has_module(file)}
    assert others == OTHERS.keys()


def _has_module(file: Path) -> bool:
    """Return whether the name, or the words that it begins with, is that of a module beside it, or of its package."""
    package = TESTS.parent / "xsft" / file.parent
    names = accumulate(file.stem.removeprefix("test_").split("_"), "{}_{}".format)
    return any(
        name == package.name or (package / name).is_dir() or (package / f"{name}.py").is_file() for name in names
    )
