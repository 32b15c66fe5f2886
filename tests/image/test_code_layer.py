"""The code's layers and the documents of the image that has them, without an engine and without a disk."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.image.materials import file
from xsft.image.code_layer import (
    DepsRecord,
    ImageDocuments,
    Layer,
    code_files,
    digest_of,
    has_code,
    is_same_image,
    program_files,
    with_layers,
)

SITE = "usr/lib/site"
INSTALLED = {
    path: file(path, content).sha256
    for path, content in {
        "same.py": b"1",
        "a/changed.py": b"1",
        "gone.py": b"1",
        "words.bin": b"1",
        "x.yml": b"",
    }.items()
}
RECORD = DepsRecord(lock_sha256="l", site=SITE, cache_tag="cpython-312", packages={"maxtext": INSTALLED})
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"
LAYERS = (Layer(digest="sha256:p", diff_id="sha256:P", size=1), Layer(digest="sha256:c", diff_id="sha256:C", size=2))


def test_a_fork_is_the_files_that_differ_and_whiteouts() -> None:
    fork = {"same.py": b"1", "a/changed.py": b"2", "new.py": b"3"}
    files = code_files([file(f"maxtext/{path}", content) for path, content in fork.items()], RECORD)
    assert sorted(entry.path.removeprefix(f"{SITE}/maxtext/") for entry in files) == [
        ".wh.gone.py",
        ".wh.x.yml",
        "__pycache__/.wh.gone.cpython-312.pyc",
        "a/__pycache__/.wh.changed.cpython-312.pyc",
        "a/changed.py",
        "new.py",
    ], "data that the fork lacks stays"
    assert all(entry.size == 0 for entry in files if ".wh." in entry.path)


def test_code_and_programs_have_their_own_folders_and_layers() -> None:
    files = [file("code/hooks.py"), file("xsft/evaluate.zip"), file("tunix/a.py")]
    assert [entry.path for entry in program_files(files)] == ["usr/share/xsft/programs/evaluate.zip"]
    assert [entry.path for entry in code_files(files, RECORD)] == ["app/code/hooks.py", f"{SITE}/tunix/a.py"]


def deps(media_type: str = OCI, **settings: Any) -> ImageDocuments:
    configuration = {
        "created": "2026-01-01T00:00:00Z",
        "container": "of the build",
        "config": {"Env": ["A=1", "PYTHONPATH=/old"], "Labels": {"dev.xsft.maxtext.version": "0.2.5"}, **settings},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:D"]},
        "history": [{"created_by": "deps"}],
    }
    configuration_bytes = json.dumps(configuration).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": {"mediaType": "c", "digest": digest_of(configuration_bytes), "size": 1},
        "layers": [{"mediaType": "l", "digest": "sha256:d", "size": 3}],
    }
    return ImageDocuments(
        media_type=media_type, manifest=json.dumps(manifest).encode(), configuration=configuration_bytes
    )


@pytest.mark.parametrize("media_type", [OCI, DOCKER])
def test_layers_are_added_to_manifest_and_configuration(media_type: str) -> None:
    image = with_layers(deps(media_type), LAYERS, user="1:2")
    manifest, configuration = json.loads(image.manifest), json.loads(image.configuration)
    assert [layer["digest"] for layer in manifest["layers"]] == ["sha256:d", "sha256:p", "sha256:c"]
    assert manifest["layers"][-1]["mediaType"].endswith("tar+gzip" if media_type == OCI else "tar.gzip")
    assert manifest["config"]["digest"] == digest_of(image.configuration)
    assert configuration["rootfs"]["diff_ids"] == ["sha256:D", "sha256:P", "sha256:C"]
    assert len(configuration["history"]) == 3
    assert "container" not in configuration
    assert configuration["config"]["User"] == "1:2"
    assert configuration["config"]["Env"] == ["A=1", "PYTHONPATH=/app/code"]
    assert configuration["config"]["Labels"] == {"dev.xsft.maxtext.version": "0.2.5", "dev.xsft.kind": "code"}


def test_the_same_inputs_give_the_same_digest_and_any_other_another() -> None:
    image = with_layers(deps(), LAYERS, user="0:0")
    assert image.digest == with_layers(deps(), LAYERS, user="0:0").digest
    others = (
        with_layers(deps(), LAYERS, user="1:0"),
        with_layers(deps(), LAYERS[:1], user="0:0"),
        with_layers(deps(Cmd=["x"]), LAYERS, user="0:0"),
    )
    assert image.digest not in {other.digest for other in others}


def test_an_image_whose_layer_was_compressed_otherwise_is_the_same() -> None:
    image = with_layers(deps(), LAYERS, user="0:0")
    other_zlib = (LAYERS[0], Layer(digest="sha256:z", diff_id="sha256:C", size=3))
    assert is_same_image(image, with_layers(deps(), other_zlib, user="0:0"))
    assert not is_same_image(image, with_layers(deps(), LAYERS, user="1:0"))


def test_code_on_another_build_of_the_dependencies_is_recognised_and_labels_are_not() -> None:
    rebuilt = with_layers(deps(Cmd=["x"]), LAYERS, user="0:0")
    assert has_code(rebuilt, LAYERS)
    for forged in (deps(Labels={"dev.xsft.kind": "code"}), with_layers(deps(), LAYERS[:1], user="0:0")):
        assert not has_code(forged, LAYERS)
    for configuration in (b"{}", b'{"rootfs": {"diff_ids": null}}', b"[]", b"["):
        assert not has_code(ImageDocuments(media_type=OCI, manifest=b"", configuration=configuration), LAYERS)
