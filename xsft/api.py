"""The Python seam: files in, typed values out; the same values the command line prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from xsft.checks import NOT_READ, for_submission
from xsft.effects.environments import environments
from xsft.effects.environments.render import render
from xsft.effects.facts import gather
from xsft.effects.facts.checkpoint import read_checkpoint
from xsft.effects.facts.templates import template_facts
from xsft.effects.machine import clock
from xsft.effects.machine.files import STDIN, read_workload_text
from xsft.effects.machine.paths import own_cache
from xsft.effects.machine.process import own_environment
from xsft.errors import SpecError, Unreachable, UsageError, XsftError
from xsft.facts import TemplateFacts
from xsft.launchers.rendering import ReadyRendering, Rendering, XpkRendering
from xsft.planner import make_intent, make_plan
from xsft.problems import Problem, errors_in
from xsft.spec.model import WorkloadSpec
from xsft.spec.reader import read_spec
from xsft.spec.secrets import redacted
from xsft.steps import Intent, Plan

if TYPE_CHECKING:
    from xsft.effects.local.machine import Machine
    from xsft.effects.local.run import LocalResult
    from xsft.effects.submit.proposal import Proposal
    from xsft.effects.submit.submission import Submission, Submitter
    from xsft.states.rows import Row

Progress = Callable[[str], None]

SECRET_PROBLEMS = frozenset({"secret-literal", "env-secret", "override-secret", "hf-access-token"})


class Loaded(Struct, frozen=True, kw_only=True):
    """A workload and the file it came from."""

    file: str
    spec: WorkloadSpec
    template: TemplateFacts | None = None
    """The file that its `data.chat_template` names."""


def load(file: str | Path, *, settings: Sequence[str] = (), run_name: str | None = None) -> Loaded:
    """Read and validate one workload. `settings` are `a.b=c`; `-` reads stdin. Raises SpecError with every problem."""
    name = str(file)
    try:
        changes = (*settings, *((f"name={run_name}", "run_name_suffix=none") if run_name else ()))
        spec = read_spec(read_workload_text(name), settings=changes)
    except SpecError as e:
        raise SpecError(tuple(redacted(p).in_file(p.file or name) for p in e.problems)) from None
    return Loaded(file=name, spec=spec, template=template_facts(spec, file=name))


def load_each(
    files: Sequence[str | Path], *, settings: Sequence[str] = (), run_name: str | None = None
) -> tuple[tuple[Loaded, ...], tuple[Problem, ...]]:
    """The files that could be read, and the problems of those that could not."""
    _refuse_stdin_twice(files)
    loaded: list[Loaded] = []
    problems: list[Problem] = []
    for file in files:
        try:
            loaded.append(load(file, settings=settings, run_name=run_name))
        except XsftError as e:
            problems.extend(p.in_file(p.file or str(file)) for p in e.problems)
    return tuple(loaded), tuple(problems)


def _refuse_stdin_twice(files: Sequence[str | Path]) -> None:
    if [str(file) for file in files].count(STDIN) > 1:
        raise UsageError("- is given twice: standard input can be read once.", fix="Give it once.")


def intend(workloads: Sequence[Loaded], *, attempt: int = 1) -> tuple[Intent, ...]:
    """Gather what the world says and decide everything, without rendering. Each checkpoint is looked at once."""
    look, today = cache(read_checkpoint), clock.today()
    facts = (gather.gather(one.spec, file=one.file, today=today, look=look) for one in workloads)
    pairs = zip(workloads, facts, strict=True)
    return tuple(make_intent(one.spec, replace(f, template=one.template, attempt=attempt)) for one, f in pairs)


def check(workload: Loaded) -> tuple[Problem, ...]:
    """Every problem of the workload, errors first, as `xsft check` finds them; nothing is rendered."""
    return tuple(p.in_file(workload.file) for p in intend((workload,))[0].problems)


def plan(workloads: Sequence[Loaded], *, attempt: int = 1, progress: Progress = lambda _line: None) -> tuple[Plan, ...]:
    """One plan per workload; all that xpk has not rendered before goes to one process of xpk's environment.

    `attempt` names the JobSet: 1 unless earlier attempts of the run ended.
    """
    intents = intend(workloads, attempt=attempt)
    _refuse_secrets(workloads, intents)
    manifests = _render_all(intents, progress=progress)
    return tuple(
        make_plan(intent, rendered=manifest, file=loaded.file)
        for loaded, intent, manifest in zip(workloads, intents, manifests, strict=True)
    )


def submit(
    workload: Loaded, *, through_xpk: bool = False, progress: Progress = lambda _line: None
) -> Submission | LocalResult:
    """Execute the workload's plan: put it on its cluster, once, or train here to its end.

    Raises SpecError where the plan has errors, and as `Submitter.submit` and `run_local` do; a local run that failed
    comes back as a result that says so.
    """
    (made,) = plan((workload,), progress=progress)
    accepted(made)
    if made.on_this_machine:
        return _submit_local(made, progress=progress)
    return submitter_for(workload, made, through_xpk=through_xpk, progress=progress).submit(made)


class Statuses(Struct, frozen=True, kw_only=True):
    """What `xsft status` shows."""

    runs: tuple[Row, ...]
    """Active ones first, then the newest first."""
    problems: tuple[Problem, ...]
    """What could not be read: a cluster that does not answer does not hide the others."""


def status(
    runs: Sequence[str] = (),
    *,
    place: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
    everything: bool = False,
) -> Statuses:
    """Every run that is active or ended in the last day; `runs`: these, by their exact names. `everything`: also what
    ended before. Without a place or a context: all of places.yaml, the clusters of runs submitted from here, and this
    machine.

    Raises UsageError for a name that no run has, Unreachable where nothing at all could be read.
    """
    from xsft.effects.runs.runs import runs_for
    from xsft.effects.runs.sources import Asked
    from xsft.run_query import look, pick, query_of
    from xsft.states.folding import Wanted

    asked = Asked(place=place, context=context, namespace=namespace)
    query = query_of(runs_for(asked, names=runs, everything=everything))
    query = replace(query, wanted=Wanted(runs=tuple(runs), everything=everything))
    found, rows = look(query)
    return Statuses(runs=pick(query, rows, found), problems=found.problems)


def accepted(made: Plan) -> tuple[Problem, ...]:
    """What may be submitted all the same. Raises SpecError where an error forbids it, Unreachable where all that stands
    in the way is something that could not be looked at: the workload may be right, and a nightly job try again.
    """
    problems = for_submission(made.problems)
    errors = errors_in(problems)
    if errors and all(problem.id in NOT_READ for problem in errors):
        raise Unreachable(errors[0].message, fix=errors[0].fix, id=errors[0].id)
    if errors:
        raise SpecError(tuple(map(redacted, errors)))
    return problems


def submitter_for(
    workload: Loaded,
    made: Plan,
    *,
    through_xpk: bool,
    progress: Progress,
    confirm: Callable[[Proposal], None] = lambda _proposal: None,
) -> Submitter:
    """Connected to the plan's cluster. Raises Refused where xpk was asked for and would lose something.

    `confirm`: asked just before something is created; raises Refused where the answer is no.
    """
    from xsft.effects.cluster import cluster
    from xsft.effects.records import records
    from xsft.effects.submit import recording
    from xsft.effects.submit.submission import Submitter
    from xsft.effects.submit.through_xpk import refuse_losses

    if made.run.place is None:
        raise UsageError("the workload names no place.", fix="Give it one: place: main, or inline.")
    if through_xpk and made.xpk_argv is None:
        raise UsageError(f"--through-xpk: {made.target} is another launcher.", fix="Leave it out.")
    if through_xpk:
        refuse_losses(made)
    return Submitter(
        cluster=cluster.connect(made.run.place),
        store=records.record_store(),
        provenance=recording.gather_provenance(made.file),
        replan=lambda attempt: plan((workload,), attempt=attempt)[0],
        progress=progress,
        confirm=confirm,
        **(_by_xpk(progress) if through_xpk else {}),
    )


def _by_xpk(progress: Progress) -> dict[str, Any]:
    from xsft.effects.submit.through_xpk import NOTE, ThroughXpk, differences

    xpk = environments.ensure("xpk", progress=progress)
    create = ThroughXpk(python=xpk.python, env=own_environment())
    return {"create": create, "compare": differences, "notes": (NOTE,)}


def _submit_local(made: Plan, *, progress: Progress) -> LocalResult:
    from xsft.effects.local.run import already_done, run_local

    done = already_done(made)
    if done is not None:
        return done
    return run_local(made, machine=machine_for(made, progress=progress), on_event=lambda _event: None)


def machine_for(made: Plan, *, progress: Progress) -> Machine:
    """Where a local plan runs: in its image, pulled where it is missing, else in MaxText's environment, built where it
    is missing. Raises EnvironmentMissing or Unreachable when neither can be had.
    """
    from xsft.effects.local.container import container_for
    from xsft.effects.local.machine import Machine, in_image

    env, cache = own_environment(), own_cache()
    container = container_for(made, env=env, progress=progress)
    if container:
        return in_image(container, env=env, cache=cache)
    return Machine(python=environments.ensure("maxtext", progress=progress).python, env=env, cache=cache)


def _refuse_secrets(workloads: Sequence[Loaded], intents: Sequence[Intent]) -> None:
    """A plan that holds a literal secret is not made: it would be printed, and kept in the render cache."""
    pairs = zip(workloads, intents, strict=True)
    holding = [p.in_file(one.file) for one, i in pairs if _secrets(i.problems) for p in i.problems]
    if holding:
        raise SpecError(tuple(redacted(p) for p in holding if p.severity == "error"))


def _secrets(problems: Sequence[Problem]) -> bool:
    return any(p.id in SECRET_PROBLEMS for p in problems)


def _render_all(intents: Sequence[Intent], *, progress: Progress) -> tuple[dict[str, Any] | None, ...]:
    by_xpk = _render_by_xpk(intents, progress=progress)
    return tuple(_manifest(intent.rendering, by_xpk) for intent in intents)


def _manifest(rendering: Rendering | None, by_xpk: Mapping[tuple[str, ...], dict[str, Any]]) -> dict[str, Any] | None:
    match rendering:
        case None:
            return None
        case XpkRendering(argv=argv):
            return by_xpk[argv]
        case ReadyRendering(document=document):
            return cast("dict[str, Any]", document)


def _render_by_xpk(intents: Sequence[Intent], *, progress: Progress) -> dict[tuple[str, ...], dict[str, Any]]:
    argvs = tuple(dict.fromkeys(intent.xpk_argv for intent in intents if intent.xpk_argv))
    if not argvs:
        return {}
    xpk = environments.ensure("xpk", progress=progress)
    texts = render(argvs, python=xpk.python, lock_digest=xpk.digest, cache=own_cache())
    return {argv: _parsed(text) for argv, text in zip(argvs, texts, strict=True)}


def _parsed(manifest: str) -> dict[str, Any]:
    """xpk never parses what it wrote; a manifest that is not one mapping is refused here."""
    import yaml

    try:
        document = yaml.load(manifest, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader
    except yaml.YAMLError as e:
        raise XsftError(f"xpk rendered a manifest that is not YAML: {e}", fix="Please report it.") from None
    if not isinstance(document, dict):
        raise XsftError("xpk rendered a manifest that is not one object", fix="Please report it.")
    return document
