"""The login to a cluster: a kubeconfig user's login as a header and a client certificate, renewed before it expires.
source: client-go@v0.35 plugin/pkg/client/auth/exec (login programs), plugin/pkg/client/auth/oidc, transport (token
files).
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
import threading
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from xsft.effects.cluster import oidc
from xsft.effects.cluster.config import Access
from xsft.effects.cluster.kubeconfig import Entry, KubeconfigSection, unusable
from xsft.effects.machine import clock
from xsft.effects.machine.process import Completed, at_terminal, run
from xsft.effects.machine.regular import read_text
from xsft.effects.machine.streams import print_if_slow
from xsft.errors import EnvironmentMissing, TimedOut, Unreachable
from xsft.reading.network_words import blames_network
from xsft.spec.secrets import redact
from xsft.states.moments import moment

LOGIN_TIMEOUT_S = 60.0
"""A login program may query its own server; it is killed after this time."""
TOLD_AFTER_S = 5.0
"""A login program that takes longer is named; GKE's takes a second."""
EARLY_S = 300.0
"""How long before its expiry a login is renewed; at half of its lifetime if that is shorter."""
TOKEN_FILE_S = 60.0
"""How long a token file's content is used before it is read again. source: client-go transport/token_source.go"""
GKE_PLUGIN = "gke-gcloud-auth-plugin"


class Credentials(Struct, frozen=True, kw_only=True):
    """What is sent with each request. No field is ever printed."""

    authorization: str | None = None
    certificate: bytes | None = None
    """PEM, together with `key`."""
    key: bytes | None = None
    renew_at: float | None = None
    """By `clock.epoch`; None: it has no expiry."""

    def __repr__(self) -> str:
        return "Credentials(…)"


