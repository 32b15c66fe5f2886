"""Draw the README's pictures: python -m tests.pictures, after `make demo`. `make pictures` does both.

The loss curve is that of the demo's run on this machine. The status table is the real one, over runs made by hand.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

import xsft
from tests.observations import NOW, jobset, judged, local, observed, queued, said
from xsft.cluster.observation import Observation
from xsft.runs.lookup import fold
from xsft.runs.pictures import comparison_picture
from xsft.verbs.status_screen import table

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "pictures"
DEMO = ROOT / "workloads" / "xsft-runs" / "tiny-local"
WIDTH = 112
"""Characters of the status table: what a page of GitHub shows."""

LORA = jobset("llama31-lora", mode="pathways", tpu="v6e-64", num_slices=1, steps=500)
RUNS: tuple[Observation, ...] = (
    observed(
        "deepseek-ultrachat", jobset=jobset("deepseek-ultrachat", mode="pathways"), progress=said(412, loss=1.204)
    ),
    observed("llama31-lora", jobset=LORA, progress=said(35, loss=1.871, step_seconds=1.31, tflops_per_device=352.0)),
    queued("qwen3-gsm8k", position=2),
    local("tiny-local", progress=said(40, source="record", loss=1.748, step_seconds=0.21, tflops_per_device=None)),
)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "status.svg").write_text(status_picture(), encoding="utf-8")
    (curve,) = xsft.compare([str(DEMO)])
    (FOLDER / "loss.svg").write_bytes(comparison_picture({"tiny-local": curve.points}, kind="svg"))


def status_picture() -> str:
    """Without the font that rich would fetch from elsewhere."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(table([folded_run.row for folded_run in fold(RUNS, classify=judged, now=NOW)], width=WIDTH))
    drawn = console.export_svg(title="xsft status", unique_id="xsft")
    return re.sub(r"@font-face \{.*?\}\n", "", drawn, flags=re.DOTALL)


if __name__ == "__main__":
    main()
