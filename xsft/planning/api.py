"""The Python API: files in, typed values out; the same values the command line prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import yaml
from msgspec import Struct
from msgspec.structs import replace

from xsft.base.acceptance import for_submission
from xsft.base.errors import EnvironmentMissing, SpecError, Unreachable, UsageError, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem, errors_in
from xsft.checks.facts import Facts
from xsft.data.counted_store import counts_kept
from xsft.data.read_rows import read_rows
from xsft.environments import environments
from xsft.environments.render import render
from xsft.fit.cache import fit_cache
from xsft.fit.trainer_step import step_to_compile
from xsft.launcher.launcher import ReadyRendering, Rendering, XpkRendering
from xsft.machine import clock
from xsft.machine.files import STDIN, read_workload_text
from xsft.machine.parallel import Questions, all_answers
from xsft.machine.paths import own_cache
from xsft.planning import gather
from xsft.planning.counted import address
from xsft.planning.gather import template_facts
from xsft.planning.hub_reader import (
    HubReader,
    online_reader,
    skip_checkpoint,
    skip_data,
    skip_names,
    skip_rows,
    skip_weights,
)
from xsft.planning.planner import make_intent, make_plan
from xsft.planning.steps import Intent, Plan
from xsft.planning.tries import folder_names
from xsft.records.record import MeasuredPace
from xsft.records.record_files import record_store
from xsft.spec.explain import read_spec
from xsft.spec.facts import TemplateFacts
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import resolve
from xsft.spec.yamltext import load_yaml
from xsft.weights.read_checkpoint import read_checkpoint


class LoadedWorkload(Struct, frozen=True, kw_only=True):
    """A workload and the file it came from."""

    file: str
    spec: WorkloadSpec
    template: TemplateFacts | None = None
    """Content of the file that its `data.chat_template` names."""
    offline: bool = False
    """Whether only files of this machine are read for it."""


def load(file: str | Path, *, settings: Sequence[str] = (), run_name: str | None = None) -> LoadedWorkload:
    """Read and validate one workload. `settings` are `a.b=c`; `-` reads stdin. Raises SpecError with every problem."""
    name = str(file)
    try:
        changes = (*settings, *((f"name={run_name}", "run_name_suffix=none") if run_name else ()))
        spec = read_spec(read_workload_text(name), settings=changes)
    except SpecError as e:
        raise SpecError(tuple(p.in_file(p.file or name) for p in e.problems)) from None
    return LoadedWorkload(file=name, spec=spec, template=template_facts(spec, file=name))


def load_each(
    files: Sequence[str | Path], *, settings: Sequence[str] = (), run_name: str | None = None, offline: bool = False
) -> tuple[tuple[LoadedWorkload, ...], tuple[Problem, ...]]:
    """Return the files that could be read, and the problems of those that could not. `offline`: of `LoadedWorkload`."""
    if [str(file) for file in files].count(STDIN) > 1:
        raise UsageError("- is given twice; standard input can be read only once.", fix="Give it once.")
    loaded: list[LoadedWorkload] = []
    problems: list[Problem] = []
    for file in files:
        try:
            loaded.append(replace(load(file, settings=settings, run_name=run_name), offline=offline))
        except XsftError as e:
            problems.extend(p.in_file(p.file or str(file)) for p in e.problems)
    return tuple(loaded), tuple(problems)


def intend(
    workloads: Sequence[LoadedWorkload],
    *,
    attempt: int = 1,
    hub: HubReader | None = None,
    progress: ShowLine = lambda _line: None,
) -> tuple[Intent, ...]:
    """Gather the facts and decide everything, without rendering. Requests run in parallel, and each is sent once.

    `hub`: a replacement for the Hugging Face hub. `progress`: gets the pending requests after a second, and when they
    change.
    """
    questions = Questions()
    today = clock.today()
    if any(workload.offline for workload in workloads):
        checkpoint, names, rows = skip_checkpoint, skip_names, skip_rows
        hub = hub or HubReader(skip_data, skip_weights)
    else:
        checkpoint, names, rows = read_checkpoint, folder_names, read_rows
        hub = hub or online_reader()
    gather_facts = partial(
        gather.gather,
        today=today,
        look=questions.once(checkpoint, subject=str),
        names=questions.once(names, subject=str),
        rows=questions.once(rows, subject=lambda pattern, **_of: str(pattern)),
        hub=HubReader(
            data=questions.once(hub.data, subject=str),
            weights=questions.once(hub.weights, subject=lambda source: source.repo),
            commit=hub.commit and questions.once(hub.commit, subject=lambda repository, _revision: repository),
        ),
    )

    def intent_of(workload: LoadedWorkload) -> Intent:
        spec = workload.spec
        facts = replace(gather_facts(spec, file=workload.file), template=workload.template, attempt=attempt)
        facts = replace(facts, counted=counts_kept(address(resolve(spec, facts)[0], facts)))
        return make_intent(spec, _with_fit(spec, facts))

    intents = [partial(intent_of, workload) for workload in workloads]
    waiting = partial(_waiting_for, questions)
    return tuple(all_answers(intents, threads=WORKLOADS_AT_ONCE, waiting=waiting, progress=progress))


WORKLOADS_AT_ONCE = 16
"""Each workload has at most five requests in progress; requests that they share are sent once."""


def _waiting_for(questions: Questions) -> str:
    """Return a line on the first questions without an answer; empty if there are none."""
    subjects = questions.waiting()
    if not subjects:
        return ""
    more = ""
    if len(subjects) > 3:
        more = f" and {len(subjects) - 3} more"
    return f"waiting for {', '.join(subjects[:3])}{more}"


def _with_fit(spec: WorkloadSpec, facts: Facts) -> Facts:
    """Return the facts with the TPU compiler's kept verdicts on this run's step and on those near it, and with the
    paces of runs like it."""
    run = resolve(spec, facts)[0]
    step = step_to_compile(run)
    if step is None or run.slice is None:
        return facts
    cache = fit_cache()
    return replace(facts, fit=cache.known(step), near_fits=tuple(cache.near(step, run.slice)), paces=own_paces(spec))


def own_paces(spec: WorkloadSpec) -> tuple[MeasuredPace, ...]:
    """Return the paces of the runs of this model on this TPU type that were submitted from this machine."""
    paces = (entry.pace for entry in record_store().local_index().entries)
    tpu = ""
    if spec.tpu:
        tpu = spec.tpu.type
    return tuple(pace for pace in paces if pace and (pace.model, pace.tpu) == (spec.model.name, tpu))


def check(workload: LoadedWorkload) -> tuple[Problem, ...]:
    """Return the problems of the workload, errors first; nothing is rendered. `xsft check` also asks MaxText's own
    pipeline about the first rows: here `inspect_data` does."""
    return tuple(p.in_file(workload.file) for p in intend((workload,))[0].problems)


def plan(
    workloads: Sequence[LoadedWorkload], *, attempt: int = 1, progress: ShowLine = lambda _line: None
) -> tuple[Plan, ...]:
    """Return one plan per workload; all that xpk has not rendered before goes to one process of xpk's environment.

    `attempt` names the JobSet: 1 unless earlier attempts of the run ended.
    """
    return plan_intents(workloads, intend(workloads, attempt=attempt, progress=progress), progress=progress)


def plan_intents(
    workloads: Sequence[LoadedWorkload], intents: Sequence[Intent], *, progress: ShowLine = lambda _line: None
) -> tuple[Plan, ...]:
    """Return the plan of each workload, from what `intend` returned for it."""
    _refuse_secrets(workloads, intents)
    is_offline = any(loaded.offline for loaded in workloads)
    needs_xpk = any(intent.xpk_argv for intent in intents)
    if is_offline and needs_xpk and environments.find_environment("xpk") is None:
        raise EnvironmentMissing(
            "the xpk environment is not built, and --offline downloads nothing",
            fix="Build it once: xsft setup xpk. xsft check --offline works without it.",
        )
    manifests = render_manifests([intent.rendering for intent in intents], progress=progress)
    return tuple(
        make_plan(intent, rendered=manifest, file=loaded.file)
        for loaded, intent, manifest in zip(workloads, intents, manifests, strict=True)
    )


def accepted_problems(plan: Plan) -> tuple[Problem, ...]:
    """Return the problems of a plan that may be submitted.

    Raises SpecError if an error forbids it, Unreachable if the only errors are facts that could not be read: the
    workload may be right, and a nightly job can try again.
    """
    return admitted_problems(plan.problems)


def admitted_problems(problems_found: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the problems as a submission judges them. Raises as `accepted_problems` does."""
    problems = for_submission(problems_found)
    errors = errors_in(problems)
    if errors and all(problem.kind == "unread" for problem in errors):
        raise Unreachable(errors[0].message, fix=errors[0].fix, id=errors[0].id)
    if errors:
        raise SpecError(errors)
    return problems


