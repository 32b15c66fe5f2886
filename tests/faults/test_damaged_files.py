"""A damaged file of xsft's own takes nothing else down: each kind that xsft writes × each damage × the verbs that
read it.

The files are a copy of what 72095b31 wrote (tests/written.py), and places.yaml. Every verb ends with a documented
status and without a traceback. It shows the other runs, and names the file if it ends with an error; a damaged record
beside a result counts as no result, and the stage is begun again.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest

from tests.inprocess import xsft
from tests.written import TREE, Copy, cluster_copy, local_copy, read_tree, silence
from xsft.fit.cache import WRITTEN_BY_72095B31

pytestmark = pytest.mark.loopback

EXPORT = "out/pipeline-export/75466ba488be"
GSM8K = Path(__file__).parents[2] / "workloads" / "qwen3_gsm8k.yaml"
CACHED = read_tree("fit.json")
VERDICT = f"cache/fit/{WRITTEN_BY_72095B31}/{CACHED['family']}/{CACHED['file']}"
CONVERTED = "out/converted/qwen3-0.6b-4bbfcb77458d"
STATUS = "status --all"
FIELD = re.compile(rb'^( ?"(?!schema)\w+": ).*?(?=,?$)', re.MULTILINE)
"""The first line of a field of a document, as xsft writes it."""
CUTS = (0.0, 0.1, 0.5, 0.9)
"""Shares of a file's bytes that a killed writer left."""


KINDS: dict[str, tuple[str, dict[str, set[int]]]] = {
    "entry of the index": ("state/runs/pipeline-ca4fd03d00c4.json", {STATUS: {0}, "why pipeline": {0, 2, 5}}),
    "record of a run here": (
        "out/pipeline/xsft/run.json",
        {STATUS: {0}, "why pipeline": {0, 8}, "submit w.yaml": {0, 4}, "logs pipeline": {0, 8}}
        | {"compare pipeline killed": {0, 8}, "cancel pipeline --yes": {0}, "checkpoint export w.yaml": {0}},
    ),
    "record of a stage's run": (
        "out/pipeline-export/xsft/run.json",
        {STATUS: {0}, "why pipeline-export": {0, 8}, "checkpoint export w.yaml": {0, 4}},
    ),
    "record of a conversion": (f"{CONVERTED}/xsft/conversion.json", {"checkpoint convert w.yaml": {0}}),
    "record of an export": (
        f"{EXPORT}/xsft/export.json",
        {"checkpoint export w.yaml": {0, 3}, f"checkpoint inspect {EXPORT}": {0, 2}},
    ),
    "report of an evaluation": ("out/pipeline-evaluate/6078e44da3d1/evaluation.json", {"run w.yaml": {0, 3, 4}}),
    "places": ("places.yaml", {STATUS: {0}, "place show": {0, 2}}),
    "lock of an image": ("project/images/mine.lock.json", {"check --offline project/w.yaml": {0, 2, 3}}),
    "verdict of the compiler": (VERDICT, {f"fit {GSM8K} --set train.per_device_batch_size=3": {0, 3}}),
}
"""Kind -> a file, and the verbs that read it, with the exit statuses that they may have."""
REDONE = {"record of an export", "report of an evaluation", "verdict of the compiler"}
"""Records of results, which are made anew; so a verb that fails does so for another reason."""


def damages(content: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Yield what the file holds instead; None: a folder is in its place."""
    for share in CUTS:
        yield f"cut at {share}", content[: int(len(content) * share)]
    for text in ("null", "[]", "7", "{}"):
        yield text, text.encode()
    for odd in (b"7", b"null", b'[null, 7, {}, "x"]'):
        if FIELD.search(content):
            yield f"every field is {odd!r}", FIELD.sub(rb"\g<1>" + odd, content)
    yield "binary", bytes(range(256)) * 8
    yield "zeros", bytes(4096)
    yield "not UTF-8", content[:20] + b"\xff\xfe" + content[20:]
    yield "deep arrays", b"[" * 200_000
    yield "deep objects", b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    yield "17 MiB", content + b" " * (17 << 20)
    yield "a folder", None


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = local_copy(tmp_path_factory.mktemp("local"))
    (copy.folder / "places.yaml").write_text("main: {context: none}\n")
    shutil.copytree(TREE / "project", copy.folder / "project")
    (copy.folder / VERDICT).parent.mkdir(parents=True)
    (copy.folder / VERDICT).write_text(CACHED["text"], encoding="utf-8")
    return copy


def ask(copy: Copy, verb: str) -> CompletedProcess[str]:
    with patch.dict(os.environ, copy.env, clear=True), chdir(copy.folder):
        return xsft(*verb.split())


def put(path: Path, content: bytes | None) -> None:
    if path.is_dir():
        path.rmdir()
    if content is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(content)


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="what was written here is found at /proc/self/cwd")
@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_takes_no_verb_down(local: Copy, name: str) -> None:
    path, verbs = KINDS[name]
    file = local.folder / path
    before = {path: path.read_bytes() for path in local.folder.rglob("*.json") if path.is_file()}
    content = file.read_bytes()
    faults: list[tuple[object, ...]] = []
    for damage, damaged in damages(content):
        for verb, statuses in verbs.items():
            put(file, damaged)
            done = ask(local, verb)
            said = done.stdout + done.stderr
            if done.returncode not in statuses or "Traceback" in said or "a bug in xsft" in said:
                faults.append((damage, verb, done.returncode, done.stderr[-300:]))
            if name not in REDONE and damaged is not None and done.returncode and file.name not in said:
                faults.append((damage, verb, "not named", done.stderr[-300:]))
            if verb == STATUS and "killed" not in done.stdout.split():
                faults.append((damage, verb, "rows are missing", done.stdout))
            put(file, content)
            for other, text in before.items():
                if not other.is_file() or other.read_bytes() != text:
                    put(other, text)
    assert not faults, "\n".join(map(str, faults))


def test_a_damaged_last_known_state_hides_no_run_of_a_silent_cluster(tmp_path: Path) -> None:
    with cluster_copy(tmp_path, environments=tmp_path / "envs") as copy:
        silence(copy)
        (file,) = (copy.folder / "state" / "known").glob("*.jsonl")
        content = file.read_bytes()
        faults: list[tuple[object, ...]] = []
        for damage, damaged in damages(content):
            put(file, damaged)
            done = ask(copy, f"{STATUS} --context stand-in")
            said = done.stdout + done.stderr
            if done.returncode not in (0, 5) or "Traceback" in said or "a bug in xsft" in said:
                faults.append((damage, done.returncode, said[-300:]))
            put(file, content)
    assert not faults, "\n".join(map(str, faults))
