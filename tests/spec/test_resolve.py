from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.everything import everything
from tests.replacing import replace
from xsft.base.problems import Problem, error
from xsft.checks.facts import Facts
from xsft.spec.digest import spec_digest
from xsft.spec.facts import CheckpointFacts, SourceFacts, TemplateFacts
from xsft.spec.place import Place
from xsft.spec.resolve import LOCAL_OUTPUT, Run, default_checkpoint_period, resolve
from xsft.spec.template import Template


def _resolve(facts: Facts | None = None, **fields: Any) -> tuple[Run, tuple[Problem, ...]]:
    facts = facts or Facts(today="20261121", commit="0123456789" * 4)
    return resolve(
        everything(**fields), replace(facts, template=facts.template or TemplateFacts(text="{{ messages }}"))
    )


def _run(facts: Facts | None = None, **fields: Any) -> Run:
    run, problems = _resolve(facts, **fields)
    assert problems == ()
    return run


# Mode


@pytest.mark.parametrize(
    ("fields", "mode", "because"),
    [
        ({"mode": "mcjax"}, "mcjax", "the workload says"),
        ({"mode": "pathways"}, "pathways", "the workload says"),
        ({"mode": "auto"}, "pathways", "has a pathways section"),
        ({"mode": "auto", "pathways": None}, "mcjax", "no pathways section"),
        ({"mode": "pathways", "target": "local"}, "mcjax", "this machine"),
    ],
)
def test_mode_is_resolved_with_its_reason(fields: dict[str, Any], mode: str, because: str) -> None:
    run = _run(**fields)
    assert run.mode.value == mode
    assert because in run.mode.reason


# Names


@pytest.mark.parametrize(
    ("suffix", "name"),
    [("none", "everything"), ("date", "everything-20261121"), ("commit", "everything-0123456")],
)
def test_run_name_gets_its_suffix(suffix: str, name: str) -> None:
    assert _run(run_name_suffix=suffix).run_name == name


def test_commit_suffix_without_a_commit_is_a_problem() -> None:
    run, problems = _resolve(Facts(), run_name_suffix="commit")
    assert run.run_name == "everything"
    assert [(p.id, p.severity, p.where) for p in problems] == [("run-name-commit", "error", "run_name_suffix")]


@pytest.mark.parametrize(("attempt", "jobset"), [(1, "everything"), (2, "everything-2")])
def test_attempt_keeps_the_run_name_and_numbers_the_jobset(attempt: int, jobset: str) -> None:
    run = _run(Facts(attempt=attempt), run_name_suffix="none")
    assert (run.run_name, run.jobset) == ("everything", jobset)


# Places


def test_a_named_place_is_looked_up() -> None:
    place = Place(project="my-project", zone="us-east5-b", cluster="my-cluster", queue="q", namespace="n")
    run = _run(Facts(places={"main": place}), place="main", queue=None, namespace=None)
    assert (run.place, run.queue, run.namespace) == (place, "q", "n")


def test_unknown_place_lists_close_and_known_places() -> None:
    places = {"main": Place(context="c"), "other": Place(context="d")}
    run, (problem,) = _resolve(Facts(places=places, places_file="places.yaml"), place="mian")
    assert run.place is None
    assert problem.id == "place-unknown"
    assert "did you mean main?" in problem.message
    assert "other" in problem.message
    assert "places.yaml" in problem.message


def test_unknown_place_lists_the_folders_searched() -> None:
    facts = Facts(places_folders=("/src/team", "/src", "/", "/home/me/.config/xsft"))
    _, (problem,) = _resolve(facts, place="main")
    assert "no places.yaml in /src/team, /src, /, /home/me/.config/xsft" in problem.message


def test_local_run_needs_no_place() -> None:
    run, problems = _resolve(place="nowhere", target="local")
    assert (run.place, problems) == (None, ())


def test_the_workload_wins_over_the_place() -> None:
    run = _run()
    assert (run.queue, run.namespace, run.output) == ("my-queue", "team-c", "gs://my-bucket/runs")
    run = _run(queue=None, namespace=None, output=None)
    assert (run.queue, run.namespace, run.output) == ("place-queue", "team-a", "gs://my-bucket/place-runs")


def test_run_without_place_uses_the_defaults_of_xpk() -> None:
    run = _run(place=None, queue=None, namespace=None)
    assert (run.queue, run.namespace) == ("multislice-queue", "default")


def test_a_local_run_does_not_write_to_the_places_bucket() -> None:
    run = _run(target="local", output=None)
    assert run.output is not None
    assert run.output.endswith(LOCAL_OUTPUT)


# Slices


def test_chips_and_devices_count_all_slices() -> None:
    run = _run()
    assert (run.chips, run.devices, run.num_slices) == (32, 32, 2)


def test_local_run_has_one_chip_and_one_device() -> None:
    run = _run(target="local")
    assert (run.chips, run.devices) == (1, 1)


def test_unknown_tpu_is_a_problem_and_gives_no_slice() -> None:
    run, (problem,) = _resolve(tpu__type="v6e-257")
    assert run.slice is None
    assert (problem.id, problem.where) == ("tpu-unknown", "tpu.type")
    assert "v6e-256" in problem.message


