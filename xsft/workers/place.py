"""The place where a pod keeps its records and results: a bucket, or a mounted folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any


class BucketPlace:
    """Objects in Cloud Storage."""

    def __init__(self) -> None:
        from google.api_core import exceptions
        from google.cloud import storage

        self._missing, self._taken = exceptions.NotFound, exceptions.PreconditionFailed
        self._client = storage.Client(project=os.environ.get("GOOGLE_CLOUD_PROJECT") or "xsft")

    def _blob(self, path: str) -> Any:
        bucket, _, name = path.removeprefix("gs://").partition("/")
        return self._client.bucket(bucket).blob(name)

    def create(self, path: str, text: str) -> bool:
        """Write an object that does not exist yet; return whether it was written."""
        try:
            self._blob(path).upload_from_string(text, content_type="application/json", if_generation_match=0)
        except self._taken:
            return False
        return True

    def overwrite(self, path: str, text: str) -> None:
        self._blob(path).upload_from_string(text, content_type="application/json")

    def read(self, path: str) -> bytes | None:
        try:
            return bytes(self._blob(path).download_as_bytes())
        except self._missing:
            return None

    def has_any(self, folder: str) -> bool:
        bucket, _, name = folder.removeprefix("gs://").partition("/")
        return any(self._client.list_blobs(bucket, prefix=name, max_results=1))

    def upload(self, file: Path, path: str) -> int:
        """Copy a file to an object that does not exist yet, checksum included; return the object's bytes."""
        blob = self._blob(path)
        blob.upload_from_filename(str(file), if_generation_match=0, checksum="crc32c", timeout=600)
        return int(blob.size)


class FolderPlace:
    """Files of a mounted folder."""

    def create(self, path: str, text: str) -> bool:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            return False
        return True

    def overwrite(self, path: str, text: str) -> None:
        beside = Path(f"{path}.new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)

    def read(self, path: str) -> bytes | None:
        return Path(path).read_bytes() if Path(path).is_file() else None

    def has_any(self, folder: str) -> bool:
        """Return whether an entry beside `folder` has a name that begins with its name."""
        return any(Path(folder).parent.glob(f"{Path(folder).name}*"))

    def upload(self, file: Path, path: str) -> int:
        with open(path, "xb") as target, file.open("rb") as source:
            shutil.copyfileobj(source, target, 1 << 24)
        return Path(path).stat().st_size


def place_of(path: str) -> BucketPlace | FolderPlace:
    return BucketPlace() if path.startswith("gs://") else FolderPlace()
