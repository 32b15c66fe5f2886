"""Asks the real MaxText what it makes of command lines (tests/contract/maxtext_parser.py), all in one process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xsft.effects.local import namespace
from xsft.effects.machine import process

PARSER = Path(__file__).parent / "contract" / "maxtext_parser.py"


def ask(jobs: Sequence[Mapping[str, Any]], *, python: Path) -> list[Any]:
    """One answer per job. MaxText runs alone in a PID namespace: it ends other people's processes otherwise."""
    contained = namespace.detect()
    namespace.refuse_where_harmful(contained)
    with tempfile.TemporaryDirectory(prefix="xsft-maxtext-") as folder:
        asked, answered = Path(folder, "jobs.json"), Path(folder, "results.json")
        asked.write_text(json.dumps(jobs), encoding="utf-8")
        # -I: neither the user's site nor the checkout can shadow MaxText.
        argv = (*contained.prefix, str(python), "-I", str(PARSER), str(asked), str(answered))
        done = process.run(argv, env=environment(folder), cwd=Path(folder), timeout_s=300)
        assert answered.exists(), f"MaxText's parser did not finish ({done.status}):\n{done.stderr[-3000:]}"
        return list(json.loads(answered.read_text(encoding="utf-8")))


def environment(folder: str) -> dict[str, str]:
    """Made from nothing: M_<KEY> variables would override what is asked."""
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": folder,
        "TMPDIR": folder,
        "JAX_PLATFORMS": "cpu",
        "HF_HUB_OFFLINE": "1",
    }