class ClusterLogin:
    """The login of one context, shared by threads."""

    def __init__(self, entry: Entry, *, access: Access, env: Mapping[str, str]) -> None:
        self._entry, self._access, self._env = entry, access, env
        self._held: Credentials | None = None
        self._lock = threading.Lock()

    def credentials(self) -> Credentials:
        """Return the credentials. Raises EnvironmentMissing if the login program is missing, Unreachable if it gives no
        credentials.
        """
        with self._lock:
            held = self._held
            if held is None or (held.renew_at is not None and clock.epoch() > held.renew_at):
                held = self._held = self._new()
            return held

    def _new(self) -> Credentials:
        entry, user = self._entry, self._entry.user
        certificate, key = entry.user_bytes("client-certificate"), entry.user_bytes("client-key")
        fixed = Credentials(certificate=certificate, key=key)
        if isinstance(user.get("exec"), dict):
            return self._by_program(user["exec"])
        if user.get("tokenFile"):
            token = self._token_file(str(user["tokenFile"]))
            return _with(fixed, bearer(token), renew_at=clock.epoch() + TOKEN_FILE_S)
        if user.get("token"):
            return _with(fixed, bearer(str(user["token"])))
        if user.get("username"):
            pair = f"{user['username']}:{user.get('password') or ''}".encode()
            return _with(fixed, f"Basic {base64.b64encode(pair).decode('ascii')}")
        if isinstance(user.get("auth-provider"), dict):
            return _with(fixed, bearer(self._by_provider(user["auth-provider"])))
        return fixed

    def _token_file(self, path: str) -> str:
        try:
            return read_text(self._entry.user_folder / path).strip()
        except (OSError, ValueError) as failed:
            raise unusable(self._access.context, f"its tokenFile {path} cannot be read: {failed}") from None

    def _by_provider(self, section: KubeconfigSection) -> str:
        """Return the token of an auth provider. kubectl has only `oidc` since 1.26."""
        if section.get("name") != "oidc":
            why = f"kubectl 1.26 removed the auth-provider {section.get('name')}; use its login program (exec)"
            raise unusable(self._access.context, why)
        try:
            return oidc.id_token(section.get("config") or {}, folder=self._entry.user_folder, now=clock.epoch())
        except ValueError as failed:
            raise self._no_credentials("the auth-provider oidc", str(failed)) from None

    def _by_program(self, section: KubeconfigSection) -> Credentials:
        argv = self._argv(section)
        said = self._run(argv, section)
        try:
            status = json.loads(said.stdout)["status"]
            return _of_program(status) if said.ok else _refuse()
        except (ValueError, KeyError, TypeError):
            words = _brief(said.stderr) or "see its output above"
            raise self._no_credentials(f"The login program {section.get('command')}", words) from None

    def _argv(self, section: KubeconfigSection) -> tuple[str, ...]:
        command = str(section.get("command") or "")
        path = str(self._entry.user_folder / command) if "/" in command else command
        if command and shutil.which(path, path=self._env.get("PATH")):
            return (path, *map(str, section.get("args") or ()))
        fix = "Install it: gcloud components install gke-gcloud-auth-plugin"
        if command != GKE_PLUGIN:
            fix = _brief(str(section.get("installHint") or f"Install {command}, or put it on PATH."))
        named = command or "a program without a name"
        message = f"The context {self._access.context} logs in with {named}, which is not on PATH."
        raise EnvironmentMissing(message, fix=fix, id="auth-plugin-missing")

    def _run(self, argv: tuple[str, ...], section: KubeconfigSection) -> Completed:
        mode = section.get("interactiveMode") or "IfAvailable"
        terminal = mode != "Never" and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
        if mode == "Always" and not terminal:
            raise self._no_credentials(f"The login program {argv[0]}", "it needs a terminal, and there is none")
        wanted = {one["name"]: str(one.get("value", "")) for one in section.get("env") or () if one.get("name")}
        env = {**self._env, **wanted, "KUBERNETES_EXEC_INFO": self._exec_info(section, interactive=terminal)}
        try:
            if terminal:
                return at_terminal(argv, env=env, timeout_s=LOGIN_TIMEOUT_S)
            waits = f"xsft: waiting for the login program {argv[0]} of the context {self._access.context}"
            with print_if_slow(f"{waits}, at most {LOGIN_TIMEOUT_S:g} s", after_s=TOLD_AFTER_S):
                return run(argv, env=env, timeout_s=LOGIN_TIMEOUT_S)
        except TimedOut:
            raise Unreachable(
                f"The login of the context {self._access.context} timed out: no answer within {LOGIN_TIMEOUT_S:g} s.",
                fix="Log in manually first, then try again.",
            ) from None

    def _exec_info(self, section: KubeconfigSection, *, interactive: bool) -> str:
        """source: client-go pkg/apis/clientauthentication/v1/types.go, ExecCredentialSpec"""
        spec: dict[str, Any] = {"interactive": interactive}
        if section.get("provideClusterInfo"):
            cluster = self._entry.cluster
            ca = self._entry.cluster_bytes("certificate-authority")
            spec["cluster"] = {
                key: value
                for key, value in {
                    "server": cluster["server"],
                    "tls-server-name": cluster.get("tls-server-name"),
                    "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
                    "certificate-authority-data": base64.b64encode(ca).decode("ascii") if ca else None,
                    "proxy-url": cluster.get("proxy-url"),
                }.items()
                if value
            }
        return json.dumps({"kind": "ExecCredential", "apiVersion": section.get("apiVersion"), "spec": spec})

    def _no_credentials(self, who: str, said: str) -> Unreachable:
        fix = "Log in again with that program."
        if self._access.gke:
            fix = "Log in: gcloud auth login (in CI: a service account)."
        message = f"{who} of the context {self._access.context} gave no credentials: {said}"
        if blames_network(said):
            return Unreachable(message, fix="Check the network and the VPN, and try again.")
        return Unreachable(message, fix=fix, id="login-expired", again="never")


def bearer(token: str) -> str:
    return f"Bearer {token}"


def _with(fixed: Credentials, authorization: str, *, renew_at: float | None = None) -> Credentials:
    return Credentials(authorization=authorization, certificate=fixed.certificate, key=fixed.key, renew_at=renew_at)


def _of_program(status: Mapping[str, Any]) -> Credentials:
    """source: client-go pkg/apis/clientauthentication/v1/types.go, ExecCredentialStatus"""
    token, certificate, key = (status.get(key) for key in ("token", "clientCertificateData", "clientKeyData"))
    if not token and not (certificate and key):
        raise ValueError("neither a token nor a certificate")
    expires = moment(status.get("expirationTimestamp"))
    return Credentials(
        authorization=bearer(str(token)) if token else None,
        certificate=str(certificate).encode() if certificate and key else None,
        key=str(key).encode() if certificate and key else None,
        renew_at=_renew_at(expires.timestamp(), now=clock.epoch()) if expires else None,
    )


def _renew_at(expires: float, *, now: float) -> float:
    return max(expires - EARLY_S, now + (expires - now) / 2)


def _refuse() -> Credentials:
    raise ValueError("it failed")


def _brief(text: str) -> str:
    return redact(" ".join(text.split()))[:600]
