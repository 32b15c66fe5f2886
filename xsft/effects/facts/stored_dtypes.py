"""Reads the dtypes of a checkpoint's arrays out of an OCDBT store. Runs as a program in MaxText's environment.

usage: stored_dtypes.py PATH. Prints one JSON object. Reads `.zarray` and `zarr.json` only, never an array.
source: tensorstore's ocdbt key-value store; zarr v2 (`dtype`) and v3 (`data_type`) specifications.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MAX_ARRAYS = 256
"""Whose files are read, at most."""
FILES = (b"/.zarray", b"/zarr.json")
V2 = {"f2": "float16", "f4": "float32", "f8": "float64", "i4": "int32", "i8": "int64", "u4": "uint32", "b1": "bool"}


def dtype_of(document: dict[str, Any]) -> str | None:
    """As NumPy names it; None where the document tells none. Public: files outside a store are read by it too."""
    given = document.get("data_type", document.get("dtype"))
    if not isinstance(given, str):
        return None
    return V2.get(given.lstrip("<>|="), given)


def main(path: str) -> None:
    import tensorstore  # type: ignore[import-not-found]  # only MaxText's environment has it

    base = path.rstrip("/") + "/" if path.startswith("gs://") else {"driver": "file", "path": path.rstrip("/") + "/"}
    store = tensorstore.KvStore.open({"driver": "ocdbt", "base": base}).result()
    keys = [key for key in store.list().result() if key.endswith(FILES) and not _is_state(key)]
    contents = [store.read(key).result().value for key in keys[:MAX_ARRAYS]]
    names = {dtype_of(json.loads(content)) for content in contents}
    why = f"of {MAX_ARRAYS} of {len(keys)} arrays" if len(keys) > MAX_ARRAYS else ""
    said = {"dtypes": sorted(name for name in names if name), "why": why, "bytes_read": sum(map(len, contents))}
    sys.stdout.write(f"{json.dumps(said)}\n")


def _is_state(key: bytes) -> bool:
    """MaxText saves the step's number and its random generators' state beside the weights."""
    return key.startswith(b"step/") or b"rngs" in key


if __name__ == "__main__":
    main(sys.argv[1])
