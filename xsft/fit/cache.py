"""The verdicts of the TPU compiler in the cache folder: `fit/<versions>/<family>/<tokens>.json`.

A folder of versions is the digest of the compiler environment's lock and of the programs that ask the compiler: another
MaxText, libtpu or program has another folder. Finding a verdict costs one folder and a few small files.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from msgspec import Struct

from xsft import fit, workers
from xsft.environments import environments
from xsft.fit.derive import KnownStep, known_step
from xsft.fit.step import StepToCompile
from xsft.fit.verdict import CompiledStep, from_json, to_json
from xsft.machine.files import write_private
from xsft.machine.paths import own_cache

WORKER = Path(workers.__file__).with_name("compile_step.py")
COUNTING = tuple(Path(fit.__file__).with_name(f"{name}.py") for name in ("groups", "kernels", "program", "work"))
"""Modules that count what a compiled program does."""
PACKAGES = ("maxtext", "google-tunix", "jax", "libtpu", "flax", "qwix")
MOST_BYTES = 256 * 1024


class FitCache(Struct, frozen=True, kw_only=True):
    """The folder of verdicts."""

    folder: Path

    def known(self, step: StepToCompile) -> KnownStep | None:
        """Return the verdict on the step, or one that follows from another length; None if there is none."""
        entries = (_read_entry(file) for file in sorted(self._family_folder(step).glob("*.json")))
        return known_step(tuple(entry for entry in entries if entry), tokens=step.tokens)

    def keep(self, step: StepToCompile, entry: CompiledStep) -> Path:
        file = self._family_folder(step) / f"{step.tokens}.json"
        write_private(file, to_json(entry))
        return file

    def _family_folder(self, step: StepToCompile) -> Path:
        return self.folder / versions_digest()[:16] / step.family


def fit_cache() -> FitCache:
    """Return the user's folder of verdicts."""
    return FitCache(folder=own_cache() / "fit")


def compiler_versions() -> dict[str, str]:
    """Return the versions of the packages that decide a verdict, by the compiler environment's lock."""
    pins = environments.environment_for("compiler").pins
    return {name: pins[name] for name in PACKAGES}


@cache
def versions_digest() -> str:
    """Return the digest of the lock, of the program that asks the compiler and of the modules that count, 64 hex
    digits."""
    lock = environments.environment_for("compiler").digest
    return hashlib.sha256(lock.encode() + b"".join(file.read_bytes() for file in (WORKER, *COUNTING))).hexdigest()


def _read_entry(file: Path) -> CompiledStep | None:
    try:
        return from_json(file.read_bytes()[:MOST_BYTES])
    except OSError:
        return None
