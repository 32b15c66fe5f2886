"""A one-line change of a MaxText fork, pushed: xsft, without an engine, against upstream's way, on one registry.

Upstream's runner is built with `--no-cache` and copies assets and tree, then it is tagged and pushed (maxtext@0.2.5
src/dependencies/scripts/docker_upload_runner.sh, dockerfiles/maxtext_runner.Dockerfile; its script's other work is left
out). Both stand on the same image, which has MaxText's real tree installed. Bytes: what the registry did not have
before. Times: the least of all rounds, for what else the machine does only adds. Also: a second push without a change.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.contract.commandline import XSFT
from tests.contract.imagelab import environment
from tests.engine import base, daemon, registryserver
from tests.engine.daemon import Engine
from tests.engine.machine import disk_folder, which, why_no_engine
from tests.engine.registryserver import Registry
from tests.engine.slots import slot
from tests.stories import ROOT
from xsft.environments import environments
from xsft.machine.paths import own_cache

T = TypeVar("T")

BYTES, TIME, AGAIN_S = 0.1, 0.5, 2.0
"""Of upstream's, at most; and seconds of a push that has nothing to do."""

INSTALLED = "xsft-bench-installed"
INSTALL = """\
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY maxtext /usr/local/lib/python3.12/site-packages/maxtext
COPY tunix /usr/local/lib/python3.12/site-packages/tunix
"""
DEPS = """\
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY install.py requirements.txt /run/xsft/
RUN mkdir -p /usr/share/xsft && python3 /run/xsft/install.py record /run/xsft/requirements.txt /usr/share/xsft/deps.json
"""
RUNNER = """\
ARG BASEIMAGE
FROM $BASEIMAGE
ENV PACKAGE_DIR=src
ENV MAXTEXT_ASSETS_ROOT=/deps/src/maxtext/assets
ENV MAXTEXT_TEST_ASSETS_ROOT=/deps/tests/assets
ENV MAXTEXT_PKG_DIR=/deps/src/maxtext
ENV MAXTEXT_REPO_ROOT=/deps
WORKDIR /deps
COPY assets/ /deps/src/maxtext/assets
COPY src/maxtext/ src/maxtext/
"""
"""The assets lie apart here, because `COPY --exclude` would need a frontend from a hub."""
CHANGED = "trainers/post_train/sft/train_sft.py"


@dataclass
class Bench:
    folder: Path
    engine: Engine
    registry: Registry
    env: Mapping[str, str]
    known: set[str] = field(default_factory=set)
    """Digests that the registry has."""
    without_engine: bool = False
    """Whether xsft has none: the dependencies are in the registry."""

    @property
    def fork(self) -> Path:
        return self.folder / "fork"

    @property
    def theirs(self) -> Path:
        return self.folder / "theirs"

    def change(self, number: int) -> None:
        for root in (self.fork, self.theirs):
            with (root / "src" / "maxtext" / CHANGED).open("a", encoding="utf-8") as file:
                file.write(f"# change {number}\n")

    def push(self) -> dict[str, Any]:
        argv = (str(XSFT), "image", "push", "--image=bench", f"--registry={self.registry.address}/ours", "--json")
        source = (f"--base={INSTALLED}", "--maxtext-source=fork")
        env = {**self.env, "DOCKER_HOST": "none"} if self.without_engine else self.env
        return dict(json.loads(done((*argv, *source), env=env, cwd=self.folder)))

    def runner(self, deps: str) -> None:
        """Write the script that answers for docker."""
        local, name = "maxtext_base_image__runner", f"{self.registry.address}/theirs:latest"
        build = ("build", "--no-cache", "--build-arg", f"BASEIMAGE={deps}", "-f", "runner.Dockerfile", "-t", local, ".")
        for argv in (("image", "inspect", deps), build, ("tag", local, name), ("push", name)):
            done((self.engine.client, *argv), env=self.engine.env, cwd=self.theirs)

    def new_bytes(self, repository: str, reference: str) -> int:
        """Stored, so compressed, in blobs that were not there at the last question."""
        manifest = Registry(self.registry.address, repository).manifest(reference)
        blobs = {blob["digest"]: int(blob["size"]) for blob in (manifest["config"], *manifest["layers"])}
        new = sum(size for digest, size in blobs.items() if digest not in self.known)
        self.known |= blobs.keys()
        return new


@dataclass(frozen=True)
class Round:
    ours_s: float
    theirs_s: float
    ours_cpu_s: float
    theirs_cpu_s: float
    ours_bytes: int
    theirs_bytes: int
    again_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    rounds, as_json = vars(parser.parse_args()).values()
    if why := why_no_engine(has=which, uid=os.geteuid()):
        print(f"bench_image: NOT RUN: {why}", file=sys.stderr)
        return 0
    with bench() as here:
        return told([measured(here, number) for number in range(rounds)], as_json=as_json)


@contextmanager
def bench() -> Iterator[Bench]:
    cache = own_cache() / "tests-engine"
    folder = disk_folder((cache, Path("/var/tmp/xsft-tests-engine")))
    with (
        slot(folder) as slots,
        daemon.running(slots) as engine,
        tempfile.TemporaryDirectory(dir=slots.folder) as scratch,
    ):
        stored = slots.folder / "registry"
        stored.mkdir()
        with registryserver.serving(stored) as registry:
            here = Path(scratch)
            lay_out(here)
            base_image = base.make(engine, cache)
            arguments = ("--build-arg", f"BASE_IMAGE={base_image.reference}", "-t", INSTALLED, ".")
            done((engine.client, "build", *arguments), env=engine.env, cwd=here / "installed")
            yield Bench(here, engine, registry, environment(here, engine))


