"""An image whose trainer is the stand-in of tests/localruns.py: what it does comes in as a file, by `env`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.engine.steps import built, step
from tests.localruns import FAKE, local_plan
from xsft.image.engine import Engine
from xsft.planning.steps import Plan

MODULE = "maxtext/trainers/post_train/sft/train_sft.py"
AS_SCRIPT = f"""\
import os, sys
sys.argv = ["python3", "-m", "module", *sys.argv[1:]]
exec({FAKE!r}, {{"__file__": os.environ["DOES"], "__name__": "__main__"}})
"""
DOCKERFILE = """\
ARG BASE
FROM ${BASE}
COPY code /app/code
ENV PYTHONPATH=/app/code HOME=/home/nobody
WORKDIR /app
ENTRYPOINT ["/bin/false"]
"""
"""An entrypoint that would end everything: the plan's command is what runs, not the image's."""


def fake_trainer_image(engine: Engine, folder: Path, *, base: str, maxtext: str = "0.2.5") -> str:
    """Build the image, and return its name in the engine."""
    trainer_step = step(
        folder,
        {f"code/{MODULE}": AS_SCRIPT},
        dockerfile=DOCKERFILE,
        name=f"xsft-test/trainer:{maxtext}",
        args={"BASE": base},
        labels={"dev.xsft.maxtext.version": maxtext},
    )
    built(trainer_step, engine)
    return trainer_step.name


def plan_in_image(folder: Path, image: str, *, does: Mapping[str, Any] | None = None, **changes: Any) -> Plan:
    """Six steps, saved every second; `does` as FakeTrainer's. The trainer notes what it sees in the run's folder."""
    output = folder / "out"
    path = output / "tiny-local" / "seen.json"
    (folder / "does.json").write_text(json.dumps({"seen": str(path), **(does or {})}))
    settings = {"train__steps": 6, "train__checkpoint_period": 2, "image__ref": image, **changes}
    return local_plan(output, **{"env": {"DOES": str(folder / "does.json")}, **settings})


def seen_in(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "out" / "tiny-local" / "seen.json").read_text()))
