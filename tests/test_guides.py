"""The guides' examples are what the code makes of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xsft.catalog import releases
from xsft.effects.environments.installed import BuiltEnvironment
from xsft.importer.build import import_paste
from xsft.spec.reader import read_spec

GUIDES = Path(__file__).parent.parent / "docs" / "guides"
TUTORIAL = GUIDES / "from-a-tutorial.md"
AFTER = (GUIDES / "after-training.md").read_text(encoding="utf-8")
MODULE = "maxtext.checkpoint_conversion.to_huggingface"


def test_the_yaml_of_the_tutorial_page_is_what_the_page_imports_to() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    (written,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    imported, page = read_spec(import_paste(text).yaml), read_spec(written)
    assert imported.model_dump(exclude={"train"}) == page.model_dump(exclude={"train"})
    assert imported.train.model_dump(exclude={"checkpoint_period"}) == page.train.model_dump(
        exclude={"checkpoint_period"}
    )


def test_every_variable_of_the_tutorial_is_in_the_table() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    table = "".join(line for line in text.splitlines() if line.startswith("|"))
    exported = re.findall(r"^export (\w+)=", text, re.MULTILINE)
    assert len(exported) > 10
    assert [name for name in exported if f"`{name}`" not in table] == []


def test_the_export_names_keys_that_the_release_has() -> None:
    given = re.findall(r"\b([a-z_.]+)=", AFTER.partition(MODULE)[2].partition("```")[0])
    assert len(given) == 7
    assert releases.release("0.2.5").to_huggingface == MODULE
    assert [key for key in (*given, "lora.lora_restore_path") if not releases.key_ok(key)] == []


@pytest.mark.contract
def test_the_program_that_exports_is_in_the_release(maxtext_environment: BuiltEnvironment) -> None:
    path = f"lib/python3.12/site-packages/{MODULE.replace('.', '/')}.py"
    program = (maxtext_environment.folder / path).read_text(encoding="utf-8")
    assert "--override_model_architecture" in program
    assert "HF_AUTH_TOKEN" in program
