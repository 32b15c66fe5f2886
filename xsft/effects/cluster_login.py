"""From a kubeconfig context to a client of the official library, with every surprise switched off: no retries of its
own, no redirects, no write to the kubeconfig, no proxy for loopback.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from xsft.effects import clock
from xsft.effects.cluster_config import Access, load_kubeconfig
from xsft.effects.lean_imports import later, lazily, without
from xsft.effects.storage import within
from xsft.errors import EnvironmentMissing, Unreachable
from xsft.spec.secrets import redact

LOGIN_TIMEOUT_S = 60.0
"""A login plugin may ask its own server; the library would wait for it without end."""

LOOK_AGAIN_S = 30.0
"""How often it is looked whether a token is about to expire; far below the five minutes before that it is renewed."""

UNUSED = (
    *("kubernetes.dynamic", "kubernetes.informer", "kubernetes.leaderelection", "kubernetes.stream"),
    *("kubernetes.watch", "oauthlib.oauth2"),
)
"""Of the library, which loads all it has; source: kubernetes@37.0.2 kubernetes/__init__.py, config/kube_config.py."""

UNCALLED = {
    "requests_oauthlib": ("OAuth2Session",),
    "pydantic": ("SecretStr",),
    "kubernetes.client.api_response": ("ApiResponse", "T"),
    "dateutil.parser": ("parse",),
    "multiprocessing.pool": ("ThreadPool",),
    "kubernetes.utils.create_from_yaml": (
        *("FailToCreateError", "create_from_dict", "create_from_yaml", "create_from_directory"),
    ),
    "kubernetes.utils.duration": ("parse_duration",),
    "kubernetes.utils.metrics": ("get_nodes_metrics", "get_pods_metrics", "get_pods_metrics_in_all_namespaces"),
    "kubernetes.utils.quantity": ("parse_quantity",),
}
"""What the library takes of modules that then need not be loaded: kubernetes@37.0.2 client/api_client.py,
utils/__init__.py.
"""

Refresh = Callable[[Any], None]

LOOPBACK = "localhost,127.0.0.0/8,::1"
"""Never through a proxy, as kubectl does (golang.org/x/net http/httpproxy)."""

GKE_PLUGIN = "gke-gcloud-auth-plugin"


def client_for(access: Access, *, env: Mapping[str, str]) -> Any:
    """A `kubernetes.client.ApiClient` for the context.

    Raises EnvironmentMissing where the context's login plugin is not installed or the kubeconfig is broken, Unreachable
    where the plugin gives no credentials.
    """
    plugin = _plugin(access)
    if plugin is not None:
        _refuse_missing_plugin(access, plugin, env)
    configuration, complaints = _in_time(access)
    if plugin is not None and not (configuration.api_key or configuration.cert_file):
        raise _no_credentials(access, plugin, complaints)
    from kubernetes.client import ApiClient

    configuration.refresh_api_key_hook = _now_and_then(configuration.refresh_api_key_hook)
    client = ApiClient(configuration=configuration)
    client.user_agent = "xsft"
    return client


def _now_and_then(refresh: Refresh | None) -> Refresh | None:
    """The library looks at every request whether its token expires in the next five minutes, and then sets all up anew:
    2 ms, which 40 logs cost 40 times. It need not look again so soon.
    """
    if refresh is None:
        return None
    last = float("-inf")

    def look(configuration: Any) -> None:
        nonlocal last
        if clock.monotonic() - last >= LOOK_AGAIN_S:
            refresh(configuration)
            last = clock.monotonic()

    return look


def _in_time(access: Access) -> tuple[Any, tuple[str, ...]]:
    try:
        return within(LOGIN_TIMEOUT_S, lambda: _configured(access))
    except Unreachable as failed:
        message = f"The login of the context {access.context} did not end: {failed.message}."
        raise Unreachable(message, fix="Log in by hand first, then try again.", id="login-expired") from None


def _configured(access: Access) -> tuple[Any, tuple[str, ...]]:
    load_kube_config, configuration = _library()
    from kubernetes.config.config_exception import ConfigException

    configuration.retries = False
    configuration.no_proxy = ",".join(filter(None, (configuration.no_proxy, LOOPBACK)))
    files = ":".join(map(str, access.kubeconfig))
    with _complaints() as said:
        try:
            load_kube_config(files, access.context, client_configuration=configuration, persist_config=False)
        except (ConfigException, OSError, ValueError, KeyError, TypeError) as failed:
            raise EnvironmentMissing(
                f"The context {access.context} of the kubeconfig cannot be used: {_brief(str(failed))}",
                fix=f"Mend it; `kubectl --context {access.context} version` says whether kubectl can use it.",
                id="kubeconfig-unreadable",
            ) from None
    return configuration, tuple(said)


def _library() -> tuple[Any, Any]:
    """`load_kube_config`, and a configuration to fill; without half of what the library loads beside them.

    `google.auth` it tries for the `gcp` login, which kubectl 1.26 dropped; the OAuth2 client serves `oidc` only, and
    pydantic the answers that it takes apart itself, which nobody asks of it here.
    """
    with without("google.auth"), lazily(*UNUSED), ExitStack() as unloaded:
        for module, names in UNCALLED.items():
            unloaded.enter_context(later(module, *names))
        from kubernetes.client import Configuration, api_client  # noqa: F401 - what it takes is laid out here
        from kubernetes.config import load_kube_config

    return load_kube_config, Configuration()


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """What the library logs while it loads: it reports a failed plugin in no other way."""
    said: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    handler = Collect()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield said
    finally:
        root.removeHandler(handler)


def _plugin(access: Access) -> tuple[dict[str, Any], Path] | None:
    """The context's `exec` section and the folder of its file; None where it logs in otherwise."""
    files = [(load_kubeconfig(file), file.parent) for file in access.kubeconfig]
    user = _first(files, "contexts", access.context, "context")
    name = user[0].get("user") if user else None
    found = _first(files, "users", str(name), "user") if name else None
    section = found[0].get("exec") if found else None
    return (section, found[1]) if found and isinstance(section, dict) else None


