"""Write the tree of tests/written.py: what this xsft writes, and what it answers when it reads it.

    python -m tests.tools.write_fixtures CHAIN FIT

CHAIN: the folder of `make pipeline`, whose workload has `output: /proc/self/cwd/out` and relative paths, with a second
training, `killed`, that was. FIT: a verdict that `xsft fit` cached. It needs xpk's environment.

It ran at 72095b31, before the rooms were moved. The tree has what that commit wrote, and is not written anew.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tarfile
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.contract.commandline import INPUTS, Machine
from tests.contract.test_run_cluster import EVALUATE, EVALUATION, TPU, converted, exported, measured, saved
from tests.servers import IMAGE
from tests.stories import ROOT
from tests.written import (
    CLUSTER,
    LOCAL,
    TREE,
    WRITTEN_AT,
    cluster_copy,
    digests_of,
    empty_machine,
    image_of_project,
    local_copy,
    moved,
    play_controllers,
    silence,
    workloads,
)
from xsft.environments import environments
from xsft.image.lock import SCHEMA, LockedImage
from xsft.image.lock_file import keep_lock, lock_file
from xsft.image.options import BuildOptions

LOG = 16_384
"""Characters kept of a log."""
KINDS = ("jobset.x-k8s.io/jobsets", "apps/deployments", "/services", "policy/poddisruptionbudgets")


def main(chain: Path, verdict: Path) -> None:
    TREE.mkdir(parents=True)
    installed = environments.find_environment("xpk")
    assert installed is not None
    write_cluster(installed.folder.parent)
    write_local(chain)
    write_project()
    write("fit.json", {"file": verdict.name, "family": verdict.parent.name, "text": verdict.read_text()})
    write("answers.json", answers(installed.folder.parent))


def write(name: str, document: Any) -> None:
    (TREE / name).parent.mkdir(parents=True, exist_ok=True)
    (TREE / name).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def answers(environments: Path) -> dict[str, Any]:
    """Ask each question of its own copy."""
    found: dict[str, Any] = {
        "digests": {name: digests_of(spec) for name, spec in workloads().items()},
        "image": image_of_project(),
    }
    with tempfile.TemporaryDirectory() as scratch:
        copy = local_copy(Path(scratch))
        found["local"] = {name: copy.ask(*question) for name, question in LOCAL.items()}
    with tempfile.TemporaryDirectory() as scratch, cluster_copy(Path(scratch), environments=environments) as copy:
        found["rows"] = copy.rows()
        found["cluster"] = {name: copy.ask(*question) for name, question in CLUSTER.items()}
    with tempfile.TemporaryDirectory() as scratch, cluster_copy(Path(scratch), environments=environments) as copy:
        silence(copy)
        found["known-rows"] = copy.rows()
    return found


def write_cluster(environments: Path) -> None:
    """Submit, run and end what a user of two weeks has: each mode, each stage, each end."""
    with tempfile.TemporaryDirectory() as scratch, empty_machine(Path(scratch), environments=environments) as here:
        began = datetime.now(UTC).replace(microsecond=0)
        pipeline(here)
        retried(here)
        failed_conversion(here)
        call(here, "submit", workload(here, "deepseek_ultrachat_mcjax"), "--yes")
        for name in ("cancelled", "deleted", "queued"):
            call(here, "submit", workload(here, "deepseek_ultrachat", name=name), "--yes")
        call(here, "cancel", "cancelled", "--context", here.api.context, "--yes")
        here.api.world.delete("deleted")
        stored = here.api.standin.objects.stored
        objects = {kind: json.loads(json.dumps([*stored[kind].values()])) for kind in KINDS}
        play_controllers(here.api, by=began + timedelta(minutes=10) - WRITTEN_AT)
        call(here, "status", "--all", "--context", here.api.context)
        keep(here, objects, began=began)


def keep(here: Machine, objects: dict[str, Any], *, began: datetime) -> None:
    def old(text: str) -> str:
        """With its times moved, of which the stand-in's own need none."""
        return moved(
            text.replace("2026-11-21T10:00:00", began.isoformat()[:19]), by=WRITTEN_AT - timedelta(minutes=10) - began
        )

    write("cluster/objects.json", objects)
    kept = {name: old(content.decode()) for name, content in here.bucket.objects.items() if name not in INPUTS}
    write("cluster/bucket.json", kept)
    files = [*here.folder.glob("*.yaml"), *here.folder.glob("*.json"), *(here.folder / "state").rglob("*")]
    for file in files:
        if file.is_file() and file.name != "kubeconfig.yaml":
            copy = TREE / "cluster" / "machine" / file.relative_to(here.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(old(file.read_text(encoding="utf-8")), encoding="utf-8")


def call(here: Machine, *arguments: object) -> None:
    done = here.xsft(*arguments)
    assert done.returncode == 0, done.stderr + done.stdout


def workload(here: Machine, story: str, **changes: Any) -> str:
    file = here.workload(story, **changes)
    return file.rename(file.with_name(f"{changes.get('name', story)}.yaml")).name


def pipeline(here: Machine) -> None:
    stages = {"evaluate": EVALUATE, "export": {}, "serve": {"image": IMAGE}}
    run = ("run", workload(here, "gemma2_ultrachat", stages=stages, tpu=TPU), "--no-wait", "--yes")
    steps: tuple[Callable[[], object], ...] = (
        lambda: None,
        lambda: converted(here),
        lambda: saved(here, steps=1000),
        lambda: measured(here, EVALUATION, says="1 plus 1 is 2."),
        lambda: here.api.world.end(EVALUATION, "Completed"),
        lambda: exported(here),
        lambda: None,
    )
    for step in steps:
        step()
        call(here, *run)


def retried(here: Machine) -> None:
    submit = ("submit", workload(here, "deepseek_ultrachat"), "--yes")
    call(here, *submit)
    here.api.world.end("deepseek-ultrachat", "Failed")
    call(here, *submit)
    here.api.world.end("deepseek-ultrachat-2", "Completed")
    here.bucket.objects["runs/deepseek-ultrachat/checkpoints/1000/commit_success.txt"] = b""


def failed_conversion(here: Machine) -> None:
    run = ("run", workload(here, "qwen3_gsm8k"), "--no-wait", "--yes")
    call(here, *run)
    here.api.world.end("qwen3-gsm8k-convert", "Failed")
    call(here, *run)


def write_local(chain: Path) -> None:
    """Keep what the chain wrote: texts without paths of this machine, weights as so many zeros."""
    ended = max(file.stat().st_mtime for file in (chain / "out").rglob("*"))
    by = WRITTEN_AT - timedelta(minutes=1) - datetime.fromtimestamp(int(ended), UTC)
    files = [file for name in ("out", "state") for file in (chain / name).rglob("*") if file.is_file()]
    with tarfile.open(TREE / "local-weights.tar.xz", "w:xz") as archive:
        for file in sorted((*files, chain / "w.yaml", chain / "rows.jsonl")):
            name, content = str(file.relative_to(chain)), file.read_bytes()
            if file.suffix in (".json", ".yaml", ".jsonl", ".log"):
                folders = rf"{re.escape(str(Path.home()))}/\.cache/xsft|/tmp/fixtures/\w+"
                text = re.sub(folders, "/home/ada", content.decode())
                copy = TREE / "local" / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(moved(text[-LOG:] if file.suffix == ".log" else text, by=by), encoding="utf-8")
                continue
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            unread = re.fullmatch(r"[\d.]+|.*\.(png|safetensors)", file.name) or (
                file.parent.name == "d" and len(content) > 16_384
            )
            archive.addfile(entry, io.BytesIO(bytes(len(content)) if unread else content))


def write_project() -> None:
    images = TREE / "project" / "images"
    images.mkdir(parents=True)
    document = yaml.safe_load((ROOT / "workloads" / "deepseek_ultrachat.yaml").read_text(encoding="utf-8"))
    document |= {
        "place": yaml.safe_load((ROOT / "places.yaml").read_text(encoding="utf-8"))["main"],
        "image": {"name": "mine"},
    }
    (TREE / "project" / "w.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    base = f"python:3.12-slim-bookworm@sha256:{'1' * 64}"
    lock_file(images, "mine").write_text(json.dumps({"schema": SCHEMA, "base": base}), encoding="utf-8")
    for number, registry in enumerate(("us-docker.pkg.dev/my-project/xsft", "us-docker.pkg.dev/other/xsft")):
        image = LockedImage(
            image="mine",
            repository=f"{registry}/mine",
            digest=f"sha256:{str(number) * 64}",
            maxtext="0.2.5",
            deps="deps-0123456789ab",
            deps_digest=f"sha256:{'d' * 64}",
            code="code-0123456789ab",
            pushed_at="2026-11-21T10:00:00Z",
            commit="c" * 40,
            dirty=False,
            base=base,
            evaluate="e" * 64,
            options=BuildOptions(maxtext="0.2.5", maxtext_source="pypi", tunix_source="pypi"),
        )
        keep_lock(images, image)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
