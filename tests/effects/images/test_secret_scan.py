"""A scan finds secrets by their shape, and reads a content that held none only once."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest

from xsft.base.errors import EnvironmentMissing
from xsft.effects.images import context as image_context
from xsft.effects.images.context import read_tree
from xsft.effects.images.secret_scan import RULES, SCANNED, scan
from xsft.image.model import ContextFile

BEGIN = "-----BEGIN PRIVATE" + " KEY-----"
BODY = base64.b64encode(bytes(range(48))).decode()
PEM = f"{BEGIN}\n{BODY}\n-----END\n"
ENCRYPTED = f"{BEGIN.replace('BEGIN', 'BEGIN RSA')}\nProc-Type: 4,ENCRYPTED\nDEK-Info: DES,00\n\n{BODY}\n"
TOKEN = "TOKEN = 'hf_" + "a" * 30 + "'"


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "scans" / "code.json"


def context(folder: Path, **files: str) -> tuple[ContextFile, ...]:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return tuple(read_tree(folder))


def secrets_in(files: tuple[ContextFile, ...], memory: Path) -> dict[str, str]:
    return {f.path: f.secret for f in scan(files, memory=memory) if f.secret}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TOKEN, "token"),
        (PEM, "a private key"),
        (PEM.replace("\n", "\r\n"), "a private key"),
        (f"key: |\n  {PEM}".replace("\n", "\n  "), "a private key"),
        (ENCRYPTED, "a private key"),
        (json.dumps({"type": "service_account", "private_key": PEM}), "a service account key"),
        (json.dumps({"type": "other", "private_key": PEM}), "a private key"),
        (json.dumps({"type": "service_account", "private_key": "from the vault"}), ""),
        ("if b'\"private_key\"' in content and b'\"service_account\"' in content:", ""),
        (f"HEADER = '{BEGIN}'\n", ""),
        (f"a file that begins with {BEGIN}\nand so on: for as long as it takes\n", ""),
        ("from transformers import hf_hub_download", ""),
        ("-----BEGIN CERTIFICATE-----", ""),
    ],
)
def test_secrets_are_found_by_their_shape(tmp_path: Path, memory: Path, text: str, says: str) -> None:
    (found,) = scan(context(tmp_path / "a", a=text), memory=memory)
    assert says in found.secret
    assert bool(found.secret) == bool(says)
    assert "aaaa" not in found.secret


def test_xsfts_own_source_holds_no_secret(memory: Path) -> None:
    """The source contains the patterns of secrets, and with --code it goes into an image."""
    assert secrets_in(tuple(read_tree(Path(image_context.__file__).parents[1])), memory) == {}


def test_only_contents_without_a_secret_are_remembered(tmp_path: Path, memory: Path) -> None:
    files = context(tmp_path / "a", clean="x = 1", leaks=TOKEN)
    assert list(secrets_in(files, memory)) == ["leaks"]
    (tmp_path / "a" / "clean").unlink()
    assert list(secrets_in(files, memory)) == ["leaks"]
    (tmp_path / "a" / "leaks").unlink()
    with pytest.raises(EnvironmentMissing, match="leaks cannot be read"):
        scan(files, memory=memory)


def test_a_changed_file_is_scanned_again(tmp_path: Path, memory: Path) -> None:
    assert secrets_in(context(tmp_path / "a", a="x = 1"), memory) == {}
    assert list(secrets_in(context(tmp_path / "a", a=TOKEN), memory)) == ["a"]
    assert list(secrets_in(context(tmp_path / "a", a=TOKEN, b="x = 1"), memory)) == ["a"]


def test_a_secret_replaced_during_the_scan_is_not_remembered_as_clean(tmp_path: Path, memory: Path) -> None:
    hashed = context(tmp_path / "a", a=TOKEN)
    (tmp_path / "a" / "a").write_text("x = 1")
    assert secrets_in(hashed, memory) == {}
    assert list(secrets_in(context(tmp_path / "a", a=TOKEN), memory)) == ["a"]


def test_changed_rules_scan_every_file_again(tmp_path: Path, memory: Path) -> None:
    files = context(tmp_path / "a", a="x = 1")
    scan(files, memory=memory)
    (tmp_path / "a" / "a").unlink()
    scan(files, memory=memory)
    kept = json.loads(memory.read_text())
    assert kept["rules"] == hashlib.sha256(b"".join(file.read_bytes() for file in RULES)).hexdigest()
    memory.write_text(json.dumps({**kept, "rules": "0" * 64}))
    with pytest.raises(EnvironmentMissing, match="cannot be read"):
        scan(files, memory=memory)


def test_the_files_with_the_rules_exist() -> None:
    assert {file.name for file in RULES} == {"context.py", "secrets.py", "secret_shapes.py", "secret_rules.toml"}
    assert all(file.is_file() for file in RULES)


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[]", b'{"rules": 1, "sha256": []}', b'{"rules": "\xff", "sha256": []}']
)
def test_a_damaged_memory_is_rewritten(tmp_path: Path, memory: Path, damaged: bytes) -> None:
    files = context(tmp_path / "a", a="x = 1")
    scan(files, memory=memory)
    whole = memory.read_bytes()
    memory.write_bytes(damaged)
    assert scan(files, memory=memory) == files
    assert memory.read_bytes() == whole


def test_secrets_are_found_when_the_memory_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert list(secrets_in(context(tmp_path / "a", a=TOKEN, b="1"), tmp_path / "file" / "below" / "code.json")) == ["a"]


def test_files_over_the_size_limit_are_not_scanned(tmp_path: Path, memory: Path) -> None:
    assert list(secrets_in(context(tmp_path / "a", a=TOKEN.ljust(SCANNED)), memory)) == ["a"]
    assert secrets_in(context(tmp_path / "a", a=TOKEN.ljust(SCANNED + 1)), memory) == {}
    assert not memory.exists()