def _first(
    files: list[tuple[dict[str, Any], Path]], kind: str, name: str, part: str
) -> tuple[dict[str, Any], Path] | None:
    for config, folder in files:
        for entry in config.get(kind) or ():
            if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(part), dict):
                return entry[part], folder
    return None


def _refuse_missing_plugin(access: Access, plugin: tuple[dict[str, Any], Path], env: Mapping[str, str]) -> None:
    section, folder = plugin
    command = str(section.get("command") or "")
    path = str(folder / command) if "/" in command else command
    if command and shutil.which(path, path=env.get("PATH")):
        return
    fix = "Install it: gcloud components install gke-gcloud-auth-plugin"
    if command != GKE_PLUGIN:
        fix = _brief(str(section.get("installHint") or f"Install {command}, or put it on PATH."))
    message = f"The context {access.context} logs in with {command or 'a plugin without a name'}, which is not on PATH."
    raise EnvironmentMissing(message, fix=fix, id="auth-plugin-missing")


def _no_credentials(access: Access, plugin: tuple[dict[str, Any], Path], complaints: tuple[str, ...]) -> Unreachable:
    heard = [text for text in complaints if "NoneType" not in text]  # on a terminal the plugin has spoken itself
    said = _brief("; ".join(heard)) or "what it said, if anything, stands above"
    fix = "Log in: gcloud auth login (in CI: a service account)." if access.gke else "Log in again with that program."
    return Unreachable(
        f"The login program {plugin[0].get('command')} of the context {access.context} gave no credentials: {said}",
        fix=fix,
        id="login-expired",
    )


def _brief(text: str) -> str:
    return redact(" ".join(text.split()))[:600]
