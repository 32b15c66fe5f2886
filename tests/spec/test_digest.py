from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from tests.everything import EVERYTHING, ONE_CHOICE, OTHER, changed, everything, leaves, other, sections_of, value_at
from xsft.checks.facts import Facts
from xsft.spec.base import Section
from xsft.spec.digest import NEUTRAL, canonical, spec_digest, stated_values
from xsft.spec.facts import ImageFacts, TemplateFacts
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import resolve
from xsft.spec.sections import Train

# User, time, git commit, priority, restarts, TTL and accepted problems are not the run's identity.
NOT_IDENTITY = {
    "priority",
    "restarts.max",
    "restarts.on_exit_codes",
    "restarts.grace_period_s",
    "restarts.data",
    "ttl_seconds_after_finished",
    "checks",
    "data.rows",
    "data.chat_template",
    "place.registry",
    "place.chip_hour_price",
    "image.name",
    *(path for path in leaves() if path.startswith(("stages.", "pods."))),
}

# Key -> what decides instead of it where EVERYTHING states both.
OUTRANKED: Mapping[str, Mapping[str, Any]] = {
    "place.namespace": {"namespace": None},
    "place.queue": {"queue": None},
    "place.output": {"output": None},
    "place.pathways.proxy_image": {"mode": "pathways", "pathways.proxy_image": None},
    "place.pathways.server_image": {"mode": "pathways", "pathways.server_image": None},
    "place.pathways.scratch": {"mode": "pathways", "pathways.scratch": None},
    "model.hf.converted": {"model.checkpoint": None},
}

# Keys with a value as their default that is always written, or that counts as what is made of it.
ALWAYS_WRITTEN = {"image.maxtext", "target", "mode", "place.namespace", "place.queue", "run_name_suffix"}


def _digest(spec: WorkloadSpec, facts: Facts | None = None) -> str:
    return spec_digest(resolve(spec, facts or Facts())[0])


def test_other_values_cover_every_key() -> None:
    assert set(OTHER) == set(leaves())


def test_digest_is_sha256() -> None:
    assert len(_digest(everything())) == 64
    assert int(_digest(everything()), 16)


def test_digest_ignores_keys_that_are_not_identity() -> None:
    unchanged = _digest(everything())
    assert [path for path in sorted(NOT_IDENTITY) if _digest(other(path)) != unchanged] == []


def test_digest_changes_with_every_identity_key() -> None:
    unchanged, identity = _digest(everything()), set(leaves()) - NOT_IDENTITY - set(OUTRANKED)
    assert [path for path in sorted(identity) if _digest(other(path)) == unchanged] == []


@pytest.mark.parametrize("path", sorted(OUTRANKED))
def test_outranked_key_changes_the_digest_only_where_it_decides(path: str) -> None:
    assert _digest(other(path)) == _digest(everything())
    undecided = changed(EVERYTHING, OUTRANKED[path])
    assert _digest(other(path, undecided)) != _digest(WorkloadSpec.model_validate(undecided))


def test_digest_of_mcjax_run_ignores_pathways_images_of_the_place() -> None:
    assert _digest(everything(pathways=None, place__pathways=None)) == _digest(everything(pathways=None))


def test_digest_of_local_run_ignores_the_place() -> None:
    here = everything(target="local")
    assert _digest(here) == _digest(everything(target="local", place=None, queue=None, namespace=None))


def _field(path: str) -> FieldInfo:
    return sections_of(path)[-1].model_fields[path.rpartition(".")[2]]


def _default(path: str) -> Any:
    return _field(path).get_default(call_default_factory=True)


OPEN = tuple(path for path in sorted(set(leaves()) - NOT_IDENTITY) if not _field(path).is_required())
"""Keys of the run's identity that a file may leave out."""


@contextmanager
def default_of(path: str, value: Any) -> Iterator[None]:
    """Give one key another default, as a later xsft might."""
    before = _field(path).default, _field(path).default_factory
    try:
        _set_default(path, value, None)
        yield
    finally:
        _set_default(path, *before)


