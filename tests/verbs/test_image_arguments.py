"""Values of options that `xsft image` accepts, before anything is read."""

from __future__ import annotations

import pytest

from xsft.verbs.cli import main

OPTIONS = [
    "image",
    "registry",
    "place",
    "maxtext",
    "maxtext-source",
    "tunix-source",
    "base",
    "vllm",
    "code",
    "pip-config",
]


@pytest.mark.parametrize("option", OPTIONS)
def test_an_empty_value_of_an_option_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An unset shell variable: `--code "$MINE"` would else put the current folder into the image."""
    assert main(["image", "show", f"--{option}="]) == 2
    assert f"--{option}: empty value" in capsys.readouterr().err


def test_accept_refuses_every_id_but_the_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "build", "--accept", "image-context-secret"]) == 2
    assert "choose from" in capsys.readouterr().err
