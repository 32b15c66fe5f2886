"""Pasted plans of xsft give the same line, arguments and environment again; lines of users are imported."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.checks.factory import FLAGSHIP
from tests.importing.pastes import CURRENT, EXPORTS, flags, paste, pasted
from tests.importing.specs import Tree, workloads
from tests.test_tutorial import BASE, CONVERSIONS, TRAINERS, _intent
from xsft.base.errors import SpecError
from xsft.base.problems import errors_in
from xsft.checks.facts import Facts
from xsft.importing.build import ImportedWorkload, import_paste
from xsft.launcher.encoding import at_first_start
from xsft.planning.gather import template_facts
from xsft.planning.planner import make_intent
from xsft.planning.steps import Intent
from xsft.spec.explain import read_spec
from xsft.spec.model import WorkloadSpec
from xsft.spec.place import Place
from xsft.spec.yamltext import load_yaml

ROOT = Path(__file__).parents[2]

NOT_A_PLAN = frozenset(
    {
        *("env-secret", "secret-literal", "override-secret", "command-encoding", "override-has-field"),
        "reshuffle-unshuffled",
    }
)
"""With these a plan is refused, and its line is none that a user could have."""


def again(imported: ImportedWorkload) -> Intent:
    return make_intent(read_spec(imported.yaml), Facts())


def told(p: Intent) -> tuple[str, ...]:
    """The xpk line. xpk has no restarts under Pathways, so an imported line neither has them nor counts them: there the
    seed of the first start stands for what a restart makes of it.
    """
    line = p.xpk_argv or ()
    return tuple(map(at_first_start, line)) if p.run.mode.value == "pathways" else line


def assert_law(p: Intent) -> None:
    assert p.xpk_argv is not None
    imported = import_paste(shlex.join(p.xpk_argv))
    q = again(imported)
    assert told(q) == told(p)
    assert q.trainer_argv == p.trainer_argv
    assert q.trainer_env == p.trainer_env
    assert errors_in(imported.problems) == ()


@pytest.mark.parametrize("release", ["0.1.0", "0.2.5"])
@pytest.mark.parametrize("overrides", [{"packing": 0}, {"packing": 0, "mu_dtype": False}, {"packing": "true"}])
def test_override_in_another_spelling_survives_the_round_trip(release: str, overrides: Tree) -> None:
    tree = {
        "name": "a",
        "mode": "mcjax",
        "place": {"project": "my-project", "zone": "us-east5-b", "cluster": "c"},
        "tpu": {"type": "v6e-8", "num_slices": 1},
        "model": {"name": "qwen3-0.6b", "tokenizer": "Qwen/Qwen3-0.6B"},
        "data": {"hf_path": "x", "columns": ["messages"]},
        "train": {"steps": 5, "per_device_batch_size": 1},
        "image": {"ref": "a/b:c", "maxtext": release},
        "output": "gs://my-bucket/o",
        "overrides": {"maxtext": overrides},
    }
    assert_law(make_intent(WorkloadSpec.model_validate(tree), Facts()))


@settings(
    max_examples=settings().max_examples * 2 // 5,  # each takes about 45 ms
    suppress_health_check=[HealthCheck.filter_too_much],
)
@given(workloads())
def test_planned_line_survives_the_round_trip_to_the_byte(tree: Tree) -> None:
    intent = make_intent(WorkloadSpec.model_validate(tree), Facts())
    assume(intent.xpk_argv is not None)
    assume(not NOT_A_PLAN & {p.id for p in intent.problems})
    assert_law(intent)


WORKLOADS = tuple(sorted(p for p in (ROOT / "workloads").glob("*.yaml") if "target: local" not in p.read_text()))


@pytest.mark.parametrize("file", WORKLOADS, ids=lambda file: file.stem)
def test_shipped_workloads_survive_the_round_trip(file: Path) -> None:
    places = load_yaml((ROOT / "places.yaml").read_text())
    spec = read_spec(file.read_text())
    facts = Facts(
        places={name: Place.model_validate(place) for name, place in places.items()},
        template=template_facts(spec, file=file),
    )
    assert_law(make_intent(spec, facts))


@pytest.mark.parametrize("name", TRAINERS)
def test_tutorial_command_gives_the_plan_of_the_same_values(name: str) -> None:
    """Apart from Pathways' images, which the tutorials leave to xpk."""
    tutorial = TRAINERS[name]
    imported = import_paste(pasted(tutorial))
    ours, theirs = _intent(name), again(imported)
    assert theirs.trainer_argv == ours.trainer_argv
    assert set(ours.xpk_argv or ()) - set(theirs.xpk_argv or ()) - {f"--env=HF_TOKEN_PATH={TOKEN_FILE}"} == {
        f"--{flag}={BASE['place']['pathways'][key]}" for flag, key in IMAGES.items() if tutorial.environment
    }
    assert theirs.trainer_env == {**ours.trainer_env, "HF_TOKEN_PATH": TOKEN_FILE}