def lay_out(folder: Path) -> None:
    """Create what is installed below: a project with an image, a fork of MaxText, and that fork for upstream."""
    python = environments.ensure("maxtext", progress=lambda line: print(line, file=sys.stderr)).python
    (site,) = (python.parents[1] / "lib").glob("python*/site-packages")
    for name in ("maxtext", "tunix"):
        shutil.copytree(site / name, folder / "installed" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(folder / "installed" / "maxtext", folder / "fork" / "src" / "maxtext")
    shutil.copytree(folder / "fork", folder / "theirs")
    (folder / "theirs" / "src" / "maxtext" / "assets").rename(folder / "theirs" / "assets")
    image = folder / "images" / "bench"
    image.mkdir(parents=True)
    shutil.copy(ROOT / "images" / "post_training" / "install.py", image)
    for path, text in (
        (folder / "installed" / "Dockerfile", INSTALL),
        (folder / "theirs" / "runner.Dockerfile", RUNNER),
        (image / "Dockerfile", DEPS),
        (image / "requirements.txt", "# bench\n"),
    ):
        path.write_text(text, encoding="utf-8")


def measured(here: Bench, number: int) -> Round:
    """Both have built and pushed once before, so that only the change is new."""
    if number == 0:
        first = here.push()
        here.runner(INSTALLED)
        here.without_engine = True
        here.new_bytes("ours/bench", first["lock"]["digest"])
        here.new_bytes("theirs", "latest")
    here.change(number)
    ours_s, ours_cpu_s, pushed = timed(here.push)
    ours = here.new_bytes("ours/bench", pushed["lock"]["digest"])
    theirs_s, theirs_cpu_s, _ = timed(lambda: here.runner(INSTALLED))
    theirs = here.new_bytes("theirs", "latest")
    again_s, _, again = timed(here.push)
    if again["pushed"] or again["ref"] != pushed["ref"]:
        raise SystemExit(f"a push without a change pushed: {again}")
    return Round(ours_s, theirs_s, ours_cpu_s, theirs_cpu_s, ours, theirs, again_s)


def told(rounds: list[Round], *, as_json: bool) -> int:
    seconds = ("ours_s", "theirs_s", "ours_cpu_s", "theirs_cpu_s", "again_s")
    ours_s, theirs_s, ours_cpu_s, theirs_cpu_s, again_s = (
        min(getattr(round_, name) for round_ in rounds) for name in seconds
    )
    part = ours_s / theirs_s
    ours, theirs = (max(round_.ours_bytes for round_ in rounds), min(round_.theirs_bytes for round_ in rounds))
    verdicts = {"time": part <= TIME, "bytes": ours <= BYTES * theirs, "again": again_s <= AGAIN_S}
    if as_json:
        measured = {"ours_s": ours_s, "theirs_s": theirs_s, "ours_bytes": ours, "theirs_bytes": theirs}
        cpu = {"ours_cpu_s": ours_cpu_s, "theirs_cpu_s": theirs_cpu_s}
        print(json.dumps({**measured, **cpu, "again_s": again_s, "part": part, "kept": verdicts}))
        return 0 if all(verdicts.values()) else 1
    words = {name: "kept" if holds else "MISSED" for name, holds in verdicts.items()}
    print(f"one line changed, built and pushed: xsft {ours_s:.2f} s, upstream {theirs_s:.2f} s: {part:.2f} x,", end=" ")
    print(f"limit {TIME:g} {words['time']}")
    print(f"CPU of clients, engine and registry: xsft {ours_cpu_s:.2f} s, upstream {theirs_cpu_s:.2f} s")
    print(f"bytes pushed: xsft {ours:,}, upstream {theirs:,}: limit {BYTES:g} x {words['bytes']}")
    print(f"push without a change: {again_s:.2f} s, limit {AGAIN_S:g} s {words['again']}")
    return 0 if all(verdicts.values()) else 1


def done(argv: tuple[str, ...], *, env: Mapping[str, str], cwd: Path) -> str:
    completed = subprocess.run(
        argv, env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if completed.returncode:
        raise SystemExit(
            f"{argv} ended with {completed.returncode}:\n{completed.stdout[-1500:]}{completed.stderr[-3000:]}"
        )
    return completed.stdout


def timed(run: Callable[[], T]) -> tuple[float, float, T]:
    """Wall seconds, and CPU seconds of everything below this process: clients, engine, containers and registry."""
    before, started = cpu_below(os.getpid()), time.monotonic()
    result = run()
    seconds = time.monotonic() - started
    return seconds, cpu_below(os.getpid()) - before, result


def cpu_below(root: int) -> float:
    """Return the CPU time of living and reaped processes. source: proc(5), /proc/[pid]/stat fields 4, 14 to 17."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            row = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid], seconds[pid] = int(row[1]), sum(map(int, row[11:15])) / os.sysconf("SC_CLK_TCK")
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(seconds.get(pid, 0.0) for pid in below)


if __name__ == "__main__":
    sys.exit(main())