def _set_default(path: str, default: Any, factory: Any) -> None:
    field = _field(path)
    field.default, field.default_factory = default, factory
    for section in reversed(sections_of(path)):  # a section's validator holds copies of the inner ones
        section.model_rebuild(force=True)


def _leaving_open(path: str) -> dict[str, Any]:
    """EVERYTHING without a value for this key, and without what would decide instead of its default."""
    instead = {"mode": {"pathways": None}, **OUTRANKED}.get(path, {})
    return changed(EVERYTHING, {**instead, path: None})


@pytest.mark.parametrize("path", OPEN)
def test_changed_default_changes_the_digest_unless_the_file_states_the_value(path: str) -> None:
    default = _default(path)
    another = next(value for value in (OTHER[path], value_at(path)) if value not in (None, default))

    def digest(value: Any) -> str:
        return _digest(WorkloadSpec.model_validate(changed(_leaving_open(path), {path: value})))

    values = [value for value in (another, default) if value is not None]
    unstated, stated_ = digest(None), [digest(value) for value in values]
    with default_of(path, another):
        assert digest(None) == stated_[0]
        assert digest(None) != unstated
        assert [digest(value) for value in values] == stated_
    assert digest(None) == unstated


def test_keys_with_a_default_value_are_listed_in_neutral() -> None:
    """One that is not in NEUTRAL would change the digest of every file as soon as an xsft has it."""
    empty: tuple[Any, ...] = (None, [], {})
    valued = {path for path in OPEN if _default(path) not in empty}
    assert valued == set(NEUTRAL) - ONE_CHOICE | ALWAYS_WRITTEN
    assert not set(NEUTRAL) & ALWAYS_WRITTEN


def test_neutral_values_never_change() -> None:
    """They were chosen once; another one would make other runs of the files of before."""
    assert dict(NEUTRAL) == {
        "trainer": "sft",
        "tpu.num_slices": 1,
        "data.train_split": "train",
        "eval.steps": -1,
        "secrets.hf_token.key": "token",
    }


class LaterTrain(Train):
    """A section as a later xsft may extend it."""

    new_without_a_default: int | None = None
    new_with_one: bool = False


def test_new_key_keeps_the_digest_of_files_that_do_not_use_it() -> None:
    train = EVERYTHING["train"]
    neutral = {**NEUTRAL, "train.new_with_one": False}

    def written(section: Section) -> dict[str, Any]:
        return stated_values(section, leave_out=(), neutral=neutral, prefix="train.")

    assert written(LaterTrain(**train)) == written(Train(**train))
    assert written(LaterTrain(**train, new_with_one=True)) == {**written(Train(**train)), "new_with_one": True}
    assert written(LaterTrain(**train, new_without_a_default=0)) == {
        **written(Train(**train)),
        "new_without_a_default": 0,
    }


DECIDED: Mapping[str, Any] = {
    "train.checkpoint_period": 50,
    "model.hf.converted": "gs://my-bucket/runs/converted/qwen3-8b",
    "queue": "place-queue",
    "namespace": "team-a",
    "output": "gs://my-bucket/place-runs",
    "pathways.proxy_image": "my.dev/place-proxy:1",
    "pathways.server_image": "my.dev/place-server:1",
    "pathways.scratch": "gs://my-bucket/place-scratch",
}


@pytest.mark.parametrize("path", sorted(DECIDED))
def test_digest_treats_decided_values_as_stated(path: str) -> None:
    mode = "pathways" if path.startswith("pathways.") else "mcjax"
    unstated = changed(_leaving_open(path), {"mode": mode})
    stating = changed(unstated, {path: DECIDED[path]})
    assert _digest(WorkloadSpec.model_validate(unstated)) == _digest(WorkloadSpec.model_validate(stating))


