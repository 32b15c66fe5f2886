from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from tests.tools.maxtext_release import defects_in
from xsft.catalog import releases
from xsft.catalog.data import toml

VERSIONS = releases.versions()
ANY_VERSION = st.sampled_from(VERSIONS)


def test_releases_are_in_order() -> None:
    assert VERSIONS[0] == "0.1.0"
    numbers = [Version(version) for version in VERSIONS if version[0].isdigit()]
    assert numbers == sorted(numbers)
    assert releases.DEFAULT in VERSIONS
    assert releases.at_least("0.2.4", "0.2.3")
    assert not releases.at_least("tutorial-v1.5.0", "0.2.0")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_layout_follows_the_version(version: str) -> None:
    current = releases.at_least(version, "0.2.0")
    assert releases.release(version).layout == ("current" if current else "legacy")
    assert releases.release(version).trainer.startswith("maxtext." if current else "MaxText.")
    assert releases.release(version).sft_config.startswith("src/maxtext/" if current else "src/MaxText/")


def test_unknown_release_error_lists_the_known_releases() -> None:
    with pytest.raises(
        ValueError, match=r"'0\.2\.5x' is not a release xsft knows\. Did you mean '0\.2\.5'\? Known: 0\.1\.0, tutorial"
    ):
        releases.release("0.2.5x")


@pytest.mark.parametrize(
    ("version", "count"),
    [
        ("0.1.0", 384),
        ("tutorial-v1.5.0", 540),
        ("0.2.0", 638),
        ("0.2.2", 724),
        ("0.2.3", 734),
        ("0.2.4", 774),
        ("0.2.5", 865),
    ],
)
def test_each_release_has_its_number_of_keys(version: str, count: int) -> None:
    assert len(releases.keys(version)) == count
    assert {"run_name", "steps", "model_name", "base_output_directory"} <= releases.keys(version)


@given(st.sampled_from(sorted(releases.keys(releases.DEFAULT))))
def test_top_level_key_is_accepted_unless_it_only_has_sub_keys(key: str) -> None:
    assert releases.key_ok(key) != (key in ("lora", "dpo"))
    assert releases.DEFAULT in releases.releases_with(key)


@given(ANY_VERSION, st.text(alphabet="abcdefgnlor_.", min_size=1, max_size=15))
def test_a_refused_key_always_gets_a_hint(version: str, key: str) -> None:
    if not releases.key_ok(key, version=version):
        assert releases.key_hint(key, version=version).endswith((".", "?"))


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("lora_rank", "Write lora.lora_rank."),
        ("lora", "Set one of its sub-keys: lora.enable_lora"),
        ("enable_nnx", f"The SFT trainer has it only in MaxText 0.1.0 to main-2026-08-22, not in {releases.DEFAULT}."),
        ("cosine_learning_rate_final_fraction", f"MaxText {releases.DEFAULT} calls it learning_rate_final_fraction."),
        ("max_seq_length", "calls it max_target_length"),
        ("num_generations", "RL trainer"),
        ("step", "Did you mean steps"),
        ("lora.rank", "lora.lora_rank"),
        ("zzzzz", "has no such key; remove it."),
    ],
)
def test_key_hint_explains_each_kind_of_wrong_key(key: str, hint: str) -> None:
    assert not releases.key_ok(key)
    assert hint in releases.key_hint(key)


def test_renamed_key_has_a_new_name_in_the_newest_release() -> None:
    table = toml("renamed_keys.toml")
    for old, new in {**table["renamed"], **table["others"]}.items():
        assert not releases.key_ok(old), old
        assert releases.new_name(old) == new


def test_new_name_is_none_where_the_release_accepts_the_old_name() -> None:
    assert releases.new_name("cosine_learning_rate_final_fraction", version="0.1.0") is None


def test_nested_keys_come_with_the_release_that_brought_them() -> None:
    assert releases.nested_key_ok("lora.lora_rank")
    assert not releases.nested_key_ok("lora.lora_rank", version="0.2.2")
    assert not releases.nested_key_ok("lora.lora_weight_qtype", version="0.2.3")
    assert not releases.nested_key_ok("lora.")
    assert not releases.nested_key_ok("lora_rank")


def since(version: str) -> tuple[str, ...]:
    return VERSIONS[VERSIONS.index(version) :]


def test_release_facts_hold_from_their_first_release_on() -> None:
    assert tuple(v for v in VERSIONS if releases.release(v).moe_eval_crash) == since("0.2.3")
    assert {v for v in VERSIONS if releases.release(v).positional_yml} == {*VERSIONS[:4], "0.2.0"}
    assert {v for v in VERSIONS if releases.release(v).hf_access_token_none} == set(VERSIONS[1:4])
    assert {v for v in VERSIONS if not releases.release(v).lazy_load_flag} == {"0.1.0", "tutorial-v1.0.0"}
    assert tuple(v for v in VERSIONS if releases.release(v).scan_layers_auto) == since("0.2.4")


def test_each_release_has_its_models() -> None:
    assert "deepseek3-671b" in releases.models_of("0.1.0")
    assert "qwen3-1.7b" not in releases.models_of("0.2.0")
    assert {"qwen3-1.7b", "default"} <= releases.models_of("0.2.1")
    assert not {"context", "offload", "remat"} & releases.models_of("0.1.0")


def test_a_defect_ends_after_it_began() -> None:
    for name, row in toml("release_defects.toml").items():
        assert "fixed" not in row or VERSIONS.index(row["since"]) < VERSIONS.index(row["fixed"]), name
        assert releases.release(row["since"]), name


@pytest.mark.contract
def test_the_installed_maxtext_has_the_defects_of_its_release(maxtext_python: Path) -> None:
    folder = maxtext_python.parents[1] / "lib"
    (package,) = folder.glob("python*/site-packages/maxtext")
    rows = toml("release_defects.toml")
    assert set(defects_in(package)) == {name for name, row in rows.items() if "fixed" not in row}, (
        "make maxtext-release shows which of them a release still has"
    )


@pytest.mark.contract
def test_keys_and_models_equal_those_of_the_installed_maxtext(maxtext_facts: dict[str, Any]) -> None:
    assert releases.keys(releases.DEFAULT) == set(maxtext_facts["keys"])
    assert releases.models_of(releases.DEFAULT) == set(maxtext_facts["models"])
    nested = {parent: sorted(children) for parent, children in releases.release(releases.DEFAULT).nested.items()}
    assert nested == maxtext_facts["nested"]
