from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hfmodels import write_model
from xsft.base.errors import UsageError
from xsft.environments.installed import BuiltEnvironment
from xsft.stages.verify import refuse_unreadable, served_model


@pytest.fixture
def engine(tmp_path: Path) -> BuiltEnvironment:
    """An engine that reads qwen3, and qwen4 as qwen3."""
    package = tmp_path / "engine/lib/python3.12/site-packages/mlx_lm"
    (package / "models").mkdir(parents=True)
    (package / "models/qwen3.py").touch()
    (package / "utils.py").write_text('import json\n\nMODEL_REMAPPING = {\n    "qwen4": "qwen3",  # alike\n}\n')
    return BuiltEnvironment(name="engine", python=tmp_path / "engine/bin/python", digest="0" * 64, version="0.32.2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def typed(folder: Path, model_type: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": model_type}))


def refused(folder: Path, engine: BuiltEnvironment) -> UsageError:
    with pytest.raises(UsageError) as caught:
        served_model(folder, engine=engine)
    assert str(folder) in caught.value.message
    assert caught.value.fix
    return caught.value


def test_a_complete_model_is_served_by_its_absolute_path(folder: Path, engine: BuiltEnvironment) -> None:
    model = served_model(folder, engine=engine)
    assert (model.folder, model.model_type) == (folder.resolve(), "qwen3")


def test_a_model_type_that_the_engine_maps_to_another_is_served(folder: Path, engine: BuiltEnvironment) -> None:
    typed(folder, "qwen4")
    assert served_model(folder, engine=engine).model_type == "qwen4"


@pytest.mark.parametrize("model_type", ["bert", "", "../qwen3", 7, None])
def test_an_unknown_model_type_is_refused_before_the_engine_starts(
    folder: Path, engine: BuiltEnvironment, model_type: object
) -> None:
    typed(folder, model_type)
    assert refused(folder, engine).problem_id == "engine-model-unknown"


def test_an_export_of_a_model_unknown_to_the_engine_is_refused_by_its_name(
    engine: BuiltEnvironment,
) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_unreadable("weaver_omni", named="weaver-7b", engine=engine)
    assert caught.value.problem_id == "engine-model-unknown"
    assert "cannot read weaver-7b" in caught.value.message
    assert "--verify tensors" in caught.value.fix
    refuse_unreadable("qwen4", named="qwen4-1b", engine=engine)
    refuse_unreadable(None, named="unknown", engine=engine)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, engine: BuiltEnvironment, name: str) -> None:
    (folder / name).unlink()
    assert refused(folder, engine).problem_id == "model-incomplete"
    assert name in refused(folder, engine).message


def test_a_missing_shard_of_the_index_is_named(folder: Path, engine: BuiltEnvironment) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    where = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    assert "model-00002-of-00002.safetensors missing" in refused(folder, engine).message


@pytest.mark.parametrize("text", [None, "", "[]", "{"])
def test_a_folder_without_a_readable_config_is_not_a_model(
    folder: Path, engine: BuiltEnvironment, text: str | None
) -> None:
    (folder / "config.json").unlink()
    if text is not None:
        (folder / "config.json").write_text(text)
    assert refused(folder, engine).problem_id == "not-a-model"


def test_a_folder_that_does_not_exist_is_not_a_model(tmp_path: Path, engine: BuiltEnvironment) -> None:
    assert refused(tmp_path / "nothing", engine).problem_id == "not-a-model"


@pytest.mark.parametrize(("kept", "message"), [(-5, "the file is cut off"), (3, "it is not a safetensors file")])
def test_truncated_weights_are_named(folder: Path, engine: BuiltEnvironment, kept: int, message: str) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    problem = refused(folder, engine)
    assert (problem.problem_id, message in problem.message) == ("model-incomplete", True)
