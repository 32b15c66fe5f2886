"""Copy a model's folder from Cloud Storage into a folder of the pod, and check that it is complete.

A pod's container runs the text of this file: `python3 -c TEXT gs://bucket/folder /target`. The container has Python and
google-cloud-storage, and no xsft. It exits 1 with one line if the model is incomplete. A file that exists with the
right size is not copied again.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from google.cloud.storage import Blob, Client

AT_ONCE = 8
"""Files that are copied at the same time."""
INDEX = "model.safetensors.index.json"


def main(source: str, target: Path) -> str:
    """Copy the folder and return a summary.

    Raises ValueError if the model is incomplete, or a copy has another size.
    """
    bucket, _, folder = source.removeprefix("gs://").partition("/")
    prefix = f"{folder.strip('/')}/"
    found = [blob for blob in Client().list_blobs(bucket, prefix=prefix) if not blob.name.endswith("/")]
    sizes = {blob.name.removeprefix(prefix): blob for blob in found}
    check_whole(source, list(sizes))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        copied = list(threads.map(lambda name: copy(sizes[name], target / name), sizes))
    check_index(source, target)
    return f"{len(sizes)} files, {sum(copied)} bytes of {source} are in {target}"


def copy(blob: Blob, file: Path) -> int:
    """Copy one file and return its bytes. The client compares the checksum, this function the size."""
    if not (file.is_file() and file.stat().st_size == blob.size):
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.part")
        blob.download_to_filename(str(part))
        os.replace(part, file)
    if file.stat().st_size != blob.size:
        raise ValueError(f"{file} has {file.stat().st_size} bytes, and {blob.name} in the bucket has {blob.size}")
    return file.stat().st_size


def check_whole(source: str, names: list[str]) -> None:
    """Raise ValueError if the configuration or the weights are missing."""
    has_weights = any(name.endswith(".safetensors") for name in names)
    lacking = [] if "config.json" in names else ["config.json"]
    lacking += [] if has_weights else ["*.safetensors"]
    if lacking:
        raise ValueError(f"{source} is not a complete model: {', '.join(lacking)} missing")


def check_index(source: str, target: Path) -> None:
    """Raise ValueError if a file that the index of a model in several files names is missing."""
    index = target / INDEX
    if not index.is_file():
        return
    named = set(json.loads(index.read_text())["weight_map"].values())
    if absent := sorted(name for name in named if not (target / name).is_file()):
        raise ValueError(f"{source} is not a complete model: {', '.join(absent)} missing")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{main(sys.argv[1], Path(sys.argv[2]))}\n")
    except ValueError as failed:
        sys.exit(f"error: {failed}")