def test_unknown_release_is_a_problem_and_falls_back_to_the_default() -> None:
    run, (problem,) = _resolve(image__maxtext="0.2.55")
    assert run.release.version == "0.2.5"
    assert (problem.id, problem.where) == ("release-unknown", "image.maxtext")
    assert "0.2.5" in problem.message


def test_unknown_model_resolves_to_none() -> None:
    assert _run(model__name="nobodys-7b").model is None


# Checkpoints


@given(steps=st.integers(1, 10**7))
def test_default_checkpoint_period_saves_within_the_run(steps: int) -> None:
    period = default_checkpoint_period(steps)
    assert 1 <= period <= steps
    assert period >= min(steps, 50)
    assert period == 50 or steps < 11 * period


def test_given_checkpoint_period_stays() -> None:
    assert _run(train__checkpoint_period=7).checkpoint_period == 7
    assert _run(train__checkpoint_period=None).checkpoint_period == 50


@pytest.mark.parametrize(
    ("fields", "checkpoint"),
    [
        ({}, "gs://my-bucket/model/0/items"),
        ({"model__checkpoint": None}, "gs://my-bucket/converted/0/items"),
        (
            {"model__checkpoint": None, "model__hf__converted": "gs://my-bucket/slash/"},
            "gs://my-bucket/slash/0/items",
        ),
        (
            {"model__checkpoint": None, "model__hf__converted": None},
            "gs://my-bucket/runs/converted/qwen3-8b-6c4173149737/0/items",
        ),
        ({"model__checkpoint": None, "model__hf": None}, None),
    ],
)
def test_initial_checkpoint_comes_from_model_conversion_or_none(fields: dict[str, Any], checkpoint: str | None) -> None:
    assert _run(**fields).checkpoint == checkpoint


def test_conversion_without_an_output_has_no_checkpoint() -> None:
    run = _run(model__hf__converted=None, model__checkpoint=None, output=None, place=None)
    assert (run.converted, run.checkpoint, run.checkpoint_identity) == (None, None, None)


FIRST = "gs://my-bucket/runs/converted/qwen3-8b-6c4173149737"


@pytest.mark.parametrize(
    ("expected", "taken"),
    [
        (f"{FIRST}/0/items", f"{FIRST}/0/items"),
        (f"{FIRST}-2/0/items", f"{FIRST}-2/0/items"),
        (f"{FIRST}-1/0/items", f"{FIRST}/0/items"),
        ("gs://my-bucket/another/0/items", f"{FIRST}/0/items"),
    ],
)
def test_checkpoint_is_the_conversion_attempt_that_was_found(expected: str, taken: str) -> None:
    spec = everything(model__checkpoint=None, model__hf__converted=None)
    run, _ = resolve(spec, Facts(checkpoint=CheckpointFacts(path=expected, status="read")))
    assert run.checkpoint == taken
    assert spec_digest(run) == spec_digest(resolve(spec, Facts())[0])


def test_folder_of_weights_is_identified_by_its_content() -> None:
    fields = {"model__checkpoint": None, "model__hf": {"repo": "./mine"}, "target": "local", "output": "./out"}
    here, folder_there = (
        resolve(everything(**fields), Facts(working_directory=folder, source=SourceFacts(content=content)))[0]
        for folder, content in (("/a", "1"), ("/b", "1"))
    )
    other, _ = resolve(everything(**fields), Facts(working_directory="/a", source=SourceFacts(content="2")))
    assert here.conversion
    assert folder_there.conversion
    assert here.conversion.source.repo == "/a/mine"
    assert here.conversion.digest == folder_there.conversion.digest
    assert (here.checkpoint == other.checkpoint, spec_digest(here) == spec_digest(other)) == (False, False)


# The template


def test_template_is_resolved_from_the_text_of_its_file() -> None:
    assert _run().template == Template(jinja="{{ messages }}")
    assert _run(data__chat_template=None).template is None


def test_unreadable_template_is_a_problem_and_resolves_to_none() -> None:
    unread = error("file-missing", "data.chat_template", "x does not exist", "Check the path.")
    run, problems = _resolve(Facts(template=TemplateFacts(problem=unread)), run_name_suffix="none")
    assert (run.template, problems) == (None, (unread,))
    run, problems = _resolve(
        Facts(template=TemplateFacts(text="{")), run_name_suffix="none", data__chat_template="a.json"
    )
    assert (run.template, [p.id for p in problems]) == (None, ["chat-template-file"])


def test_template_without_facts_is_a_problem() -> None:
    _, problems = resolve(everything(run_name_suffix="none"), Facts())
    assert [(p.id, p.where) for p in problems] == [("chat-template-file", "data.chat_template")]


def test_every_resolve_problem_has_a_fix() -> None:
    _, problems = _resolve(Facts(), place="x", tpu__type="y", image__maxtext="z", run_name_suffix="commit")
    assert len(problems) == 4
    assert all(p.fix and p.where and p.severity == "error" for p in problems)
