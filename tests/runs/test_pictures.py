from __future__ import annotations

from tests.verbs.test_card_loss_plot import FALLING
from xsft.runs.pictures import comparison_picture, loss_picture


def test_a_picture_of_losses_is_a_png_of_800_by_450() -> None:
    content = loss_picture(FALLING, title="tiny-local")
    assert content.startswith(b"\x89PNG\r\n")
    assert (int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")) == (800, 450)


def test_a_comparison_of_several_runs_is_one_png() -> None:
    content = comparison_picture({"a $x_{": FALLING, "_b": {1: 2.0}, "c": {}})
    assert content.startswith(b"\x89PNG\r\n")
    assert content != comparison_picture({"a $x_{": FALLING})
