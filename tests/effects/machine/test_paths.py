from __future__ import annotations

from pathlib import Path

import pytest

from xsft.effects.machine import paths

HOME = Path("/home/ada")


@pytest.mark.parametrize(
    ("env", "cache", "state"),
    [
        ({}, "/home/ada/.cache/xsft", "/home/ada/.local/state/xsft"),
        ({"XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/xsft", "/s/xsft"),
        ({"XDG_CACHE_HOME": "relative", "XDG_STATE_HOME": ""}, "/home/ada/.cache/xsft", "/home/ada/.local/state/xsft"),
        ({"XSFT_CACHE_DIR": "/mine", "XSFT_STATE_DIR": "/my-state", "XDG_CACHE_HOME": "/c"}, "/mine", "/my-state"),
    ],
)
def test_folders_follow_xdg_and_the_overrides(env: dict[str, str], cache: str, state: str) -> None:
    assert str(paths.cache_dir(env, home=HOME)) == cache
    assert str(paths.state_dir(env, home=HOME)) == state
