"""An extension changes the files that CONTRIBUTING lists, and no other: each is made in a copy of the repository."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tputypes import SECTION

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[1]
COPIED = ("xsft", "docs", "tests", "workloads", "images", "places.yaml", "pyproject.toml")
WORKLOAD = "workloads/gemma2_ultrachat.yaml"

CHECK = '''"""Check the spelling of a run's name. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.checks.facts import Facts
from xsft.base.problems import Problem, warning
from xsft.spec.base import Keys
from xsft.spec.resolve import Run


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    del keys, facts
    if run.run_name.startswith("gemma2"):
        yield warning("spelling-gemma", "name", "Gemma has no 2.", "Use another name.")
'''
CHECK_TEST = """from tests.checks.factory import ids, spec
from xsft.checks.spelling import check


def test_the_name_is_spelt() -> None:
    assert ids(check, spec(name="gemma2-x")) == {"spelling-gemma"}
    assert ids(check, spec(name="gemma-x")) == set()
"""
ROW = """spelling-gemma = ["warning", "the run's name has a 2"]\n"""

LATE_CHECK = """

def _check_spelling(facts: ClusterFacts) -> Iterator[Problem]:
    if facts.context == "prodd":
        yield SPELLING_CONTEXT.warning("place", "The context is misspelt.", "Use prod.")
"""
LATE_CHECK_TEST = """

def test_the_context_is_spelt() -> None:
    assert [p.id for p in said(facts(context="prodd"))] == ["spelling-context"]
    assert said(facts(context="prod")) == ()
"""
LATE_ROW = 'spelling-context = ["warning", "the context is misspelt"]\n'


class Copy:
    """A copy of the repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            source, to = ROOT / name, folder / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "loss.svg", "status.svg")
                shutil.copytree(source, to, symlinks=True, ignore=ignored)
            else:
                shutil.copy(source, to)

    def call(self, *arguments: str) -> str:
        """Return what `python ARGUMENTS` prints there."""
        env = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        argv = (sys.executable, *arguments)
        done = subprocess.run(argv, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def make_docs(self) -> None:
        self.call("docs/generate.py")

    def run_tests(self, *files: str) -> None:
        self.call("-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", *files)

    def plan(self, *settings: str) -> Any:
        """Return the plan of a workload with settings."""
        options = [word for setting in settings for word in ("--set", setting)]
        return json.loads(self.call("-m", "xsft", "plan", WORKLOAD, "--offline", "--json", *options))["plans"][0]

    def add(self, file: str, text: str, *, after: str = "") -> None:
        """Write a file, or insert the text after the only occurrence of other text."""
        path = self.folder / file
        if not after:
            path.write_text(text, encoding="utf-8")
            return
        before = path.read_text(encoding="utf-8")
        assert before.count(after) == 1, after
        path.write_text(before.replace(after, after + text), encoding="utf-8")

    @contextmanager
    def changed(self) -> Iterator[set[str]]:
        """Yield a set that holds at the end the files that were changed, without those of the interpreter."""
        changed_files, before = set[str](), self._contents()
        yield changed_files
        after = self._contents()
        changed_files.update(file for file in {**before, **after} if before.get(file) != after.get(file))

    def _contents(self) -> dict[str, str]:
        files = (file for file in self.folder.rglob("*") if file.is_file() and not file.is_symlink())
        return {str(file.relative_to(self.folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path / "copy")


def listed(section: str) -> set[str]:
    """Return the files that CONTRIBUTING lists for the extension."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition(f"\n### {section}\n")[2].partition("\n#")[0]
    paragraph = re.search(r"^Files: (.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert paragraph is not None, section
    return set(re.findall(r"`([\w./<>]+\.\w+)`", paragraph[1]))


def test_a_new_launcher_and_tpu_generation_change_only_the_listed_files(copy: Copy) -> None:
    ours = {file: _take(copy, file) for file in ("tests/launcher/second.py", "tests/launcher/test_second.py")}
    with copy.changed() as files:
        for file, text in ours.items():
            copy.add(file, text)
        line = f'{" " * 8}"second": RegisteredLauncher(module="tests.launcher.second"),\n'
        copy.add("xsft/base/targets.py", line, after=f'"very-high"),\n{" " * 8}),\n')
        copy.make_docs()
    assert files == listed("a launcher")
    assert len(files) <= 8
    assert {file for file in files if file.startswith("xsft/")} == {"xsft/base/targets.py"}
    with copy.changed() as files:
        types = "xsft/catalog/tpu_types.toml"
        copy.add(types, (copy.folder / types).read_text(encoding="utf-8") + SECTION)
        copy.make_docs()
    assert files == listed("a TPU generation") == {types}
    rules = (f"name={'a' * 41}", "stages={}", "priority=team.urgent")
    plan = copy.plan("target=second", "tpu.type=v7x-lite-16", *rules)
    assert (plan["target"], plan["xpk_argv"]) == ("second", None)
    assert {row["outcome"] for row in plan["audit"]} == {"landed", "patched"}
    (job,) = plan["manifest"]["spec"]["replicatedJobs"]
    selector = job["template"]["spec"]["template"]["spec"]["nodeSelector"]
    assert selector["cloud.google.com/gke-tpu-accelerator"] == "tpu-v7x-lite-slice"


def test_a_new_trainer_changes_only_the_listed_files(copy: Copy) -> None:
    names = ("second.py", "second_lines.py", "test_second.py")
    ours = {f"tests/trainer/{name}": _take(copy, f"tests/trainer/{name}") for name in names}
    modules = 'answers="tests.trainer.second", lines="tests.trainer.second_lines"'
    with copy.changed() as files:
        for file, text in ours.items():
            copy.add(file, text)
        copy.add(
            "xsft/base/targets.py",
            f', "second": RegisteredTrainer({modules})',
            after='lines="xsft.trainer.maxtext_lines")',
        )
        copy.make_docs()
    assert files == listed("a trainer")
    assert {file for file in files if file.startswith("xsft/")} == {"xsft/base/targets.py"}
    assert "rl.num_generations=4" in copy.plan("trainer=second", "target=local")["trainer_argv"]


def test_a_new_check_changes_only_the_listed_files(copy: Copy) -> None:
    with copy.changed() as files:
        copy.add("xsft/checks/spelling.py", CHECK)
        copy.add("tests/checks/test_spelling.py", CHECK_TEST)
        row = 'release-unknown = ["error", "xsft does not know the release in `image.maxtext`"]\n'
        copy.add("docs/checks.toml", ROW, after=row)
        copy.make_docs()
    assert {file.replace("spelling", "<name>") for file in files} == listed("a check")
    assert len(files - {"docs/checks.md"}) <= 3
    copy.run_tests("tests/checks/test_documented.py", "tests/checks/test_spelling.py")
    assert "spelling-gemma" in {problem["id"] for problem in copy.plan("target=local")["problems"]}


def test_a_new_check_of_a_cluster_changes_only_the_listed_files(copy: Copy) -> None:
    """Only a submission finds its problem; a plan knows that an entry of `checks:` may be for it."""
    module, test = "xsft/checks/admission.py", "tests/checks/test_admission.py"
    with copy.changed() as files:
        declared = 'ADMISSION_UNSEEN = LateProblem(id="admission-unseen")\n'
        copy.add(module, 'SPELLING_CONTEXT = LateProblem(id="spelling-context")\n', after=declared)
        copy.add(module, f"{' ' * 8}*_check_spelling(facts),\n", after=f"{' ' * 8}*_check_priority_class(facts),\n")
        copy.add(module, (copy.folder / module).read_text(encoding="utf-8") + LATE_CHECK)
        copy.add(test, (copy.folder / test).read_text(encoding="utf-8") + LATE_CHECK_TEST)
        row = 'admission-unseen = ["warning", "your login may not read one of the objects of these checks"]\n'
        copy.add("docs/checks.toml", LATE_ROW, after=row)
        copy.make_docs()
    assert {re.sub("(?<=/)(test_)?admission", r"\1<name>", file) for file in files} == listed("a check")
    assert len(files - {"docs/checks.md"}) <= 3
    copy.run_tests("tests/checks/test_documented.py", "tests/base/test_acceptance.py", test)
    problems = copy.plan("target=local", "checks.spelling-context=known", "checks.spelling-name=known")["problems"]
    unused = {reported["where"] for reported in problems if reported["id"] == "checks-unused"}
    assert [name for name in ("context", "name") if f"checks.spelling-{name}" in unused] == ["name"]


def _take(copy: Copy, file: str) -> str:
    """Remove the file from the copy; return its text."""
    text = (copy.folder / file).read_text(encoding="utf-8")
    (copy.folder / file).unlink()
    return text
