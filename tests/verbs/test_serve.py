"""`xsft serve`: options. The server of a workload: tests/stages/test_serve_on_cluster.py."""

from __future__ import annotations

import pytest

from tests.inprocess import xsft


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("w.yaml", "--port", "8080"), "--port is for a server on this machine."),
        (("folder", "--weights", "gs://my-bucket/x"), "--weights is for a server on a cluster."),
        (("folder", "--dry-run"), "--dry-run is for a server on a cluster."),
    ],
)
def test_options_of_the_other_place_are_refused(options: tuple[str, ...], message: str) -> None:
    done = xsft("serve", *options)
    assert done.returncode == 2
    assert message in done.stderr
