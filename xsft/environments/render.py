"""Renders manifests with xpk: `xpk workload create …` lines in, manifests out, exactly as xpk writes them.

Rendering is a pure function of the line and of xpk's lock, so the result is cached under a key made of both. What is
not cached is sent to one process in xpk's environment (`xpk_renderer`). What that process is not certain of is
rendered by xpk's plain command line, which is slower and authoritative. xpk runs as a dry run, with an environment
built from scratch.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, SpecError, XsftError, refuse_errors
from xsft.base.problems import Problem, error
from xsft.environments.ask import PROGRAMS, Interpreter, ProgramFailed, ask
from xsft.machine import clock, process
from xsft.machine.files import write_private
from xsft.machine.paths import scratch_folder
from xsft.machine.process import own_environment

Argv = tuple[str, ...]

_REVISION = "1"
"""Version of the cache; increase it if this module or the worker writes another manifest for the same line and lock."""
RENDERER = "xsft.workers.xpk_renderer"
_VERBS = (("xpk", "workload", "create"), ("xpk", "workload", "create-pathways"))
UTF8 = ("-X", "utf8")
# -I: no PYTHON* variable, no user site, no current directory.
COMMAND_LINE = (*UTF8, "-I", "-m", "xpk.main")
"""Arguments of xpk's Python, before xpk's own."""
LIMIT_S = 120.0
"""Seconds for one line; more lines get a second each."""
KEPT_S = 90 * 86400.0
"""Seconds for which a cache entry is kept."""
_CLUSTER_FIX = "Change the value that xpk names in the workload or its place."
_FIX = "run `xsft setup --verify` (or `make setup`), then `xsft doctor`"


class XpkCall(Struct, frozen=True, kw_only=True):
    """xpk's interpreter, xsft's programs for it, and the private directory of one call."""

    python: Path
    programs: Path
    scratch: Path

    def run(self, *arguments: str) -> process.ProcessResult:
        """Run xpk's command line."""
        argv = (str(self.python), *COMMAND_LINE, *arguments)
        return process.run(argv, env=_xpk_environment(self.scratch), cwd=self.scratch, timeout_s=LIMIT_S)

    def manifest(self, index: int) -> Path:
        return self.scratch / f"{index}.yaml"


def render(
    argvs: Sequence[Argv], *, python: Path, lock_digest: str, cache: Path, programs: Path = PROGRAMS
) -> tuple[str, ...]:
    """Return the manifest of each `("xpk", "workload", "create" or "create-pathways", "--flag=value", …)`, in order.

    `python` is the interpreter of xpk's environment, `lock_digest` identifies what is installed there, `cache` is
    xsft's cache directory. Raises SpecError with xpk's own message if xpk refuses a line, EnvironmentMissing if xpk
    cannot run, TimedOut if it hangs.
    """
    for argv in argvs:
        _require_renderable(argv)
    entries = {argv: cache / "renders" / _entry_name(argv, lock_digest) for argv in argvs}
    manifests = {argv: manifest for argv, path in entries.items() if (manifest := _read_cached(path)) is not None}
    missing = tuple(argv for argv in entries if argv not in manifests)
    if missing:
        for argv, manifest in _render_all(missing, python=python, programs=programs).items():
            _write_cached(entries[argv], manifest)
            manifests[argv] = manifest
    return tuple(manifests[argv] for argv in argvs)


def dry_run(argv: Argv, *, python: Path) -> str:
    """Return what `xpk cluster create…` prints as a dry run, in which it executes nothing and needs no login. Raises
    SpecError with xpk's own words if it refuses the line.
    """
    if argv[:2] != ("xpk", "cluster") or argv[-1] != "--dry-run":
        raise XsftError(f"not a dry run of a cluster: {argv}")
    with scratch_for(python) as xpk:
        done = xpk.run(*argv[1:])
    output = done.stdout + done.stderr
    if done.ok:
        return output
    raise SpecError(
        (error("xpk-refused", "", f"xpk refuses to create the cluster: {last_words(output)}", _CLUSTER_FIX),)
    )


def _require_renderable(argv: Argv) -> None:
    """Raise an error for a line with a flag that would create a workload, prompt or overwrite. Callers build these
    lines, so this is a bug in a caller.
    """
    if argv[:3] not in _VERBS:
        raise XsftError(f"not a line that xpk renders: {argv[:3]}")
    # argparse accepts abbreviations: --q is --quiet, --d is --dry-run.
    for flag in (argument.partition("=")[0] for argument in argv[3:]):
        if not flag.startswith("--") or flag.startswith(("--q", "--dr", "--ou", "--no-q", "--no-d")):
            raise XsftError(f"the flag {flag!r} does not belong on a line to render")


@contextlib.contextmanager
def scratch_for(python: Path, *, programs: Path = PROGRAMS) -> Iterator[XpkCall]:
    """Yield xpk with a private directory (0700) that is always removed: xpk leaves manifests behind in TMPDIR."""
    with scratch_folder("xpk") as scratch:
        yield XpkCall(python=python, programs=programs, scratch=scratch)


