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
from typing import TYPE_CHECKING, Any

import yaml
from msgspec import Struct, convert, field

from xsft.base.errors import ClusterMissing, EnvironmentMissing, Forbidden, Unreachable, UsageError, XsftError
from xsft.base.lenient import mapping, rows
from xsft.base.names import FIX, is_placeholder, list_names, placeholder_in
from xsft.base.secrets import redact
from xsft.machine import clock, process
from xsft.machine.files import replacing_name, sweep
from xsft.machine.paths import private_folder, state_dir
from xsft.machine.process import ProcessResult, own_environment
from xsft.machine.regular import read_bytes, read_text
from xsft.records.run_cluster import ClusterAddress
from xsft.spec.yamltext import load_yaml

CERTIFICATES = ("certificate-authority", "client-certificate", "client-key")
"""Keys that name a file, unless the key with `-data` holds its content."""


class ClusterEntry(Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: bytes = b""
    proxy_url: str = ""


class LoginProgram(Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[dict[str, str], ...] = ()
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False


class AuthProvider(Struct, frozen=True, kw_only=True):
    """A login within kubectl. kubectl 1.26 removed all but `oidc`; xsft has none."""

    name: str = ""


class UserEntry(Struct, frozen=True, kw_only=True, rename="kebab"):
    client_certificate_data: bytes = b""
    client_key_data: bytes = b""
    token: str = ""
    token_file: str = field(name="tokenFile", default="")
    username: str = ""
    exec: LoginProgram | None = None
    auth_provider: AuthProvider | None = None


class Entry(Struct, frozen=True, kw_only=True):
    """The cluster and the user of a context, with the content of the certificates that they name."""

    context: str
    cluster: ClusterEntry
    user: UserEntry


for _entry in (ClusterEntry, UserEntry):
    convert({}, _entry)  # at import: msgspec@0.22.0 crashes if two threads do this for one type


def kubeconfig_files(env: Mapping[str, str], *, home: Path) -> tuple[Path, ...]:
    """Return the files kubectl would read: those of `KUBECONFIG`, else `~/.kube/config`."""
    named = [part for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
    return tuple(Path(part).expanduser() for part in named) or (home / ".kube" / "config",)


def context_names(files: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the contexts of all files, in order; a file that does not exist has none, as in kubectl."""
    contexts = (context for file in files for context in rows(load_kubeconfig(file).get("contexts")))
    return tuple(dict.fromkeys(str(context["name"]) for context in contexts if "name" in context))


def load_kubeconfig(file: Path) -> dict[str, Any]:
    """Return one file, parsed; empty if it does not exist. Raises EnvironmentMissing if it cannot be read or is not a
    kubeconfig.
    """
    try:
        parsed = load_yaml(read_text(file)) or {}
        if isinstance(parsed, dict):
            return parsed
        reason = "it is not a mapping"
    except FileNotFoundError:
        return {}
    except yaml.YAMLError:
        reason = "it is not YAML"
    except (OSError, ValueError) as failed:
        reason = getattr(failed, "strerror", None) or "it is not UTF-8 text"
    raise EnvironmentMissing(
        f"The kubeconfig {file} cannot be read: {reason}.",
        fix="Correct it (kubectl config view shows it), or set another in KUBECONFIG.",
        id="kubeconfig-unreadable",
    )


def entry_of(context: str, files: tuple[Path, ...]) -> Entry:
    """Return the context's entry. Raises EnvironmentMissing if no file has its cluster or user, or one of them cannot
    be used.
    """
    configs = [(load_kubeconfig(file), file.parent) for file in files]
    try:
        names = _entry_of_name(configs, "context", context)
        cluster = convert(_entry_of_name(configs, "cluster", names.get("cluster")), ClusterEntry)
        user = convert(_entry_of_name(configs, "user", names["user"]) if names.get("user") else {}, UserEntry)
    except OSError as failed:
        raise unusable_context(context, f"{failed.filename} cannot be read: {failed.strerror}") from None
    except ValueError as wrong:
        raise unusable_context(context, str(wrong)) from None
    if not cluster.server:
        raise unusable_context(context, f"its cluster {names['cluster']} has no server")
    return Entry(context=context, cluster=cluster, user=user)


def unusable_context(context: str, why: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"The context {context} of the kubeconfig cannot be used: {why}.",
        fix=f"Correct it; `kubectl --context {context} version` shows whether kubectl can use it.",
        id="kubeconfig-unreadable",
    )


def _entry_of_name(configs: list[tuple[dict[str, Any], Path]], kind: str, name: Any) -> dict[str, Any]:
    """Return the first entry of that name. Raises ValueError if there is none, OSError as `_with_absolute_paths`."""
    for config, folder in configs:
        for entry in rows(config.get(f"{kind}s")):
            if entry.get("name") == name:
                return _with_absolute_paths(mapping(entry, kind), folder)
    raise ValueError(f"{kind} {name!r} was not found")


def _with_absolute_paths(section: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the section without nulls (Go reads them as no value), with the content of the certificates that it
    names, and other paths absolute. Raises OSError if a certificate cannot be read.
    """
    usable = {
        key: _with_absolute_paths(setting, folder) if isinstance(setting, dict) else setting
        for key, setting in section.items()
        if setting is not None
    }
    for key in CERTIFICATES:
        if usable.get(key) and not usable.get(f"{key}-data"):
            usable[f"{key}-data"] = read_bytes(folder / str(usable[key]))
    if usable.get("tokenFile"):
        usable["tokenFile"] = str(folder / str(usable["tokenFile"]))
    # a command without a slash is searched on PATH, as in kubectl
    if "/" in str(usable.get("command")):
        usable["command"] = str(folder / str(usable["command"]))
    return usable


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
    contexts = context_names(files)
    if context not in contexts:
        similar = get_close_matches(context, contexts, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else "."
        paths = os.pathsep.join(map(str, files))
        raise ClusterMissing(
            f"The kubeconfig has no context {context}{hint} Known: {list_names(contexts, 20) or 'none'} ({paths}).",
            fix="Use one of them (place.context, or --context), or set KUBECONFIG to the file that has it.",
            id="context-unknown",
        )
    return Access(kubeconfig=files, context=context, gke=context.startswith("gke_"))


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
    try:
        private_folder(private.parent)
        private.parent.chmod(0o700)
    except OSError as failed:
        message = f"{private.parent} cannot be created: {failed.strerror}"
        raise EnvironmentMissing(message, fix="Set XSFT_STATE_DIR to a writable folder.") from None
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
        raise EnvironmentMissing(
            f"The cluster {cluster} ({project}, {zone}) is in no kubeconfig, and gcloud cannot fetch its address:"
            f" {missing.clause}.",
            fix="Install the Google Cloud CLI (https://cloud.google.com/sdk/docs/install), or give the place a"
            " kubeconfig context instead of project, zone and cluster.",
            id="gcloud-missing",
        ) from None


def _no_credentials(argv: tuple[str, ...], done: ProcessResult, *, project: str, zone: str, cluster: str) -> XsftError:
    text = redact(done.stderr.strip() or done.stdout.strip())[-600:]
    # gcloud has no stable codes for these: its words are all that tells them apart
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
    return Unreachable(
        f"gcloud could not get the credentials of the cluster {cluster}: {text}", fix=f"Try: {shlex.join(argv)}"
    )
