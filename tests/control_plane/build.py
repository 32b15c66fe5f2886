"""Build the tools with Go, once per user and per set of pins: about 20 minutes of CPU, most of it Kubernetes.

Sources come by the user's own Go settings; checksums are verified against go.sum, which is committed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.control_plane import kueue_source, tools
from tests.control_plane.tools import GO, MANIFESTS, TOOLS, Tool, Tools
from xsft.base.amounts import duration_text
from xsft.base.errors import EnvironmentMissing
from xsft.machine.filelock import exclusive
from xsft.machine.parallel import start
from xsft.machine.process import ProcessResult, own_environment, run

Progress = Callable[[str], None]
TELL_S = 30.0
HOW_TO_GET_GO = "install Go from your system's packages or go.dev/doc/install, and have `go` on PATH"


def ensure(*, progress: Progress) -> Tools:
    """The tools, built now where they are missing. Raises EnvironmentMissing without a fitting Go, or when Go fails."""
    return tools.find() or _build(tools.place(), progress=progress)


def why_not() -> str:
    """Return why the tools cannot be built here; empty if they can."""
    if shutil.which("go") is None:
        return f"no Go on PATH; {HOW_TO_GET_GO}"
    for module in dict.fromkeys(tool.module for tool in TOOLS):
        process_result = go(("env", "GOVERSION"), module=module)
        if not process_result.ok:
            return f"this Go is too old, or cannot fetch the newer one: {_last(process_result)}; {HOW_TO_GET_GO}"
    return ""


def _build(place: Path, *, progress: Progress) -> Tools:
    if why := why_not():
        raise EnvironmentMissing(f"the programs of the test cluster cannot be built: {why}", fix=HOW_TO_GET_GO)

    def waiting() -> None:
        progress("another process is building the test cluster's programs; waiting for it")

    with exclusive(place.with_suffix(".lock"), waiting=waiting):
        if built := tools.find():
            return built
        for path in place.parent.glob(f"{place.name}-*"):  # by one that was killed: we hold the lock
            shutil.rmtree(path, ignore_errors=True)
        with TemporaryDirectory(dir=place.parent, prefix=f"{place.name}-") as scratch:
            _build_in(Path(scratch), progress=progress)
            (Path(scratch) / "made").rename(place)
    return Tools(place)


def _build_in(scratch: Path, *, progress: Progress) -> None:
    path = scratch / "made"
    (path / "bin").mkdir(parents=True)
    for project, (module, package, folders) in MANIFESTS.items():
        source = source_of(package, module=module)
        target = path / "manifests" / project
        target.mkdir(parents=True)
        for file in (file for folder in folders for file in (source / folder).glob("*.yaml")):
            shutil.copyfile(file, target / file.name)
    with_patch = _patched_module(scratch)
    for number, tool in enumerate(TOOLS, start=1):
        what = f"building {tool.name}, {number} of {len(TOOLS)}"
        progress(f"{what}{'; minutes each' if number == 1 else ''}")
        extra = (f"-modfile={with_patch}",) if tool.name == "kueue" else ()
        telling(partial(_compile, tool, path / "bin" / tool.name, extra), what=what, progress=progress)


def telling(act: Callable[[], None], *, what: str, progress: Progress, every_s: float = TELL_S) -> None:
    """Do it, and say now and then that it goes on: the first tool compiles all of Kubernetes, for many minutes."""
    started = start(act)
    passed = 0.0
    while not started.ended(every_s):
        passed += every_s
        progress(f"{what}: {duration_text(passed)}")
    started.result()


def _compile(tool: Tool, target: Path, extra: tuple[str, ...]) -> None:
    flags = ("-trimpath", "-buildvcs=false", "-ldflags", tools.link_flags(), *extra)
    done = go(("build", *flags, "-o", str(target), tool.package), module=tool.module)
    if not done.ok:
        raise EnvironmentMissing(
            f"building {tool.name} failed:\n{done.stderr[-2000:]}",
            fix=f"look at `cd {GO / tool.module} && go build {tool.package}`",
        )


def source_of(package: str, *, module: str) -> Path:
    """The folder of a module, fetched where it is not here yet and verified by go.sum."""
    done = go(("mod", "download", package), module=module)
    told = go(("list", "-m", "-f", "{{.Dir}}", package), module=module) if done.ok else done
    if not told.ok or not told.stdout.strip():
        raise EnvironmentMissing(f"Go does not get {package}: {_last(told)}", fix="look at the network and `go env`")
    return Path(told.stdout.strip())


def _patched_module(scratch: Path) -> Path:
    """The go.mod that takes Kueue from its patched copy; its go.sum beside it, where -modfile looks."""
    source = scratch / "kueue"
    kueue_source.write_patched(source_of("sigs.k8s.io/kueue", module="control"), source)
    modfile = scratch / "patched.mod"
    modfile.write_text(f"{tools.pins('control')}\nreplace sigs.k8s.io/kueue => {source}\n", encoding="utf-8")
    shutil.copyfile(GO / "control" / "go.sum", modfile.with_suffix(".sum"))
    return modfile


def go(arguments: tuple[str, ...], *, module: str) -> ProcessResult:
    return run(("go", *arguments), env=_environment(), cwd=GO / module)


def _environment() -> Mapping[str, str]:
    return own_environment(CGO_ENABLED="0", GOWORK="off")


def _last(done: ProcessResult) -> str:
    return (done.stderr.strip() or done.stdout.strip() or f"exit status {done.status}").splitlines()[-1]
