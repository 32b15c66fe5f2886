"""`xsft` on a machine of its own: its home and its bucket are stand-ins, its cluster is what is given."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from tests import inprocess
from tests.checkpoints import small_files
from tests.fakes.clusters import ClusterApi
from tests.fakes.gcs import Bucket, serving
from tests.stories import ROOT
from xsft.environments.installed import BuiltEnvironment

XSFT = Path(sys.executable).with_name("xsft")
IMAGE = {"ref": f"us-docker.pkg.dev/my-project/xsft/post-training@sha256:{'0' * 64}", "maxtext": "0.2.5"}
"""In place of the one under images/, which this machine never pushed."""
ROWS = (ROOT / "tests" / "fakes" / "rows.parquet").read_bytes()
"""One conversation, written by pyarrow."""
INPUTS = {
    f"deepseek3-671b/0/items/{name}": content for name, content in small_files("deepseek3-671b", axis=0).items()
} | {f"ultrachat_200k/train_sft-{shard:05}-of-01024.parquet": ROWS for shard in range(1024)}
"""What the shown workloads start from: weights, and the shards of rows that 128 hosts read."""


@dataclass
class Machine:
    folder: Path
    api: ClusterApi
    bucket: Bucket
    env: dict[str, str] = field(default_factory=dict)

    def workload(
        self, story: str = "deepseek_ultrachat", *, place: Mapping[str, Any] | None = None, **changes: Any
    ) -> Path:
        """One of the shown workloads, sent to this machine's cluster; `changes` are top-level sections."""
        main = yaml.safe_load((ROOT / "places.yaml").read_text(encoding="utf-8"))["main"]
        shared = {key: value for key, value in main.items() if key not in ("project", "zone", "cluster")}
        document = yaml.safe_load((ROOT / "workloads" / f"{story}.yaml").read_text(encoding="utf-8"))
        document |= {"place": {**shared, **(place or {"context": self.api.context})}, "image": IMAGE}
        document |= {**self._namespace, **changes}
        if template := document["data"].get("chat_template"):
            shutil.copy(ROOT / "workloads" / template, self.folder)
        file = self.folder / "w.yaml"
        file.write_text(yaml.safe_dump({k: v for k, v in document.items() if v is not None}), encoding="utf-8")
        return file

    def xsft(
        self, *arguments: object, closed: bool = False, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`closed`: as a process, without even a standard input; else in this process, which saves a second each."""
        if closed:
            return self.run("sh", "-c", 'exec "$@" <&-', "sh", str(XSFT), *map(str, arguments), env=env)
        with patch.dict(os.environ, {**self.env, **(env or {})}, clear=True), chdir(self.folder):
            return inprocess.xsft(*map(str, arguments))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """`xsft` as a process that is not waited for."""
        argv, pipe = (str(XSFT), *arguments), subprocess.PIPE
        return subprocess.Popen(argv, env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=pipe, text=True)

    def python(self, program: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-c", program)

    def run(self, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            env={**self.env, **(env or {})},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    @property
    def jobsets(self) -> list[dict[str, Any]]:
        return list(self.api.world.jobsets().values())

    @property
    def _namespace(self) -> dict[str, str]:
        return {} if self.api.namespace == "default" else {"namespace": self.api.namespace}


@contextmanager
def machine(folder: Path, *, environments: Path, api: ClusterApi) -> Iterator[Machine]:
    """`environments`: the folder that holds xpk's environment. Beside it is what xpk rendered for other tests, and what
    MaxText's parser answered: the same line gives the same manifest.
    """
    cache, rendered, answers = (
        folder / "cache",
        environments.with_name("renders"),
        environments.with_name("parser-answers"),
    )
    cache.mkdir()
    rendered.mkdir(exist_ok=True)
    answers.mkdir(exist_ok=True)
    (cache / "envs").symlink_to(environments)
    (cache / "renders").symlink_to(rendered)
    (cache / "parser-answers").symlink_to(answers)
    with serving(Bucket(dict(INPUTS))) as bucket:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "KUBECONFIG": str(api.kubeconfig),
            "STORAGE_EMULATOR_HOST": bucket.url,
            "XSFT_CACHE_DIR": str(cache),
            "XSFT_STATE_DIR": str(folder / "state"),
            "LANG": "C.UTF-8",
        }
        loader = os.environ.get("LD_LIBRARY_PATH")
        yield Machine(folder, api, bucket, {**env, **({"LD_LIBRARY_PATH": loader} if loader else {})})


@pytest.fixture
def here(tmp_path: Path, xpk_environment: BuiltEnvironment, cluster_api: ClusterApi) -> Iterator[Machine]:
    """A machine with the real xpk, a cluster and a bucket."""
    with machine(tmp_path, environments=xpk_environment.folder.parent, api=cluster_api) as machines:
        yield machines


@pytest.fixture
def without_hub(here: Machine) -> None:
    """The hub refuses connections; its token is a Secret of the cluster."""
    here.api.connect().create_secret(name="hf-token", namespace=here.api.namespace, data={"token": b"x"})
    here.env["HF_ENDPOINT"] = "http://127.0.0.1:9"