def test_digest_treats_the_release_of_the_image_lock_as_stated() -> None:
    image_facts = ImageFacts(name="mine", repository="my.dev/image", digest=f"sha256:{'a' * 64}", maxtext="0.2.4")
    named = everything(image__ref=None, image__maxtext=None)
    stating = everything(image__name=None, image__ref=image_facts.ref, image__maxtext="0.2.4")
    assert _digest(named, Facts(image=image_facts)) == _digest(stating)


def test_digest_ignores_date_commit_folder_and_machine() -> None:
    spec = everything(run_name_suffix="none")
    facts = Facts(today="20270101", commit="f" * 40, working_directory="/", memory_gib=99.0)
    assert _digest(spec, facts) == _digest(spec)


def test_digest_ignores_the_attempt() -> None:
    assert _digest(everything(), Facts(attempt=3)) == _digest(everything())


def test_digest_contains_the_date_of_a_dated_run_name() -> None:
    assert _digest(everything(), Facts(today="20261121")) != _digest(everything(), Facts(today="20261122"))


def test_the_digest_depends_on_values_not_on_their_source() -> None:
    stated = everything(mode="mcjax", pathways=None)
    assert _digest(everything(mode="auto", pathways=None)) == _digest(stated)
    own_queue = everything(queue=EVERYTHING["place"]["queue"])
    assert _digest(everything(queue=None)) == _digest(own_queue)


def test_digest_of_dated_run_equals_that_of_its_full_run_name() -> None:
    """As `--run-name` does: the name is whole, and asks for nothing."""
    dated = everything(name="chat", run_name_suffix="date")
    named = everything(name="chat-20261121", run_name_suffix="none")
    assert _digest(named, Facts(today="20261122")) == _digest(dated, Facts(today="20261121"))


def test_digest_ignores_the_order_of_keys() -> None:
    backwards = {key: EVERYTHING[key] for key in reversed(EVERYTHING)}
    backwards["train"] = dict(reversed(EVERYTHING["train"].items()))
    assert _digest(WorkloadSpec.model_validate(backwards)) == _digest(everything())


def test_digest_of_named_place_equals_that_of_the_place_written_out() -> None:
    spec = everything()
    assert spec.place is not None
    assert not isinstance(spec.place, str)
    named = everything(place="main")
    assert _digest(named, Facts(places={"main": spec.place})) == _digest(spec)


def test_digest_ignores_a_default_written_out() -> None:
    assert _digest(everything(tpu__num_slices=1)) == _digest(everything(tpu__num_slices=None))


def test_digest_depends_on_the_template_text_not_its_path() -> None:
    jinja, other_jinja = TemplateFacts(text="{{ messages }}"), TemplateFacts(text="{{ messages }}!")
    original, renamed = everything(), everything(data__chat_template="folder/moved.jinja")
    assert _digest(original, Facts(template=jinja)) == _digest(renamed, Facts(template=jinja))
    assert _digest(original, Facts(template=jinja)) != _digest(original, Facts(template=other_jinja))
    assert _digest(original, Facts(template=jinja)) != _digest(everything(data__chat_template=None))


def test_digest_depends_on_each_template_text_not_on_json_layout() -> None:
    named = everything(data__chat_template="qa.json")
    texts = {"PROMPT_TEMPLATE": "{question}", "COMPLETION_TEMPLATE": "{answer}"}
    files = [texts, {**texts, "PROMPT_TEMPLATE": "Q: {question}"}, {**texts, "COMPLETION_TEMPLATE": "A: {answer}"}]
    digests = [_digest(named, Facts(template=TemplateFacts(text=json.dumps(file)))) for file in files]
    assert len(set(digests)) == 3
    laid_out = TemplateFacts(text=json.dumps(dict(reversed(texts.items())), indent=4))
    assert _digest(named, Facts(template=laid_out)) == digests[0]


def test_canonical_returns_sorted_compact_json() -> None:
    text = canonical(resolve(everything(), Facts())[0])
    document = json.loads(text)
    assert text == json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert document["run_name"] == "everything-19700101"
