"""Every shell line of docs/guides/first-run.md runs, in its order, against a cluster, a bucket and the real xpk.

Between two of its sections the reader changes the lines that are marked `<--`, and so does the test.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from tests.contract.commandline import IMAGE, Machine
from tests.test_docs import blocks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "first-run.md"
LINES = [line.partition("  #")[0].strip() for block in blocks(PAGE, "sh") for line in block.splitlines()]
GOOGLE_CLOUD = ["xsft place add", "make image push PLACE=main"]
"""Lines that ask Google Cloud: the first lists its clusters, the second pushes to its registry. At most five."""
ELSEWHERE = {
    "make setup": "test_make.py",
    'export PATH="$PWD/.venv/bin:$PATH"': "test_make.py",
    "xsft submit workloads/tiny_local.yaml": "trainer",
}
"""Lines that other tests run: they make a checkout's environment, and train."""

pytestmark = pytest.mark.contract


def test_the_lines_that_do_not_run_here_are_few_and_on_the_page() -> None:
    assert len(GOOGLE_CLOUD) <= 5
    assert [line for line in (*GOOGLE_CLOUD, *ELSEWHERE) if line not in LINES] == []
    assert [name for name in ELSEWHERE.values() if not (ROOT / "tests" / name).exists()] == []


@pytest.mark.usefixtures("without_hub")
def test_every_other_line_of_the_first_run_works(here: Machine) -> None:
    for name in ("workloads", "images"):
        shutil.copytree(ROOT / name, here.folder / name, symlinks=True)
    shutil.copy(ROOT / "places.yaml", here.folder)
    ended = {}
    for line in [line for line in LINES if line not in (*GOOGLE_CLOUD, *ELSEWHERE)]:
        if line == "xsft plan my-run.yaml":
            change_the_marked_lines(here)
        reached = f"--context {here.api.context} --namespace {here.api.namespace}"
        words = shlex.split(line.replace("--context lab", reached))
        done = here.xsft(*words[1:], *(["--yes"] if words[1] == "submit" else []))
        ended[line] = done.returncode
        assert "Traceback" not in done.stderr, f"{line}: {done.stderr}"
        assert done.returncode == 0 or words[1] == "doctor", f"{line}: {done.stdout}{done.stderr}"
    assert ended["xsft submit my-run.yaml"] == 0
    assert [jobset["metadata"]["name"] for jobset in here.jobsets] == ["my-run"]


def change_the_marked_lines(here: Machine) -> None:
    file = here.folder / "my-run.yaml"
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    document |= {"place": "lab", "image": IMAGE}
    document["model"] = {"name": "qwen3-8b", "tokenizer": "Qwen/Qwen3-8B"}
    document["tpu"] = {"type": "v6e-256", "num_slices": 1}
    document["checks"] = {"no-initial-checkpoint": "a first look"}
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