TOKEN_FILE = "/etc/xsft/hf-token/token"
IMAGES = {"proxy-server-image": "proxy_image", "server-image": "server_image", "pathways-gcs-location": "scratch"}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversion_is_refused_alone_and_listed_beside_an_xpk_line(name: str) -> None:
    conversion = shlex.join(CONVERSIONS[name].argv)
    with pytest.raises(SpecError) as refused:
        import_paste(conversion)
    assert [p.id for p in refused.value.problems] == ["import-no-line"]
    assert "to_maxtext" in refused.value.problems[0].message
    by_subject = {d.what: d for d in import_paste(f"{conversion}\n{paste()}").differences}
    assert "model.hf" in by_subject["python3 -m MaxText.utils.ckpt_conversion.to_maxtext"].why


def test_pasted_tutorial_with_exports_is_imported() -> None:
    imported = import_paste(paste())
    spec = read_spec(imported.yaml)
    assert imported.problems == ()
    assert (spec.name, spec.run_name_suffix, spec.mode) == ("sft", "date", "mcjax")
    assert spec.model.checkpoint == "gs://my-bucket/ckpt/0/items"
    assert spec.data.columns == ["messages"]
    assert spec.secrets.hf_token is not None
    what = {d.what for d in imported.differences}
    assert {"hf_access_token", "exec", "checkpoint_period", "checkpoint_storage_use_zarr3", "run_name"} <= what


def test_unset_variables_are_reported_and_the_rest_is_imported() -> None:
    imported = import_paste(paste(exports=EXPORTS.replace("export MODEL=deepseek3-671b\n", "").replace("STEPS=", "S=")))
    assert {(p.id, p.where) for p in imported.problems} == {
        ("import-unset", "model.name"),
        ("import-unset", "train.steps"),
    }
    data = load_yaml(imported.yaml)
    assert (data["model"]["name"], data["train"]["steps"]) == ("${MODEL}", "${STEPS}")
    assert data["tpu"] == {"type": "v6e-256", "num_slices": 2}


def test_differences_include_values_that_the_line_lacks() -> None:
    exports = EXPORTS.replace("export STEPS=1000\n", "export UNUSED=1\n")
    imported = import_paste(paste(exports=exports, more=" checkpoint_storage_use_zarr3=False hf_eval_split=x"))
    by_subject = {d.what: (d.given, d.now) for d in imported.differences}
    assert by_subject["checkpoint_storage_use_zarr3"] == ("False", "True")
    assert by_subject["checkpoint_period"] == (None, "a tenth of the steps")
    assert by_subject["$UNUSED"] == ("set", None)
    assert "steps" not in by_subject
    assert "\0" not in repr(imported)


@pytest.mark.parametrize(
    ("tail", "what"),
    [(" | tee log", "tee"), ("; echo done", "echo"), (" && gsutil cp a b", "gsutil"), (" > log 2>&1", "redirection")],
)
def test_commands_after_the_trainer_are_dropped_with_the_reason(tail: str, what: str) -> None:
    reasons = {d.what: d.why for d in import_paste(paste(more=tail)).differences}
    assert "SIGTERM" in reasons[what] or what == "redirection"


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("--headless", "refused-headless"),
        ("--storage=x", "refused-storage"),
        ("--elastic-slices 2", "refused-elastic"),
        ("--flex", "refused-flex"),
        ("--quiet", "delete a running workload"),
        ("--max-restarts=3", "ignores it under Pathways"),
        ("--dry-run", "xsft plan"),
    ],
)
def test_dropped_flags_have_a_reason(flag: str, why: str) -> None:
    text = paste().replace("workload create", "workload create-pathways").strip() + f" {flag}"
    reasons = {d.what: d.why for d in import_paste(text).differences}
    assert why in reasons[flag.replace("=", " ").split(" ")[0]]


