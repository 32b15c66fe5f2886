"""A local run inside the workload's image, with access only to the files that the trainer needs.

Files have the same paths in the container, so that the printed command is the one that runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xsft.base.acceptance import accept_late
from xsft.base.errors import EnvironmentMissing, refuse_errors
from xsft.checks.image import maxtext_differs
from xsft.image.container import FOLDER_LABEL, ContainerCommand, Mount, refuse_where_running, run_in_container
from xsft.image.engine import Engine, connect_engine
from xsft.planning.steps import Plan
from xsft.trainer.local import reads_only_files

MAXTEXT_LABEL = "dev.xsft.maxtext.version"
"""source: images/post_training/README.md."""
NEVER_MOUNTED = frozenset(
    Path(path) for path in ("/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sys", "/usr")
)
"""Folders that would replace the image's own."""
_PATHS = re.compile(r"[^\s,;\[\]{}()'\"=]+")


@dataclass(frozen=True, kw_only=True)
class LocalContainer:
    """The image for a local run, in an engine of this machine."""

    engine: Engine = field(repr=False)
    ref: str
    """As the workload names it."""
    image: str
    """The engine's id of it: the image that is inspected is the one that runs."""
    user: str
    """`uid:gid`: what the trainer writes belongs to the user who runs xsft."""
    cwd: Path

    def refuse_where_running(self, folder: Path) -> None:
        """Raise Refused if an earlier container of this run still writes to the folder."""
        refuse_where_running(folder, engine=self.engine)

    def environment(self, plan: Plan, *, cache: Path, scratch: Path, more: Mapping[str, str]) -> dict[str, str]:
        """Return the variables added to the image's own: private folders, a name for a user without one in the image,
        and the plan's last. PYTHONSAFEPATH: the current folder has no code of the run; on a slice it is the image's
        own.
        """
        return {
            **more,
            "HF_HOME": str(cache / "huggingface"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HOME": str(scratch),
            "LOGNAME": "xsft",
            "PYTHONSAFEPATH": "1",
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(scratch),
            "USER": "xsft",
            **plan.trainer_env,
        }

    def run(
        self,
        plan: Plan,
        *,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        writable: tuple[Path, ...],
        log: Path,
        on_line: Callable[[str], None],
        grace_s: float,
    ) -> int:
        """Run the trainer. Returns its exit status, as `run_in_container`. `writable`: folders it may write
        to; `writable[0]` is the run's own folder.
        """
        command = ContainerCommand(
            image=self.image,
            argv=argv,
            env=env,
            mounts=(*mounts(argv, env, writable=writable, cwd=self.cwd), TERMINATION_LOG),
            workdir=self.cwd,
            user=self.user,
            network=not reads_only_files(plan.run),
            name=f"xsft-{plan.run_name}",
            labels={FOLDER_LABEL: str(writable[0]), "dev.xsft.run": plan.run_name},
        )
        return run_in_container(command, engine=self.engine, log=log, on_line=on_line, grace_s=grace_s)


TERMINATION_LOG = Mount(path=Path("/dev/null"), at=Path("/dev/termination-log"), writable=True)
"""MaxText writes its configuration errors to this file, and a user other than root could not create it. source:
maxtext@0.2.5 configs/pyconfig.py.
"""


def container_for(
    plan: Plan,
    *,
    env: Mapping[str, str],
    progress: Callable[[str], None] = lambda _: None,
) -> LocalContainer | None:
    """Return the workload's image, pulled if the engine lacks it; None for a workload without one.

    Raises EnvironmentMissing (no engine, an engine on another machine), Unreachable, and SpecError if the image holds
    another MaxText than the workload names.
    """
    ref = plan.run.spec.image.ref
    if ref is None:
        return None
    engine = connect_engine(env)
    refuse_remote_engine(engine)
    image = engine.image(ref)
    if image is None:
        progress(f"pulling {ref}")
        image = engine.pull(ref)
    release = image.labels.get(MAXTEXT_LABEL)
    if release and release != plan.run.spec.image.maxtext:
        problems = accept_late((maxtext_differs(release, plan.run),), plan.run.spec.checks)
        refuse_errors(problems)
    user = user_in(engine, uid=os.getuid(), gid=os.getgid())
    return LocalContainer(engine=engine, ref=ref, image=image.id, user=user, cwd=Path.cwd())


def mounts(
    argv: tuple[str, ...], env: Mapping[str, str], *, writable: tuple[Path, ...], cwd: Path
) -> tuple[Mount, ...]:
    """Return the writable folders, and every file or folder that a word of the command or environment names,
    read-only.
    """
    mounted = {path: Mount(path=path, writable=True) for path in writable}
    for path in sorted(set(_named_paths((*argv, *env.values()), cwd=cwd))):
        if path not in NEVER_MOUNTED and not any(path.is_relative_to(folder) for folder in writable):
            mounted[path] = Mount(path=path)
    return tuple(mounted[path] for path in sorted(mounted))


def _named_paths(words: tuple[str, ...], *, cwd: Path) -> Iterator[Path]:
    """Yield absolute paths, and relative ones that exist; for a pattern, the folder it searches."""
    for word in words:
        for text in _PATHS.findall(word):
            if "://" in text or ("/" not in text and not (cwd / text).is_file()):
                continue
            path = Path(os.path.normpath(cwd / text))
            path = next((parent for parent in (path, *path.parents) if not set(str(parent)) & set("*?")), path)
            if path.exists():
                yield path


def refuse_remote_engine(engine: Engine) -> None:
    """Raise if the engine is on another machine, which cannot access this machine's files."""
    if not engine.host.startswith(("unix://", "http+unix://", "npipe://")):
        raise EnvironmentMissing(
            f"The Docker engine at {engine.host} is on another machine, but the run's files are here.",
            fix="Use an engine on this machine (unset DOCKER_HOST), or remove the image: --set image.ref=null.",
            id="docker-elsewhere",
        )


def user_in(engine: Engine, *, uid: int, gid: int) -> str:
    """Return the `uid:gid` whose files belong to the user; in a rootless engine, root is the user."""
    return "0:0" if engine.rootless else f"{uid}:{gid}"
