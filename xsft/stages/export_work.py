"""Runs the programs of an export in the environments of MaxText and of the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from xsft.base.errors import RunFailed
from xsft.launch.local_machine import Machine, program_environment
from xsft.machine.watched_process import follow
from xsft.spec.keypath import printable
from xsft.weights.export_plan import ExportPlan
from xsft.workers.sent import sent_argv

OF_GOOGLE = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUDSDK_CONFIG",
    "GOOGLE_CLOUD_PROJECT",
    "STORAGE_EMULATOR_HOST",
    "TENSORSTORE_GCS_HTTP_URL",
)
"""Variables with which Google's clients and TensorStore find their login, or an emulator."""


class ExportShop(Struct, frozen=True, kw_only=True):
    """The functions and folders that the programs of one attempt need."""

    machine: Machine
    scratch: Path
    """A private folder."""
    logs: Path
    """Folder of the programs' output."""


def reads_bucket(plan: ExportPlan) -> bool:
    """Return whether the weights, or the base of adapters, are in a bucket."""
    return any(path.startswith("gs://") for path in (plan.inputs.weights, plan.inputs.base or ""))


def ask_worker(
    program: str, job: Mapping[str, Any], shop: ExportShop, *, python: Path | None = None, online: bool = False
) -> dict[str, Any]:
    """Return the answer of a program (`workers.answering`), a module that MaxText's interpreter runs, or `python`.

    Raises RunFailed, export-failed, if it ended without one, or with an error.
    """
    name = program.rpartition(".")[2]
    answer, log = shop.scratch / f"{name}.json", shop.logs / f"{name}.log"
    # -I: neither the user's site nor the checkout can shadow a library.
    argv = (str(python or shop.machine.python), "-I", *sent_argv(program, job, (str(answer),))[1:])
    status = run(argv, shop, log=log, online=online)
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else {}
    if not found or "error" in found:
        why = found.get("error") or f"it ended with status {status}"
        raise RunFailed(f"{name}: {printable(why)}", fix=f"Its whole output: {log}.", id="export-failed")
    return found


def run(argv: tuple[str, ...], shop: ExportShop, *, log: Path, online: bool) -> int:
    """Run a program in a PID namespace of its own where the system allows; return its exit status."""
    contained = shop.machine.contain()
    env = environment(shop, online=online)
    return follow((*contained.prefix, *argv), env=env, log=log, on_line=lambda _line: None)


def environment(shop: ExportShop, *, online: bool) -> dict[str, str]:
    """Return a few of the user's variables, and private folders; no network unless `online`."""
    machine = shop.machine
    google = {name: machine.env[name] for name in OF_GOOGLE if online and name in machine.env}
    return {**program_environment(machine, shop.scratch, online=online), "JAX_PLATFORMS": "cpu", **google}