def test_supported_flags_are_imported() -> None:
    more = "-tgps 60 --priority=high --ttl-seconds-after-finished 5 --restart-on-exit-codes=1,3-5 --spot --max-res 2"
    spec = read_spec(import_paste(f"{paste().strip()} {more} --env=A=1 --env 'B=x y' --enable-debug-logs").yaml)
    assert (spec.restarts.grace_period_s, spec.restarts.max, spec.restarts.on_exit_codes) == (60, 2, [1, 3, 4, 5])
    assert (spec.priority, spec.ttl_seconds_after_finished) == ("high", 5)
    assert spec.tpu is not None
    assert spec.tpu.capacity == "spot"
    assert {"A": "1", "B": "x y", "TPU_STDERR_LOG_LEVEL": "0"}.items() <= spec.env.items()


@pytest.mark.parametrize("launcher", ["xpk", "python3 xpk.py", "python -m xpk.main", "uvx xpk", "time xpk", "A=1 xpk"])
def test_every_way_to_start_xpk_is_recognised(launcher: str) -> None:
    assert import_paste(paste().replace("xpk workload", f"{launcher} workload")).problems == ()


def test_command_substitution_is_a_hole_and_is_never_run(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    imported = import_paste(paste(exports=EXPORTS.replace("my-project", f"$(touch {trap}; gcloud config get project)")))
    assert not trap.exists()
    (problem,) = imported.problems
    assert (problem.id, problem.where) == ("import-unset", "place.project")
    assert "image.ref" in problem.message
    assert "gcloud config get project" in problem.message


@pytest.mark.parametrize(
    ("given_name", "name", "suffix"),
    [
        ("sft-$(date +%s)", "sft", "date"),
        ("`date +%Y`-run", "run", "date"),
        ("$(date +%s)", "sft", "date"),
        ("r-$(git rev-parse --short HEAD)", "r", "commit"),
        ("fixed", "fixed", None),
    ],
)
def test_run_name_with_a_substitution_becomes_name_and_suffix(given_name: str, name: str, suffix: str | None) -> None:
    data = load_yaml(import_paste(paste(exports=EXPORTS.replace("sft-$(date +%s)", given_name))).yaml)
    assert (data["name"], data.get("run_name_suffix")) == (name, suffix)


def test_order_of_rows_after_a_restart_is_reported() -> None:
    """Of a line that is not xsft's own, and of xsft's own Pathways lines, whose restarts xpk drops."""
    line = f"xpk workload create {flags()} --max-restarts=3 --command='{CURRENT} steps=5'"
    (difference,) = (
        difference_found
        for difference_found in import_paste(line).differences
        if difference_found.what == "restarts.data"
    )
    assert difference.now == "reshuffle"
    assert not [
        difference_found
        for difference_found in import_paste(line.replace("=3", "=0", 1)).differences
        if difference_found.what == "restarts.data"
    ]
    tree = {**FLAGSHIP, "restarts": {"max": 3}}
    is_own = make_intent(WorkloadSpec.model_validate(tree), Facts()).xpk_argv or ()
    assert "restarts.max" in {
        difference_found.what for difference_found in import_paste(shlex.join(is_own)).differences
    }
    once = make_intent(WorkloadSpec.model_validate({**tree, "restarts": {"max": 0}}), Facts()).xpk_argv or ()
    assert "restarts.max" not in {
        difference_found.what for difference_found in import_paste(shlex.join(once)).differences
    }


def test_jobset_of_a_later_attempt_imports_the_same_run() -> None:
    line = f"xpk workload create {flags(workload='my-run-3')} --command='{CURRENT} run_name=my-run steps=5'"
    assert load_yaml(import_paste(line).yaml)["name"] == "my-run"


def test_keys_that_the_release_lacks_are_dropped_and_typos_are_kept() -> None:
    imported = import_paste(paste(more=" enable_nnx=True pure_nnx_decoder=True stpes=3"))
    assert {"enable_nnx", "pure_nnx_decoder"} <= {d.what for d in imported.differences}
    assert read_spec(imported.yaml).overrides.maxtext == {"stpes": 3}


def test_image_tag_sets_the_release() -> None:
    exports = EXPORTS.replace("gcr.io/${PROJECT_ID}/sft", "gcr.io/p/sft:maxtext-0.2.4")
    assert read_spec(import_paste(paste(exports=exports, more=" enable_nnx=True")).yaml).image.maxtext == "0.2.4"


def test_defaults_of_maxtext_are_written_out() -> None:
    line = f"xpk workload create {flags()} --command='{CURRENT}'"
    spec = read_spec(import_paste(line).yaml)
    assert (spec.model.name, spec.train.steps, spec.train.per_device_batch_size) == ("default", 150_001, 12)
    assert (spec.data.hf_path, spec.data.train_split) == ("HuggingFaceH4/ultrachat_200k", "train_sft")
