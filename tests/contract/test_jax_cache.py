"""JAX's cache of compiled programs in a bucket, read and written by the libraries that the image pins."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.fakes.gcs import Bucket, serving

pytestmark = pytest.mark.contract

REQUIREMENTS = Path(__file__).parents[2] / "images" / "post_training" / "requirements.txt"
LIBRARIES = ("jax", "jaxlib", "etils", "fsspec", "gcsfs")
PROGRAM = """\
import sys
import jax, jax.numpy as jnp
from jax.experimental.compilation_cache import compilation_cache
compilation_cache.set_cache_dir(sys.argv[1])  # as maxtext@0.2.5 configs/pyconfig.py does with jax_cache_dir
print(jax.jit(lambda x: x @ x)(jnp.ones((4, 4)))[0, 0])
"""
AT_ONCE = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
"""Also cache programs that compile in less than a second."""
NO_GRPC = {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
"""The stand-in serves HTTP only; gcsfs would wait a minute for gRPC."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, maxtext_python: Path) -> Path:
    """The interpreter of an environment with the versions of the image's lock."""
    folder = tmp_path_factory.mktemp("jax") / "venv"
    pins = [line for name in LIBRARIES for line in re.findall(rf"^{name}==\S+", REQUIREMENTS.read_text(), re.MULTILINE)]
    assert len(pins) == len(LIBRARIES)
    subprocess.run((find_uv_bin(), "venv", "-q", "--python", maxtext_python, folder), check=True)
    into = ("pip", "install", "-q", "--python", folder / "bin" / "python", "--constraints", REQUIREMENTS)
    subprocess.run((find_uv_bin(), *into, *pins, "importlib_resources", "zipp", "typing_extensions"), check=True)
    return folder / "bin" / "python"


def test_a_second_start_reads_what_the_first_one_compiled(python: Path) -> None:
    with serving(Bucket(objects={})) as bucket:
        first = run(python, bucket)
        assert first.stderr == ""
        compiled = [name for name in bucket.objects if name.startswith("runs/jax_cache/jit__lambda-")]
        assert len(compiled) == 1
        bucket.asked.clear()
        second = run(python, bucket)
    assert (second.stdout, second.stderr) == (first.stdout, "")
    assert any(line.startswith("GET /download/") and "jit__lambda-" in line for line in bucket.asked)
    assert not any(line.startswith("POST") for line in bucket.asked)


def test_a_bucket_that_refuses_is_only_a_warning(python: Path) -> None:
    with serving(Bucket(objects={}, status=403)) as bucket:
        refused = run(python, bucket)
    assert refused.stdout == "4.0\n"
    assert "UserWarning: Error reading persistent compilation cache entry" in refused.stderr


def run(python: Path, bucket: Bucket) -> subprocess.CompletedProcess[str]:
    env = {
        "PATH": os.environ["PATH"],
        "JAX_PLATFORMS": "cpu",
        "STORAGE_EMULATOR_HOST": bucket.url,
        **AT_ONCE,
        **NO_GRPC,
    }
    argv = (python, "-c", PROGRAM, f"gs://{bucket.name}/runs/jax_cache")
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
