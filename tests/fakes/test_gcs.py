"""The stand-in for Cloud Storage answers whole, even to concurrent clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.request import urlopen

from tests.fakes.gcs import PAGE, Bucket, serving


def listed(bucket: Bucket, query: str = "") -> dict[str, list[object]]:
    with urlopen(f"{bucket.url}/storage/v1/b/my-bucket/o?prefix=a/&delimiter=/{query}") as answer:
        listing: dict[str, list[object]] = json.load(answer)
    return listing


class Watched(dict[str, bytes]):
    """Says whether its names are read while no other thread can store."""

    bucket: Bucket
    alone = False

    def __iter__(self) -> Iterator[str]:
        self.alone = self.bucket.lock.locked()
        return super().__iter__()


def test_a_list_reads_all_names_of_objects_before_any_store() -> None:
    """A dictionary that grows while it is read ends the list with RuntimeError."""
    objects = Watched({"a/1": b"", "a/2": b""})
    with serving(Bucket(objects)) as bucket:
        objects.bucket = bucket
        assert len(listed(bucket)["items"]) == 2
    assert objects.alone


def test_a_list_of_many_folders_is_answered_in_pages() -> None:
    with serving(Bucket({f"a/{n}/x": b"" for n in range(PAGE + 5)})) as bucket:
        first = listed(bucket)
        second_page = listed(bucket, f"&pageToken={first['nextPageToken']}")
    assert (len(first["prefixes"]), len(second_page["prefixes"])) == (PAGE, 5)
    assert "nextPageToken" not in second_page
