"""Renders manifests with xpk's own code, in xpk's environment: `{"jobs": [{"argv": ["workload", "create", …],
"manifest": PATH}, …], "folder": PATH}` becomes xpk's exit status for each job, null where it is uncertain.

Most of the 0.8 CPU-seconds of an xpk dry run are spent on importing libraries that it never calls (kubernetes, google,
docker). Here inert stand-ins replace them while xpk is imported. Afterwards they are sealed: any use raises an error,
that job is reported as failed, and the caller runs the plain command line instead. So a stand-in can cost time, but not
change the result. tests/contract/test_xpk_render.py proves the output equal, byte for byte.

source: xpk 1.16.0 xpk/main.py [main], xpk/commands/workload.py [workload_create].
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.abc
import importlib.machinery
import io
import sys
import types
from pathlib import Path
from typing import Any, NoReturn

from xsft.workers.answering import answer_question

UNUSED = (
    "google",
    "kubernetes",
    "docker",
    "requests",
    "setuptools_scm",
    "ruamel",
    "yaml",
    "argcomplete",
    "tabulate",
    "packaging",
)
"""Top-level packages that xpk's modules import and that rendering a TPU workload never calls."""
PATHWAYS_ONLY = "jinja2"
"""McJAX manifests are made with str.format, Pathways ones with Jinja."""


class StandInTouchedError(RuntimeError):
    """Rendering used a library that was replaced: the output cannot be trusted."""


class Seal:
    """The state of the stand-ins: closed once xpk is imported. It records every use, because xpk may swallow the
    error.
    """

    def __init__(self) -> None:
        self.closed = False
        self.touched: list[str] = []

    def check(self, name: str) -> None:
        if self.closed:
            self.touched.append(name)
            raise StandInTouchedError(name)


class StandIn:
    """A stand-in that accepts any attribute or call while xpk is imported; afterwards, and wherever a value is needed,
    it raises an error.
    """

    def __init__(self, name: str, seal: Seal) -> None:
        self._name = name
        self._seal = seal

    def __getattr__(self, attribute: str) -> StandIn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        self._seal.check(f"{self._name}.{attribute}")
        return StandIn(f"{self._name}.{attribute}", self._seal)

    def __call__(self, *_args: object, **_kwargs: object) -> StandIn:
        self._seal.check(f"{self._name}()")
        return StandIn(f"{self._name}()", self._seal)

    def __or__(self, _other: object) -> StandIn:
        return self

    __ror__ = __or__

    def _value(self, *_args: object) -> NoReturn:
        self._seal.touched.append(self._name)
        raise StandInTouchedError(self._name)

    __bool__ = __str__ = __repr__ = __format__ = __iter__ = __len__ = __lt__ = __gt__ = __mro_entries__ = _value
    __getitem__ = __setitem__ = __contains__ = __enter__ = __add__ = __radd__ = __int__ = __float__ = _value
    __eq__ = __hash__ = _value


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An import finder for the unused packages and everything below them."""

    def __init__(self, packages: frozenset[str], seal: Seal) -> None:
        self._packages = packages
        self._seal = seal

    def find_spec(
        self, fullname: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self._packages:
            return None
        self._seal.check(fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = functools.partial(getattr, StandIn(spec.name, self._seal))  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ == "setuptools_scm":
            # As the real one outside a git checkout; xpk then reads its version from importlib.metadata.
            module.get_version = _no_checkout  # type: ignore[attr-defined]


def _no_checkout(**_kwargs: object) -> NoReturn:
    raise LookupError


class Renderer:
    """xpk's parser and functions, imported once, called many times."""

    def __init__(self, *, packages: frozenset[str], folder: Path) -> None:
        self._seal = Seal()
        sys.meta_path.insert(0, StandInFinder(packages, self._seal))
        from xpk.commands import workload  # type: ignore[import-not-found]
        from xpk.parser.workload import set_workload_parsers  # type: ignore[import-not-found]
        from xpk.utils.execution_context import set_context  # type: ignore[import-not-found]

        self._parser = argparse.ArgumentParser(description="xpk command", prog="xpk")
        commands = self._parser.add_subparsers(title="xpk subcommands", dest="xpk_subcommands")
        set_workload_parsers(workload_parser=commands.add_parser("workload"))
        self._set_context = set_context
        if PATHWAYS_ONLY not in packages:
            from jinja2 import Environment, FileSystemBytecodeCache

            # xpk makes an environment, and compiles its template again, for every workload: 15 ms each
            cache = FileSystemBytecodeCache(str(folder))
            workload.Environment = functools.partial(Environment, bytecode_cache=cache)
        self._seal.closed = True

    def render(self, argv: list[str], manifest: str) -> int | None:
        """Return xpk's exit status for one line; None if xpk raised or a stand-in was used."""
        self._seal.touched.clear()
        # xpk prints the whole manifest, environment values included, so its output is discarded.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            rc = self._run([*argv, "--dry-run", f"--output-manifest-file={manifest}"])
        return None if self._seal.touched else rc

    def _run(self, argv: list[str]) -> int | None:
        try:
            args = self._parser.parse_args(argv)
            args.enable_ray_cluster = False
            self._set_context(dry_run_value=True, quiet_value=False)
            args.func(args)
        except SystemExit as exit_:
            if isinstance(exit_.code, str):  # Python prints it, and ends with 1
                return 1
            return exit_.code or 0
        except Exception:
            return None
        return 0


def packages_to_replace(argvs: list[list[str]]) -> frozenset[str]:
    pathways = any(argv[1:2] == ["create-pathways"] for argv in argvs)
    return frozenset(UNUSED if pathways else (*UNUSED, PATHWAYS_ONLY))


def answer(question: dict[str, Any]) -> list[int | None]:
    jobs = question["jobs"]
    packages = packages_to_replace([job["argv"] for job in jobs])
    renderer = Renderer(packages=packages, folder=Path(question["folder"]))
    return [renderer.render(job["argv"], job["manifest"]) for job in jobs]


if __name__ == "__main__":
    answer_question(answer)