def _refuse_secrets(workloads: Sequence[LoadedWorkload], intents: Sequence[Intent]) -> None:
    """Raise SpecError for a plan with a literal secret: it would be printed, and kept in the render cache."""
    problems: list[Problem] = []
    for loaded, intent in zip(workloads, intents, strict=True):
        if any(problem.kind == "secret" for problem in intent.problems):
            problems += [problem.in_file(loaded.file) for problem in intent.problems]
    if problems:
        raise SpecError(errors_in(problems))


def render_manifests(
    renderings: Sequence[Rendering | None], *, progress: ShowLine = lambda _line: None
) -> tuple[dict[str, Any] | None, ...]:
    """Return the manifest of each rendering; all that xpk has not rendered before goes to one process of its
    environment."""
    by_xpk = _render_by_xpk(renderings, progress=progress)
    return tuple(_manifest(rendering, by_xpk) for rendering in renderings)


def _manifest(rendering: Rendering | None, by_xpk: Mapping[tuple[str, ...], dict[str, Any]]) -> dict[str, Any] | None:
    match rendering:
        case None:
            return None
        case XpkRendering(xpk_argv=argv):
            return by_xpk[argv]
        case ReadyRendering(document=document):
            return cast("dict[str, Any]", document)


def _render_by_xpk(
    renderings: Sequence[Rendering | None], *, progress: ShowLine
) -> dict[tuple[str, ...], dict[str, Any]]:
    argvs = tuple(dict.fromkeys(rendering.xpk_argv for rendering in renderings if rendering and rendering.xpk_argv))
    if not argvs:
        return {}
    xpk = environments.ensure("xpk", progress=progress)
    texts = render(argvs, python=xpk.python, lock_digest=xpk.digest, cache=own_cache())
    return {argv: _parse_manifest(text) for argv, text in zip(argvs, texts, strict=True)}


def _parse_manifest(manifest: str) -> dict[str, Any]:
    """Return the parsed manifest; raise an error unless it is one mapping, because xpk never parses its own output."""
    try:
        document = load_yaml(manifest)
    except yaml.YAMLError as e:
        raise XsftError(f"xpk rendered a manifest that is not YAML: {e}", fix="Please report it.") from None
    if not isinstance(document, dict):
        raise XsftError("xpk rendered a manifest that is not one object", fix="Please report it.")
    return document
