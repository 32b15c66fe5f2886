"""Lines of Cluster Toolkit's launcher, MaxText's own configuration files, and pages with several commands.

The shapes are those of public files, read on 2026-11-28: MaxText's pages on gcluster and its end-to-end scripts, the
Qwen3 sample of GoogleCloudPlatform, blogs, and notes of users. Their words are not here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.importing.pastes import CURRENT
from xsft.base.errors import SpecError
from xsft.environments.installed import BuiltEnvironment
from xsft.importing.build import import_paste
from xsft.importing.gcluster import DROPPED, XPK_FLAGS
from xsft.importing.shell import Shell
from xsft.spec.explain import read_spec
from xsft.spec.yamltext import load_yaml

SAVED = "".join(
    f"gcluster job config set {name} {text}\n"
    for name, text in (("project", "my-project"), ("cluster", "my-cluster"), ("location", "us-east5-b"))
)
KEYS = "run_name=sft-1 model_name=qwen3-0.6b steps=5 per_device_batch_size=1 base_output_directory=gs://my-bucket/o"


def submission(flags: str, *, module: str = CURRENT) -> str:
    image = "us-docker.pkg.dev/p/r/i:maxtext-0.2.5"
    return f'gcluster job submit --image={image} --name=sft-1 {flags} \\\n  --command "{module} {KEYS}"\n'


def refusal(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        import_paste(text)
    (problem,) = caught.value.problems
    return f"{problem.id}: {problem.message} {problem.fix}"


@pytest.mark.parametrize("kind", ["v6e-256", "ct6e-standard-4t --topology=16x16", "tpu-v6e-slice --topology 16x16"])
def test_a_submission_of_gcluster_is_the_same_run(kind: str) -> None:
    flags = f"--compute-type={kind} --num-slices 2 -q team --service-account=trainer --grace-period 1m30s --restarts 3"
    imported = import_paste(f"{SAVED}{submission(flags)}")
    spec = read_spec(imported.yaml)
    assert imported.problems == ()
    assert (spec.name, spec.mode, spec.target, spec.pods.service_account) == ("sft-1", "mcjax", "xpk", "trainer")
    place = load_yaml(imported.yaml)["place"]
    assert place == {"project": "my-project", "zone": "us-east5-b", "cluster": "my-cluster", "queue": "team"}
    assert (spec.restarts.max, spec.restarts.grace_period_s, spec.ttl_seconds_after_finished) == (3, 90, 3600)
    assert spec.tpu is not None
    assert (spec.tpu.type in ("v6e-256", "v6e-16x16"), spec.tpu.num_slices) == (True, 2)
    assert "target: xpk" in {difference.now for difference in imported.differences}


def test_pathways_of_gcluster_keeps_its_restarts_without_a_word_on_xpk() -> None:
    flags = "--compute-type=v6e-8 --pathways --pathways-gcs-location=gs://my-bucket/p --pathways-server-image=a/b:c"
    imported = import_paste(f"{SAVED}{submission(flags)}")
    spec = read_spec(imported.yaml)
    assert (spec.mode, spec.restarts.max, spec.pathways.scratch) == ("pathways", 1, "gs://my-bucket/p")
    assert not [difference for difference in imported.differences if "xpk ignores it" in difference.why]


@pytest.mark.parametrize("flag", sorted(DROPPED.keys() - {"topology"}))
def test_a_flag_without_a_field_is_named_with_the_reason(flag: str) -> None:
    imported = import_paste(f"{SAVED}{submission(f'--compute-type=v6e-8 --{flag}=x')}")
    (difference,) = (
        difference_found for difference_found in imported.differences if difference_found.what == f"--{flag}"
    )
    assert difference.why
    assert difference.now is None


def test_a_misspelt_flag_of_gcluster_gets_a_suggestion() -> None:
    assert "Did you mean --compute-type?" in refusal(submission("--compute-typ=v6e-8"))


def test_every_flag_is_translated_to_one_that_xpk_has() -> None:
    names = [name for name in XPK_FLAGS if name not in ("command", "image", "name")]
    for verb, wrong in (("--pathways", "restart-on-exit-codes"), ("", "pathways-")):
        arguments = " ".join(f"--{name}=1" for name in names if not name.startswith(wrong))
        assert import_paste(submission(f"{arguments} {verb}")).problems


@pytest.mark.parametrize(
    ("module", "what"),
    [
        ("python3 -m maxtext.trainers.post_train.rl.train_rl", "reinforcement learning"),
        ("[ 1 != 0 ] || python3 -m maxtext.checkpoint_conversion.to_maxtext", "xsft checkpoint convert"),
        ("python3 -m maxtext.checkpoint_conversion.to_huggingface", "xsft checkpoint export"),
        ("python3 src/maxtext/trainers/pre_train/train.py", "pre-training"),
        ("python3 -m maxtext.inference.vllm_decode", "xsft serve"),
    ],
)
def test_what_is_no_sft_is_named_with_what_xsft_has_for_it(module: str, what: str) -> None:
    assert what in refusal(submission("--compute-type=v6e-8", module=module))
    assert what in refusal(f"{module.rpartition('|| ')[2]} {KEYS}") or ".py" in module


def test_the_only_submission_that_trains_is_picked_and_several_are_listed_with_their_modules() -> None:
    module = "python3 -m maxtext.trainers.post_train.rl.train_rl"
    other = submission("--compute-type=v6e-8", module=module)
    loop = 'POD=""\nwhile [ -z "$POD" ]; do\n  POD=$(kubectl get pods | head -n 1) || true\ndone\n'
    imported = import_paste(f"{SAVED}{other}{loop}{submission('--compute-type=v6e-8')}{other}")
    assert read_spec(imported.yaml).name == "sft-1"
    assert "line 1: gcluster job submit (maxtext.trainers.post_train.rl.train_rl), line 3" in refusal(other + other)


@pytest.mark.parametrize(
    "page",
    [
        "# It's new\n\n```shell\nuv pip install maxtext\n```\n\nThen:\n\n```shell\n{sft}\n```\n\n```sh\n{rl}\n```\n",
        'if [ -z "$1" ]; then\n  echo "Error."\n  exit 1\nfi\nrun=$1\n{sft} seed=${{2:-7}}\n',
        'for d in $(ls x); do\n  if [[ "$d" =~ ^[0-9]+$ ]]; then\n    found+=("$d")\n  fi\ndone\n{sft}\n',
        '{decode} vllm_hf_overrides=\'{{a: ["B"]}}\' prompt="Say it." \\ \n    x=8\n\n{sft}\n{decode}\n',
        "1. **Run**\n\n   ```bash\n   gcloud container clusters get-credentials ${{C?}}\n   {sft}\n   ```\n",
    ],
)
def test_scripts_and_pages_with_the_trainers_own_command(page: str) -> None:
    rl, decode = "python3 -m maxtext.trainers.post_train.rl.train_rl x=1", "python3 -m maxtext.inference.vllm_decode"
    imported = import_paste(page.format(sft=f"{CURRENT} {KEYS}", rl=rl, decode=decode))
    assert load_yaml(imported.yaml)["train"]["steps"] == 5
    assert {problem.id for problem in imported.problems} == {"import-unset"}


def test_a_configuration_derived_from_sft_yml_is_a_workload_with_holes() -> None:
    text = (
        "# mine\nbase_config: sft.yml\nmodel_name: qwen3-0.6b\nsteps: 500\nlearning_rate: 3.e-6\nlora: {lora_rank: 0}\n"
    )
    document = load_yaml(import_paste(text).yaml)
    assert (document["train"]["steps"], float(document["train"]["learning_rate"])) == (500, 3e-6)
    assert (document["model"]["name"], document["tpu"]) == ("qwen3-0.6b", {"type": "${TPU_TYPE}"})
    assert "lora" not in document
    with_lora = text.replace("lora_rank: 0", "enable_lora: true, lora_rank: 8, lora_alpha: 16")
    assert load_yaml(import_paste(with_lora).yaml)["lora"] == {"rank": 8, "alpha": 16}
    assert "no SFT" in refusal("base_config: base.yml\nmodel_name: llama3.1-8b\n")
    aliases = "model_name: &a [x, x]\n" + "".join(f"k{n}: &k{n} [*a, *a]\n" for n in range(9))
    assert refusal(aliases).startswith("import-no-line")


@pytest.mark.contract
def test_maxtexts_own_sft_yml_is_imported(maxtext_environment: BuiltEnvironment) -> None:
    (path,) = maxtext_environment.folder.glob("lib/python*/site-packages/maxtext/configs/post_train/sft.yml")
    data = load_yaml(import_paste(Path(path).read_text(encoding="utf-8")).yaml)["data"]
    assert (data["hf_path"], data["columns"]) == ("HuggingFaceH4/ultrachat_200k", ["messages"])


def test_defaults_of_variables_are_used() -> None:
    assert Shell().run("a=${B:-c} && echo ${D:-$a}")[0].argv == ("echo", "c")
