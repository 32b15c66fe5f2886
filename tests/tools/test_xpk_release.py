from __future__ import annotations

import pytest

from tests.everything import everything
from tests.tools import xpk_release as tool
from xsft.checks.facts import Facts
from xsft.environments.installed import BuiltEnvironment
from xsft.launcher.xpk import xpk_argv
from xsft.spec.resolve import resolve


def test_differences_lists_new_gone_and_changed_options() -> None:
    before = {"create": {"--a": "1", "--b": "None", "--c": "2"}}
    after = {"create": {"--b": "None", "--c": "3", "--d": "''"}, "create-new": {"--e": "0"}}
    assert list(tool.differences(before, after)) == [
        "create --d: new, default ''",
        "create --a: gone",
        "create --c: default 2 -> 3",
        "create-new --e: new, default 0",
    ]
    assert list(tool.differences(before, before)) == []


def test_pinned_replaces_only_the_version_of_xpk() -> None:
    assert tool.pinned("# why\nxpk==1.16.0\n", "9.9.9") == "# why\nxpk==9.9.9\n"
    assert "\nxpk==9.9.9\n" in tool.pinned(tool.PIN.read_text(), "9.9.9")
    with pytest.raises(ValueError, match="0 lines"):
        tool.pinned("# nothing", "1.0.0")


@pytest.mark.contract
@pytest.mark.parametrize("mode", ["mcjax", "pathways"])
def test_every_flag_that_xsft_passes_is_compared(xpk_environment: BuiltEnvironment, mode: str) -> None:
    _, _, verb, *flags_given = xpk_argv(resolve(everything(mode=mode), Facts())[0])
    flags_known = tool.flags(xpk_environment)[verb]
    assert {word.partition("=")[0] for word in flags_given} <= flags_known.keys()