def _render_all(argvs: tuple[Argv, ...], *, python: Path, programs: Path) -> dict[Argv, str]:
    try:
        with scratch_for(python, programs=programs) as xpk:
            lean = render_lean(argvs, xpk)
            return lean | _plain_all(tuple(argv for argv in argvs if argv not in lean), xpk)
    except OSError as problem:
        raise EnvironmentMissing(
            f"xpk's manifest could not be written to {tempfile.gettempdir()}: {problem.strerror}",
            fix="free disk space there, or set TMPDIR to another folder",
        ) from problem


def render_lean(argvs: tuple[Argv, ...], xpk: XpkCall) -> dict[Argv, str]:
    """Return what one worker process could render with certainty; possibly nothing."""
    jobs = [{"argv": argv[1:], "manifest": str(xpk.manifest(index))} for index, argv in enumerate(argvs)]
    interpreter = Interpreter(
        python=xpk.python,
        options=UTF8,
        env=_xpk_environment(xpk.scratch),
        cwd=xpk.scratch,
        timeout_s=LIMIT_S + len(argvs),
    )
    try:
        codes = ask(interpreter, RENDERER, {"jobs": jobs, "folder": str(xpk.scratch)}, folder=xpk.programs)
    except ProgramFailed:  # xpk's command line decides
        return {}
    sure = {
        argv: xpk.manifest(index) for index, (argv, code) in enumerate(zip(argvs, codes, strict=False)) if code == 0
    }
    return {argv: _read_utf8(manifest) for argv, manifest in sure.items() if manifest.exists()}


def _plain_all(argvs: tuple[Argv, ...], xpk: XpkCall) -> dict[Argv, str]:
    """Render with xpk's own command line, one process each. Raises SpecError with every refusal, not only the first."""
    outcomes = {argv: _render_plain(argv, xpk) for argv in argvs}
    refuse_errors(outcome for outcome in outcomes.values() if isinstance(outcome, Problem))
    return {argv: outcome for argv, outcome in outcomes.items() if isinstance(outcome, str)}


def _render_plain(argv: Argv, xpk: XpkCall) -> str | Problem:
    """Render one line. xpk prints the manifest with its environment values, so only the last lines of an error are
    shown.
    """
    manifest = xpk.scratch / "plain.yaml"
    manifest.unlink(missing_ok=True)
    done = xpk.run(*argv[1:], "--dry-run", f"--output-manifest-file={manifest}")
    if done.ok and manifest.exists():
        return _read_utf8(manifest)
    output = done.stdout + done.stderr
    spoke = "[XPK]" in output or "usage: xpk" in output
    # An xpk that cannot be imported ends with a traceback, before it prints a line of its own.
    if not spoke or done.status < 0:
        raise EnvironmentMissing(f"xpk cannot run in {xpk.python}: {last_words(output)}", fix=_FIX)
    if manifest.exists():
        output = output.replace(_read_utf8(manifest), "")
    name = next((a.partition("=")[2] for a in argv if a.startswith("--workload=")), "the workload")
    return error(
        "xpk-refused",
        "",
        f"xpk refuses to render {name}: {last_words(output)}",
        "change the value that xpk names, or report this",
    )


def last_words(output: str) -> str:
    """Return the last words of the output. After argparse's usage or a traceback the last line is enough; xpk's own
    messages span several lines.
    """
    lines = [line.strip().removeprefix("[XPK] ") for line in output.splitlines() if line.strip()]
    last = 1 if "usage: xpk" in output or "Traceback (most recent" in output else 3
    return " | ".join(lines[-last:]) or "it printed nothing"


def _xpk_environment(scratch: Path) -> Mapping[str, str]:
    """Return the environment, without any of the user's variables: xpk's feature flags, gcloud's and kubectl's settings
    are all variables.
    """
    loader = own_environment().get("LD_LIBRARY_PATH")
    variables = {"LD_LIBRARY_PATH": loader} if loader else {}  # where its Python's own libraries may be
    return {
        **variables,
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "KUBECONFIG": str(scratch / "kubeconfig"),
        "TELEMETRY_ENABLED": "false",
        "DEPENDENCY_AUTO_DOWNLOAD": "false",
        "XPK_TESTER": "false",
    }


def _read_utf8(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def _entry_name(argv: Argv, lock_digest: str) -> str:
    key = json.dumps([_REVISION, lock_digest, argv])
    return f"{hashlib.sha256(key.encode()).hexdigest()}.yaml"


def _header(manifest: str) -> str:
    return f"# sha256 of what follows: {hashlib.sha256(manifest.encode()).hexdigest()}\n"


def _read_cached(path: Path) -> str | None:
    """Return the entry; None if there is none, or its content is not what was written."""
    try:
        header, newline, manifest = _read_utf8(path).partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return manifest if header + newline == _header(manifest) else None


def _write_cached(path: Path, manifest: str) -> None:
    """Write the entry atomically. A cache that cannot be written only costs time, so that is not an error."""
    with contextlib.suppress(OSError, XsftError):
        write_private(path, _header(manifest) + manifest)
        for entry in path.parent.glob("*.yaml"):  # old ones: rendering them again takes a second or two
            with contextlib.suppress(OSError):  # another xsft may have removed it
                if entry.lstat().st_mtime < clock.epoch() - KEPT_S:
                    entry.unlink()
