"""All tests, the quick ones first; a red stage ends the run. The last lines count what did not run, with the reason."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

STAGES = {
    "quick": "not contract and not cluster and not engine and not trainer",
    "contract": "contract and not cluster and not engine and not trainer",
    "engine": "engine and not trainer",
    "cluster": "cluster and not engine and not trainer",
    "trainer": "trainer",
}
PREPARE = {"cluster": (sys.executable, "-m", "tests.cluster", "build", "--if-possible")}
"""What a stage needs made first; minutes, once per user, so not before the quick tests have had their say."""
NO_TESTS = 5
"""pytest's exit status when a stage selects nothing."""


def main(arguments: list[str]) -> int:
    passed, not_run = 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for stage, expression in STAGES.items():
            print(f"\n=== {stage} ===", flush=True)
            began = time.monotonic()
            report = Path(folder) / f"{stage}.xml"
            if stage in PREPARE:
                subprocess.run(PREPARE[stage], check=True)
            status = pytest(expression, report, arguments)
            if status not in (0, NO_TESTS):
                print(f"\nRED in the {stage} stage; later stages were not run")
                return status
            cases = list(ET.parse(report).iter("testcase"))
            skipped = [found.get("message", "") for case in cases if (found := case.find("skipped")) is not None]
            not_run.update(skipped)
            passed += len(cases) - len(skipped)
            print(f"{stage}: {time.monotonic() - began:.0f} s", flush=True)
    print_summary(passed, not_run)
    return 0 if passed else NO_TESTS


def pytest(expression: str, report: Path, arguments: list[str]) -> int:
    argv = (sys.executable, "-m", "pytest", "-q", "-m", expression, f"--junitxml={report}", *arguments)
    return subprocess.run(argv, check=False).returncode


def print_summary(passed: int, not_run: Counter[str]) -> None:
    print(f"\nall stages: {passed} passed, {not_run.total()} NOT RUN")
    for reason, count in not_run.most_common():
        print(f"  not run: {count} x {reason}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
