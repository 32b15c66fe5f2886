"""The location of TensorBoard's files is where MaxText writes them."""

from __future__ import annotations

from pathlib import Path

from tests.localruns import local_plan
from xsft.trainer.metrics import open_command, tensorboard_lines


def test_tensorboard_lines_name_metrics_and_a_requested_profile(tmp_path: Path) -> None:
    plain = local_plan(tmp_path).run
    assert list(tensorboard_lines(plain, folder="gs://b/runs/a/")) == ["tensorboard  gs://b/runs/a/tensorboard"]
    traced = local_plan(tmp_path, train__profiler="xplane").run
    assert list(tensorboard_lines(traced, folder="gs://b/runs/a"))[1:] == [
        "profile      gs://b/runs/a/tensorboard/plugins/profile"
    ]


def test_tensorboard_command_opens_the_folder_of_the_run() -> None:
    assert open_command("/runs/a")[-2:] == ("--logdir", "/runs/a/tensorboard")
