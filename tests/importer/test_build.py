"""The law: what xsft planned, pasted back, plans to the same line, arguments and environment. And what people paste."""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.importer.pastes import CURRENT, EXPORTS, TOKEN, flags, paste
from tests.importer.specs import Tree, workloads
from tests.test_tutorial import BASE, CONVERSIONS, TRAINERS, _intent
from xsft.errors import SpecError
from xsft.facts import Facts
from xsft.importer.build import Imported, import_paste
from xsft.planner import make_intent
from xsft.problems import errors_in
from xsft.spec.model import WorkloadSpec
from xsft.spec.place import Place
from xsft.spec.reader import read_spec
from xsft.steps import Intent

ROOT = Path(__file__).parents[2]

NOT_A_PLAN = frozenset({"env-secret", "secret-literal", "override-secret", "command-encoding", "override-has-field"})
"""With these a plan is refused, and its line is none that a user could have."""


def again(imported: Imported) -> Intent:
    return make_intent(read_spec(imported.yaml), Facts())


def assert_law(p: Intent) -> None:
    assert p.xpk_argv is not None
    imported = import_paste(shlex.join(p.xpk_argv))
    q = again(imported)
    assert q.xpk_argv == p.xpk_argv
    assert q.trainer_argv == p.trainer_argv
    assert q.trainer_env == p.trainer_env
    assert errors_in(imported.problems) == ()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(workloads())
def test_an_own_line_comes_back_to_the_byte(tree: Tree) -> None:
    intent = make_intent(WorkloadSpec.model_validate(tree), Facts())
    assume(intent.xpk_argv is not None)
    assume(not NOT_A_PLAN & {p.id for p in intent.problems})
    assert_law(intent)


WORKLOADS = tuple(sorted(p for p in (ROOT / "workloads").glob("*.yaml") if "target: local" not in p.read_text()))


@pytest.mark.parametrize("file", WORKLOADS, ids=lambda file: file.stem)
def test_the_law_holds_for_every_workload(file: Path) -> None:
    places = yaml.safe_load((ROOT / "places.yaml").read_text())
    facts = Facts(places={name: Place.model_validate(place) for name, place in places.items()})
    assert_law(make_intent(read_spec(file.read_text()), facts))


@pytest.mark.parametrize("name", TRAINERS)
def test_a_tutorials_command_becomes_our_plan_of_the_same_values(name: str) -> None:
    """Apart from Pathways' images, which the tutorials leave to xpk."""
    tutorial = TRAINERS[name]
    command = shlex.quote(" ".join((*tutorial.environment, *tutorial.argv)).replace("['", "\"['").replace("']", "']\""))
    verb = "create-pathways" if tutorial.environment else "create"
    imported = import_paste(f"export HF_TOKEN={TOKEN}\nxpk workload {verb} {flags()} --command {command}\n")
    ours, theirs = _intent(name), again(imported)
    assert theirs.trainer_argv == ours.trainer_argv
    assert set(ours.xpk_argv or ()) - set(theirs.xpk_argv or ()) - {f"--env=HF_TOKEN_PATH={TOKEN_FILE}"} == {
        f"--{flag}={BASE['place']['pathways'][key]}" for flag, key in IMAGES.items() if tutorial.environment
    }
    assert theirs.trainer_env == {**ours.trainer_env, "HF_TOKEN_PATH": TOKEN_FILE}


TOKEN_FILE = "/etc/xsft/hf-token/token"
IMAGES = {"proxy-server-image": "proxy_image", "server-image": "server_image", "pathways-gcs-location": "scratch"}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_conversion_alone_is_no_line_and_beside_one_it_is_named(name: str) -> None:
    conversion = shlex.join(CONVERSIONS[name].argv)
    with pytest.raises(SpecError) as refused:
        import_paste(conversion)
    assert [p.id for p in refused.value.problems] == ["import-no-line"]
    assert "to_maxtext" in refused.value.problems[0].message
    said = {d.what: d for d in import_paste(f"{conversion}\n{paste()}").differences}
    assert "model.hf" in said["python3 -m MaxText.utils.ckpt_conversion.to_maxtext"].why


def test_the_pasted_tutorial_with_its_exports() -> None:
    imported = import_paste(paste())
    spec = read_spec(imported.yaml)
    assert imported.problems == ()
    assert (spec.name, spec.run_name_suffix, spec.mode) == ("sft", "date", "mcjax")
    assert spec.model.checkpoint == "gs://my-bucket/ckpt/0/items"
    assert spec.data.columns == ["messages"]
    assert spec.secrets.hf_token is not None
    what = {d.what for d in imported.differences}
    assert {"hf_access_token", "exec", "checkpoint_period", "checkpoint_storage_use_zarr3", "run_name"} <= what


