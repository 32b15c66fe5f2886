"""Which cluster, and with which kubeconfig: a context the user named, or GKE's own for project, zone and cluster. The
user's kubeconfig is read and never written; its current context is never used.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from xsft.base.errors import ClusterMissing, EnvironmentMissing, Forbidden, Unreachable, UsageError, XsftError
from xsft.base.names import list_names
from xsft.base.placeholders import FIX, is_placeholder, placeholder_in
from xsft.base.secrets import redact
from xsft.cluster.kubeconfig import context_names, kubeconfig_files
from xsft.machine import clock, process
from xsft.machine.files import replacing_name, sweep
from xsft.machine.paths import private_folder, state_dir
from xsft.machine.process import ProcessResult, own_environment
from xsft.records.run_cluster import ClusterAddress

if TYPE_CHECKING:
    from xsft.spec.place import Place  # its models need pydantic

GCLOUD_TIMEOUT_S = 60.0
GCLOUD_LOGIN = "Log in: gcloud auth login (in CI: a service account)."
PRIVATE_FILE_AGE_S = 12 * 3600.0
"""A cluster that was recreated has another address and certificate; calling gcloud again costs a second or two."""

RunCommand = Callable[..., ProcessResult]
"""`xsft.machine.process.run`, or a test's replacement."""


class Access(Struct, frozen=True, kw_only=True):
    """How to reach a cluster."""

    kubeconfig: tuple[Path, ...]
    """Files, read in order as kubectl does; the first that has a name wins."""
    context: str
    gke: bool
    """Whether project, zone and cluster named it: decides which next step is suggested if the login has expired."""


class AccessSources(Struct, frozen=True, kw_only=True):
    """What finding a cluster reads on this machine."""

    env: Mapping[str, str]
    home: Path
    run: RunCommand = process.run
    age_s: Callable[[Path], float] = lambda path: clock.epoch() - path.stat().st_mtime


def this_machine() -> AccessSources:
    return AccessSources(env=own_environment(), home=Path.home())


def access_for(place: ClusterAddress | Place, *, here: AccessSources) -> Access:
    """Return access to the place's cluster. Raises UsageError if the context does not exist or the place names no
    cluster or a placeholder, EnvironmentMissing if gcloud is needed and missing, Unreachable if gcloud does not get the
    cluster's credentials.
    """
    if place.context:
        return context_access(place.context, here=here)
    if not (place.project and place.zone and place.cluster):
        raise UsageError(
            "The place has no cluster: it needs project, zone and cluster, or a kubeconfig context.",
            fix="Complete it in places.yaml, or use a context.",
        )
    return _gke_access(place.project, place.zone, place.cluster, here=here)


def context_access(context: str, *, here: AccessSources) -> Access:
    """Return access by a kubeconfig context. Raises UsageError, which lists the known contexts, if it does not
    exist.
    """
    files = kubeconfig_files(here.env, home=here.home)
    known = context_names(files)
    if context not in known:
        fix = "Use one of them (place.context, or --context), or set KUBECONFIG to the file that has it."
        raise ClusterMissing(_unknown_context(context, known=known, files=files), fix=fix, id="context-unknown")
    return Access(kubeconfig=files, context=context, gke=context.startswith("gke_"))


def _unknown_context(context: str, *, known: tuple[str, ...], files: tuple[Path, ...]) -> str:
    near = get_close_matches(context, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    where = os.pathsep.join(map(str, files))
    return f"The kubeconfig has no context {context}{hint} Known: {list_names(known, 20) or 'none'} ({where})."


def _gke_access(project: str, zone: str, cluster: str, *, here: AccessSources) -> Access:
    """Return access by the context that gcloud writes: from the user's kubeconfig if it has one, else from a private
    file.
    """
    context = f"gke_{project}_{zone}_{cluster}"
    files = kubeconfig_files(here.env, home=here.home)
    if context in context_names(files):
        return Access(kubeconfig=files, context=context, gke=True)
    if name := placeholder_in(project, cluster):
        raise UsageError(is_placeholder(name), fix=FIX, id="place-placeholder")
    private = state_dir(here.env, home=here.home) / "kube" / f"{context.replace(':', '_')}.yaml"
    if not _is_fresh(private, here):
        _get_credentials(private, project=project, zone=zone, cluster=cluster, here=here)
    return Access(kubeconfig=(private,), context=context, gke=True)


def _is_fresh(private: Path, here: AccessSources) -> bool:
    try:
        return 0 <= here.age_s(private) < PRIVATE_FILE_AGE_S and bool(context_names((private,)))
    except (OSError, EnvironmentMissing):
        return False


def _get_credentials(private: Path, *, project: str, zone: str, cluster: str, here: AccessSources) -> None:
    """Run gcloud. It writes to a temporary file, which is then renamed: two submitters never read half a file."""
    _make_private_folder(private.parent)
    sweep(private.parent)
    argv = ("gcloud", "container", "clusters", "get-credentials", cluster, f"--location={zone}", f"--project={project}")
    quiet = {"CLOUDSDK_CORE_DISABLE_PROMPTS": "1", "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1"}
    try:
        with replacing_name(private) as fresh:
            env = {**here.env, **quiet, "KUBECONFIG": str(fresh)}
            done = here.run((*argv, "--quiet"), env=env, timeout_s=GCLOUD_TIMEOUT_S)
            if not done.ok or not context_names((fresh,)):
                raise _no_credentials(argv, done, project=project, zone=zone, cluster=cluster)
            fresh.chmod(stat.S_IRUSR | stat.S_IWUSR)
            fresh.replace(private)
    except EnvironmentMissing as missing:
        raise _gcloud_missing(missing, project=project, zone=zone, cluster=cluster) from None


def _make_private_folder(folder: Path) -> None:
    try:
        private_folder(folder)
        folder.chmod(0o700)
    except OSError as failed:
        raise EnvironmentMissing(
            f"{folder} cannot be created: {failed.strerror}", fix="Set XSFT_STATE_DIR to a writable folder."
        ) from None


def _gcloud_missing(missing: EnvironmentMissing, *, project: str, zone: str, cluster: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"The cluster {cluster} ({project}, {zone}) is in no kubeconfig, and gcloud cannot fetch its address:"
        f" {missing.clause}.",
        fix="Install the Google Cloud CLI (https://cloud.google.com/sdk/docs/install), or give the place a kubeconfig"
        " context instead of project, zone and cluster.",
        id="gcloud-missing",
    )


def _no_credentials(argv: tuple[str, ...], done: ProcessResult, *, project: str, zone: str, cluster: str) -> XsftError:
    text = redact(done.stderr.strip() or done.stdout.strip())[-600:]
    by_hand = shlex.join(argv)
    if "currently have an active account" in text or "auth login" in text:
        message = f"gcloud is not logged in: {text}"
        return Unreachable(message, fix=GCLOUD_LOGIN, id="login-expired", again="never")
    if "NOT_FOUND" in text or "code=404" in text:
        message = f"gcloud found no cluster {cluster} in {zone} of project {project}: {text}"
        fix = f"List the clusters: gcloud container clusters list --project={project}"
        return ClusterMissing(message, fix=fix)
    if "PERMISSION_DENIED" in text or "code=403" in text:
        fix = "Ask for roles/container.clusterViewer (and roles/container.developer to submit) on the project."
        return Forbidden(f"gcloud may not read the cluster {cluster}: {text}", fix=fix)
    return Unreachable(f"gcloud could not get the credentials of the cluster {cluster}: {text}", fix=f"Try: {by_hand}")
