"""The verdicts of the TPU compiler in the cache folder: `fit/<versions>/<family>/<tokens>.json`.

A folder of versions is the digest of the compiler environment's lock and of the program that asks the compiler: another
MaxText, libtpu or program has another folder. Finding a verdict costs two folders and a few small files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xsft import workers
from xsft.catalog.tpu import Slice, slices_by_size
from xsft.environments import environments
from xsft.fit.step import StepToCompile, compiler_name
from xsft.fit.verdict import CompiledStep, KnownStep, NearStep, from_json, known_step, to_json
from xsft.machine.files import write_private
from xsft.machine.paths import own_cache

WORKER = Path(workers.__file__).with_name("compile_step.py")
WRITTEN_BY_72095B31 = "7e5ef304de6fbe42"
"""Folder in which xsft at commit 72095b31 kept its verdicts. Its digest covered the text of more modules, but its
program compiled the same step. A program that compiles another step takes this constant away.
"""
PACKAGES = ("maxtext", "google-tunix", "jax", "libtpu", "flax", "qwix")
MOST_BYTES = 256 * 1024


class FitCache(Struct, frozen=True, kw_only=True):
    """The folder of verdicts."""

    folder: Path

    def known(self, step: StepToCompile) -> KnownStep | None:
        """Return the verdict on the step, or one that follows from another length; None if there is none."""
        return known_step(tuple(self._kept_entries(step.family)), tokens=step.tokens)

    def near(self, step: StepToCompile, tpu: Slice) -> Iterator[NearStep]:
        """Yield the kept verdicts on this step with other lengths, on other slices of its generation. `tpu`: its
        slice."""
        for size, num_slices in product(slices_by_size(tpu.generation), {1, 2, 4, step.num_slices}):
            other = replace(step, topology=compiler_name(size), num_slices=num_slices)
            for entry in self._kept_entries(other.family):
                yield NearStep(entry=entry, tpu=size, num_slices=num_slices)

    def keep(self, step: StepToCompile, entry: CompiledStep) -> Path:
        file = self.folder / versions_digest()[:16] / step.family / f"{step.tokens}.json"
        write_private(file, to_json(entry))
        return file

    def _kept_entries(self, family: str) -> Iterator[CompiledStep]:
        for versions in (versions_digest()[:16], WRITTEN_BY_72095B31):
            for file in sorted((self.folder / versions / family).glob("*.json")):
                entry = _read_entry(file)
                if entry is not None and entry.versions == compiler_versions():
                    yield entry


def fit_cache() -> FitCache:
    """Return the user's folder of verdicts."""
    return FitCache(folder=own_cache() / "fit")


def compiler_versions() -> dict[str, str]:
    """Return the versions of the packages that decide a verdict, by the compiler environment's lock."""
    pins = environments.environment_for("compiler").pins
    return {name: pins[name] for name in PACKAGES}


@cache
def versions_digest() -> str:
    """Return the digest of the lock and of the program that asks the compiler, 64 hex digits."""
    lock = environments.environment_for("compiler").digest
    return hashlib.sha256(lock.encode() + WORKER.read_bytes()).hexdigest()


def _read_entry(file: Path) -> CompiledStep | None:
    try:
        return from_json(file.read_bytes()[:MOST_BYTES])
    except OSError:
        return None
