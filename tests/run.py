"""Runs all tests, the quick ones first; a red stage ends the run. The last lines count tests not run, with reasons."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from xsft.machine.paths import own_cache

NO_TOOLS = "not contract and not maxtext and not cluster and not engine and not trainer"
STAGES = {
    "quick": f"not (loopback and not early) and {NO_TOOLS}",
    "loopback": f"loopback and not early and {NO_TOOLS}",
    "contract": "contract and not maxtext and not cluster and not engine and not trainer",
    "maxtext": "maxtext and not cluster and not engine and not trainer",
    "engine": "engine and not trainer",
    "cluster": "cluster and not engine and not trainer",
    "trainer": "trainer",
}
SIDE_BY_SIDE = {("quick",): 1, ("cluster", "trainer", "maxtext", "contract", "engine", "loopback"): 2}
"""Rows in this order, and how many of a row's stages run at once: they wait for servers and timeouts as much as they
work. The longest begin, and another one begins when one ends: no stage runs alone on two cores but the last.
"""
PROCESSES = {"quick": 2}
"""Of a stage whose files share nothing and which works all the time. Each collects its own files only."""
NAMED_BY = {
    "loopback": ("mark.loopback",),
    "contract": ("mark.contract",),
    "maxtext": ("mark.maxtext",),
    "engine": ("mark.engine",),
    "cluster": ("mark.cluster", "cluster_api", "here: Machine"),
    "trainer": ("mark.trainer",),
}
"""Words in each file that has a test with that marker (tests/conftest.py looks at every item): a stage collects those
files only, because collecting all 13,000 tests takes 12 s of CPU. The quick stage collects all.
"""
PREPARE = {"cluster": (sys.executable, "-m", "tests.control_plane", "build", "--if-possible")}
"""What a stage needs made first; minutes, once per user, so not before the quick tests have had their say."""
NO_TESTS = 5
"""pytest's exit status when a stage selects nothing."""


def main(arguments: list[str]) -> int:
    """`arguments`: options of pytest, for every stage."""
    passed, not_run = 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for row, at_once in SIDE_BY_SIDE.items():
            run = partial(stage, folder=Path(folder), arguments=arguments)
            with ThreadPoolExecutor(at_once) as threads:
                running = {threads.submit(run, name): name for name in row}
                for done in as_completed(running):
                    if (status := done.result()) not in (0, NO_TESTS):
                        threads.shutdown(cancel_futures=True)
                        print(f"\nRED in the {running[done]} stage; stages that had not begun were not run")
                        return status
            for name in row:
                for report in Path(folder).glob(f"{name}-*.xml"):
                    ran, skipped = counted(report)
                    passed += ran
                    not_run.update(skipped)
    print_summary(passed, not_run)
    return 0 if passed else NO_TESTS


def stage(name: str, *, folder: Path, arguments: list[str]) -> int:
    """pytest's exit status."""
    print(f"\n=== {name} ===", flush=True)
    began = time.monotonic()
    if name in PREPARE:
        subprocess.run(PREPARE[name], check=True)
    files, number = files_of(name), PROCESSES.get(name, 1)
    shares = [(folder / f"{name}-{i}.xml", files[i::number]) for i in range(number)]
    argvs = [pytest_argv(name, report=report, files=share, arguments=arguments) for report, share in shares]
    with ThreadPoolExecutor() as threads:
        statuses = set(threads.map(partial(told, prefix=f"{name}: "), argvs))
    status = max(statuses - {NO_TESTS}, default=NO_TESTS)
    print(f"{name}: {time.monotonic() - began:.0f} s, exit status {status}", flush=True)
    return status


def pytest_argv(name: str, *, report: Path, files: list[str], arguments: list[str]) -> tuple[str, ...]:
    """The files in one option: for each that is named as an argument, pytest lists its folder anew (3 s of CPU)."""
    only = f"--only-files={','.join(files)}"
    return (sys.executable, "-m", "pytest", "-q", "-m", STAGES[name], f"--junitxml={report}", only, "tests", *arguments)


def files_of(name: str) -> list[str]:
    """The files in which a test of that stage can be, from the folder of the repository; not one whose `pytestmark`
    gives every test to another stage.
    """
    words, others = NAMED_BY.get(name, ("",)), "|".join(re.findall(r"not (\w+)", STAGES[name]))
    elsewhere = re.compile(rf"^pytestmark = .*mark\.({others or 'none'})\b", re.MULTILINE)
    texts = {str(path): path.read_text() for path in sorted(Path("tests").rglob("test_*.py"))}
    return [path for path, text in texts.items() if any(word in text for word in words) and not elsewhere.search(text)]


def told(argv: tuple[str, ...], *, prefix: str) -> int:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with subprocess.Popen(argv, env=environment(), **pipes) as ran:
        for line in ran.stdout or ():
            print(f"{prefix}{line}", end="", flush=True)
    return ran.returncode


def environment() -> dict[str, str]:
    """Return this process's environment without the order to keep no bytecode: each of hundreds of interpreters would
    compile xsft anew. Hypothesis keeps the constants of all sources, 3 CPU-s per process, where the next checkout finds
    them.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"HYPOTHESIS_STORAGE_DIRECTORY": str(own_cache() / "tests-hypothesis"), **inherited}


def counted(report: Path) -> tuple[int, list[str]]:
    """Return how many tests passed, and the reason of each that was not run."""
    cases = list(ET.parse(report).iter("testcase"))
    skipped = [skip_node.get("message", "") for case in cases if (skip_node := case.find("skipped")) is not None]
    return len(cases) - len(skipped), skipped


def print_summary(passed: int, not_run: Counter[str]) -> None:
    print(f"\nall stages: {passed} passed, {not_run.total()} NOT RUN")
    for reason, count in not_run.most_common():
        print(f"  not run: {count} x {reason}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