def test_what_is_not_set_is_named_and_the_rest_is_imported() -> None:
    imported = import_paste(paste(exports=EXPORTS.replace("export MODEL=deepseek3-671b\n", "").replace("STEPS=", "S=")))
    assert {(p.id, p.where) for p in imported.problems} == {
        ("import-unset", "model.name"),
        ("import-unset", "train.steps"),
    }
    data = yaml.safe_load(imported.yaml)
    assert (data["model"]["name"], data["train"]["steps"]) == ("${MODEL}", "${STEPS}")
    assert data["tpu"] == {"type": "v6e-256", "num_slices": 2}


def test_what_only_a_shell_knows_is_a_hole_and_never_run(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    imported = import_paste(paste(exports=EXPORTS.replace("my-project", f"$(touch {trap}; gcloud config get project)")))
    assert not trap.exists()
    (problem,) = imported.problems
    assert (problem.id, problem.where) == ("import-unset", "place.project")
    assert "image.ref" in problem.message
    assert "gcloud config get project" in problem.message


@pytest.mark.parametrize(
    ("given", "name", "suffix"),
    [
        ("sft-$(date +%s)", "sft", "date"),
        ("`date +%Y`-run", "run", "date"),
        ("$(date +%s)", "sft", "date"),
        ("r-$(git rev-parse --short HEAD)", "r", "commit"),
        ("fixed", "fixed", None),
    ],
)
def test_names(given: str, name: str, suffix: str | None) -> None:
    data = yaml.safe_load(import_paste(paste(exports=EXPORTS.replace("sft-$(date +%s)", given))).yaml)
    assert (data["name"], data.get("run_name_suffix")) == (name, suffix)


def test_a_later_attempt_is_the_same_run() -> None:
    line = f"xpk workload create {flags(workload='my-run-3')} --command='{CURRENT} run_name=my-run steps=5'"
    assert yaml.safe_load(import_paste(line).yaml)["name"] == "my-run"


def test_keys_the_release_refuses_are_dropped_and_typos_are_kept() -> None:
    imported = import_paste(paste(more=" enable_nnx=True pure_nnx_decoder=True stpes=3"))
    assert {"enable_nnx", "pure_nnx_decoder"} <= {d.what for d in imported.differences}
    assert read_spec(imported.yaml).overrides.maxtext == {"stpes": 3}


def test_the_images_tag_names_the_release() -> None:
    exports = EXPORTS.replace("gcr.io/${PROJECT_ID}/sft", "gcr.io/p/sft:maxtext-0.2.4")
    assert read_spec(import_paste(paste(exports=exports, more=" enable_nnx=True")).yaml).image.maxtext == "0.2.4"


def test_what_the_command_leaves_to_maxtext_is_written_out() -> None:
    line = f"xpk workload create {flags()} --command='{CURRENT}'"
    spec = read_spec(import_paste(line).yaml)
    assert (spec.model.name, spec.train.steps, spec.train.per_device_batch_size) == ("default", 150_001, 12)
    assert (spec.data.hf_path, spec.data.train_split) == ("HuggingFaceH4/ultrachat_200k", "train_sft")


SECRET_PLACES = (
    f"export HF_TOKEN={TOKEN}\n{{line}}",
    "{line} --env=HF_TOKEN=" + TOKEN,
    "{line} --env=ANYTHING=" + TOKEN,
    "export MY_TOKEN=plainsecret1\n{line} --env=X=a$MY_TOKEN",
    "docker login -p plainsecret1 gcr.io\n{line}",
    "# " + TOKEN + "\n{line}",
    "{line} --project=" + TOKEN,
    "{line} --bogus=" + TOKEN,
    "{line} --doc=" + TOKEN,
    "{line} " + TOKEN,
    "{line} '" + TOKEN,
    "{line} --storage=" + TOKEN,
    "{line} --workload=" + TOKEN,
    "export A=$(curl -H " + TOKEN + ")\n{line} --zone=$A",
)


@pytest.mark.parametrize("text", [*SECRET_PLACES, paste(more=" x=" + TOKEN), paste(more=" " + TOKEN)])
def test_no_secret_is_kept_or_shown(text: str) -> None:
    try:
        imported = import_paste(text.replace("{line}", paste().strip()))
        said = repr(imported)
    except SpecError as refused:
        said = repr(refused.problems)
    assert TOKEN not in said
    assert "plainsecret1" not in said


def refused(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        import_paste(text)
    return [p.id for p in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("", "import-no-line"),
        ("  \n\t\n", "import-no-line"),
        ("# only a comment", "import-no-line"),
        ("kubectl get pods", "import-no-line"),
        ("xpk workload list --cluster=c", "import-no-line"),
        ("gcluster job submit --name x", "import-no-line"),
        ("\x00\x01\x02", "import-text"),
        ("xpk workload create --cluster='a", "import-quote"),
        ('xpk workload create --command="a', "import-quote"),
        ("xpk workload create --command=$(a", "import-quote"),
        ("xpk workload create --command=${a", "import-quote"),
        ("xpk workload create --command=${a:-b", "import-quote"),
        ("xpk workload create --clutser=a", "import-flag"),
        ("xpk workload create --cluster", "import-flag"),
        ("xpk workload create --headless", "import-flag"),
        ("xpk workload create --docker=x", "import-flag"),
        ("xpk workload create stray", "import-flag"),
        ("xpk workload create --cluster=a", "import-trainer"),
        ("xpk workload create --command='python3 train.py'", "import-trainer"),
        ("xpk workload create --command='python3 -m maxtext.trainers.pre_train.train'", "import-trainer"),
        (paste() + paste(), "import-several"),
        ("a=" + "${b:-" * 100 + "}" * 100, "import-nesting"),
    ],
    ids=lambda text: text[:40],
)
def test_one_clear_refusal(text: str, id: str) -> None:
    assert refused(text) == [id]


def test_a_misspelt_flag_is_told_its_name() -> None:
    with pytest.raises(SpecError) as caught:
        import_paste("xpk workload create --clutser=a")
    assert "--cluster" in caught.value.problems[0].message


BOMBS = {
    "doubling": "a=0123456789\n" + "\n".join("a=$a$a" for _ in range(40)) + "\nxpk workload create --zone=$a",
    "quotes": "'" * 200_001,
    "dollars": "${" * 200_000,
    "parentheses": "$(" * 200_000,
    "lines": "a\n" * 400_000,
    "parts": "xpk workload create --zone=" + 'a"b"$c' * 100_000,
    "here-documents": "cat <<E\n" * 9_000,
    "holes": "xpk workload create " + " ".join(f"$a{i}" for i in range(100_000)),
    "lists": f"xpk workload create {flags()} --command='{CURRENT} x={'[' * 100_000}'",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_quickly(name: str) -> None:
    start = time.process_time()
    with suppress(SpecError):
        import_paste(BOMBS[name])
    assert time.process_time() - start < 5.0  # measured: at most 1.2 s


PIECES = st.sampled_from(
    [
        *(
            "xpk",
            " workload",
            " create",
            " create-pathways",
            " --cluster=c",
            " --command=",
            " --env=A=",
            " --zone",
            " -tgps 5",
        ),
        *(
            CURRENT,
            " run_name=a",
            " steps=1",
            " hf_path=x",
            " x=[a",
            " lora.enable_lora=True",
            " --num-slices=x",
            "python3 -m ",
        ),
        *(
            "'",
            '"',
            "\\",
            "\n",
            " ",
            "$",
            "${",
            "}",
            "$(",
            "`",
            ")",
            "$((",
            "))",
            ";",
            "|",
            "&&",
            "<<E\n",
            ">",
            "#",
            "=",
            "export ",
        ),
        *(
            "A=1",
            "$A",
            "${A:-b}",
            "${A?}",
            "bash -c ",
            "exec ",
            "é",
            "\u2028",
            "{",
            "[",
            "]",
            "(",
            "1",
            "-",
            "--",
            "hf_access_token=",
        ),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=80))
@example("xpk workload create --command='" + CURRENT + "'")
def test_any_text_is_a_workload_or_a_spec_error(text: str) -> None:
    try:
        problems = import_paste(text).problems
    except SpecError as found:
        problems = found.problems
        assert all(p.id.startswith("import-") for p in problems)
    assert all(p.message.isprintable() and p.fix for p in problems)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 40), st.lists(PIECES, max_size=3).map("".join))
def test_a_damaged_paste_is_a_workload_or_a_spec_error(at: int, cut: int, piece: str) -> None:
    whole = paste()
    test_any_text_is_a_workload_or_a_spec_error.hypothesis.inner_test(whole[:at] + piece + whole[at + cut :])
