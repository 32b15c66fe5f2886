"""Keys of the trainer exist in the release and can be carried by the command line."""

from __future__ import annotations

from tests.checks.factory import DROP, GOOD, ids, problems, spec
from xsft.checks.trainer_keys import ARGUMENT_LIMIT, FIELD_OF, where_of
from xsft.checks.trainer_keys import check_trainer_keys as check
from xsft.spec.model import WorkloadSpec


def overriding(**keys: object) -> WorkloadSpec:
    return spec(overrides={"maxtext": keys})


def test_unknown_key_is_refused_with_a_suggestion():
    (problem,) = problems(check, overriding(remat_polcy="full"))
    assert (problem.id, problem.severity, problem.where) == (
        "maxtext-key-unknown",
        "error",
        "overrides.maxtext.remat_polcy",
    )
    assert "remat_policy" in problem.fix


def test_removed_key_is_refused_only_in_releases_without_it():
    old = spec(image={"maxtext": "0.2.4"}, overrides={"maxtext": {"enable_nnx": True}})
    assert "maxtext-key-unknown" in ids(check, overriding(enable_nnx=True))
    assert ids(check, old) == set()


def test_nested_keys_are_known_by_their_whole_name():
    assert ids(check, overriding(**{"lora.lora_tile_size": 128})) == set()
    assert ids(check, overriding(**{"lora.lora_tile": 128})) == {"maxtext-key-unknown"}
    (problem,) = problems(check, overriding(lora_tile_size=128))
    assert problem.fix == "Write lora.lora_tile_size."


def test_field_whose_key_the_release_lacks_is_refused():
    (problem,) = problems(check, spec(image={"maxtext": "0.2.0"}, data={"formatting_func": "my.module"}))
    assert (problem.id, problem.where) == ("field-needs-release", "data.formatting_func")
    assert "field-needs-release" not in ids(check, spec(data={"formatting_func": "my.module"}))


def test_lora_key_newer_than_the_release_is_refused():
    lora = {"rank": 8, "alpha": 16, "weight_qtype": "nf4"}
    assert ids(check, spec(image={"maxtext": "0.2.3"}, lora=lora)) == {"field-needs-release"}
    assert ids(check, spec(lora=lora)) == set()


def test_override_of_hf_access_token_is_refused():
    assert ids(check, overriding(hf_access_token="x")) == {"hf-access-token"}


def test_key_of_the_model_configuration_needs_override_model_config():
    assert ids(check, overriding(base_emb_dim=64)) == {"override-model-key"}
    assert ids(check, overriding(base_emb_dim=1024)) == set()
    assert ids(check, overriding(base_emb_dim=64, override_model_config=True)) == set()


def test_values_that_the_command_line_cannot_carry_are_refused():
    token = "hf" + "_" + "a" * 30
    (problem,) = problems(check, overriding(wandb_run_name=token))
    assert problem.id == "override-secret"
    assert token not in problem.message + problem.fix
    assert ids(check, overriding(wandb_run_name="${oc.env:HOME}")) == {"override-interpolation"}
    assert ids(check, overriding(wandb_run_name="plain")) == set()


def test_argument_beyond_the_length_limit_is_refused():
    room = ARGUMENT_LIMIT - len("wandb_run_name=")
    assert ids(check, overriding(wandb_run_name="a" * room)) == set()
    assert ids(check, overriding(wandb_run_name="a" * (room + 1))) == {"argument-too-long"}
    assert ids(check, overriding(wandb_run_name="é" * (room // 2))) == {"argument-too-long"}, "and two quotes"


def test_environment_names_that_maxtext_reads_as_keys_are_reported():
    clash, beside = problems(check, spec(env={"M_STEPS": "5", "M_REMAT_POLICY": "full", "PLAIN": "1"}))
    assert (clash.id, clash.severity, clash.where) == ("env-maxtext-key", "error", "env.M_STEPS")
    assert (beside.id, beside.severity) == ("env-maxtext-key", "warning")
    assert "overrides.maxtext.remat_policy" in beside.fix


def test_local_run_of_another_release_is_refused_and_legacy_layout_is_noted():
    assert ids(check, spec(target="local", image={"ref": DROP, "maxtext": "0.2.4"})) == {"local-release"}
    assert ids(check, spec(target="local", image={"maxtext": "0.2.4"})) == set()
    assert ids(check, spec(target="local")) == set()
    assert ids(check, spec(image={"maxtext": "0.1.0"})) == {"legacy-layout"}


def test_every_field_named_exists_in_the_workload():
    fields = WorkloadSpec.model_fields
    assert {path.partition(".")[0] for path in FIELD_OF.values()} <= set(fields)
    for path in FIELD_OF.values():
        section, _, leaf = path.partition(".")
        if leaf:
            annotation = str(fields[section].annotation)
            assert annotation
            assert leaf in _leaves(section), path


def _leaves(section: str) -> set[str]:
    from xsft.spec import sections

    return set(getattr(sections, section.capitalize()).model_fields)


def test_problems_of_mesh_keys_are_placed_by_rule():
    from tests.checks.factory import run_of

    assert where_of("ici_fsdp_parallelism", run_of(spec())) == "parallelism.ici.fsdp"
    assert GOOD["train"]["steps"] == 500
