"""The login to a cluster: a kubeconfig user's login as a header and a client certificate, renewed before it expires.
source: client-go@v0.35 plugin/pkg/client/auth/exec (login programs), transport (token files).
"""

from __future__ import annotations

import json
import shutil
import ssl
import threading
from collections.abc import Mapping

import urllib3
from msgspec import DecodeError, Struct, to_builtins
from msgspec.json import Decoder
from msgspec.structs import replace

from xsft.base.errors import EnvironmentMissing, TimedOut, Unreachable
from xsft.base.moments import moment
from xsft.base.network_words import blames_network
from xsft.base.secrets import hold_secret, redact
from xsft.cluster.access import GCLOUD_LOGIN, Entry, LoginProgram, unusable_context
from xsft.machine import clock
from xsft.machine.bounded import parse_bounded
from xsft.machine.process import ProcessResult, at_terminal, run
from xsft.machine.regular import read_text
from xsft.machine.scratch import scratch_folder
from xsft.machine.streams import has_terminal, print_if_slow

LOGIN_TIMEOUT_S = 60.0
"""A login program may query its own server; it is killed after this time."""
SLOW_LOGIN_S = 5.0
"""A login program that takes longer is named; GKE's takes a second."""
EARLY_S = 300.0
"""Seconds before its expiry at which a login is renewed; at half of its lifetime if that is shorter."""
TOKEN_FILE_S = 60.0
"""Seconds for which a token file's content is used. source: client-go transport/token_source.go"""
INSTALL_HINTS = {"gke-gcloud-auth-plugin": "Install it: gcloud components install gke-gcloud-auth-plugin"}


class Credentials(Struct, frozen=True, kw_only=True):
    """What is sent with each request. No field is ever printed."""

    authorization: str | None = None
    certificate: bytes = b""
    """PEM, together with `key`."""
    key: bytes = b""
    renew_at: float | None = None
    """By `clock.epoch`; None: it has no expiry."""

    def __repr__(self) -> str:
        return "Credentials(…)"


class ExecStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """source: client-go pkg/apis/clientauthentication/v1/types.go, ExecCredentialStatus"""

    token: str | None = None
    client_certificate_data: str | None = None
    """PEM."""
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class ExecCredential(Struct, frozen=True, kw_only=True):
    status: ExecStatus


_EXEC_CREDENTIAL = Decoder(ExecCredential)
"""Made once: two threads in which msgspec first describes a type crash the process (msgspec@0.22.0)."""


class ClusterLogin:
    """The login of one context, shared by threads."""

    def __init__(self, entry: Entry, *, gke: bool, env: Mapping[str, str]) -> None:
        self._entry, self._gke, self._env = entry, gke, env
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
                hold_secret((held.authorization or "").partition(" ")[2])
            return held

    def _new(self) -> Credentials:
        user = self._entry.user
        if user.exec:
            return self._by_program(user.exec)
        fixed = Credentials(certificate=user.client_certificate_data, key=user.client_key_data)
        if user.token_file:
            token = self._token_file(user.token_file)
            return replace(fixed, authorization=self._bearer(token), renew_at=clock.epoch() + TOKEN_FILE_S)
        if user.token:
            return replace(fixed, authorization=self._bearer(user.token))
        if user.username:
            why = "Kubernetes 1.19 removed the login with a password; use a token or a login program (exec)"
            raise unusable_context(self._entry.context, why)
        if user.auth_provider:
            why = f"xsft has no auth-provider {user.auth_provider.name}; use its login program (exec)"
            raise unusable_context(self._entry.context, why)
        return fixed

    def _bearer(self, token: str) -> str:
        try:
            return _bearer(token)
        except ValueError as wrong:
            raise unusable_context(self._entry.context, str(wrong)) from None

    def _token_file(self, path: str) -> str:
        try:
            return read_text(path)
        except (OSError, ValueError) as failed:
            why = getattr(failed, "strerror", None) or "it is not UTF-8 text"
            raise unusable_context(self._entry.context, f"its tokenFile {path} cannot be read: {why}") from None

    def _by_program(self, program: LoginProgram) -> Credentials:
        done = self._run(program)
        try:
            return _of_program(done)
        except ValueError as failed:
            reason = _brief(done.stderr) or str(failed)
            raise self._no_credentials(f"The login program {program.command}", reason) from None

    def _argv(self, program: LoginProgram) -> tuple[str, ...]:
        command = program.command
        if command and shutil.which(command, path=self._env.get("PATH")):
            return (command, *program.args)
        fix = INSTALL_HINTS.get(command) or _brief(program.install_hint or f"Install {command}, or put it on PATH.")
        named = command or "a program without a name"
        message = f"The context {self._entry.context} logs in with {named}, which is not on PATH."
        raise EnvironmentMissing(message, fix=fix, id="auth-plugin-missing")

    def _run(self, program: LoginProgram) -> ProcessResult:
        argv = self._argv(program)
        terminal = program.interactive_mode != "Never" and has_terminal()
        if program.interactive_mode == "Always" and not terminal:
            raise self._no_credentials(f"The login program {argv[0]}", "it needs a terminal, and there is none")
        own = {one["name"]: one.get("value", "") for one in program.env if one.get("name")}
        cluster = {"cluster": to_builtins(self._entry.cluster)} if program.provide_cluster_info else {}
        spec = {"interactive": terminal, **cluster}  # source: client-go as of ExecStatus, ExecCredentialSpec
        info = json.dumps({"kind": "ExecCredential", "apiVersion": program.api_version, "spec": spec})
        env = {**self._env, **own, "KUBERNETES_EXEC_INFO": info}
        try:
            if terminal:
                return at_terminal(argv, env=env, timeout_s=LOGIN_TIMEOUT_S)
            waits = f"xsft: waiting for the login program {argv[0]} of the context {self._entry.context}"
            with print_if_slow(f"{waits}, at most {LOGIN_TIMEOUT_S:g} s", after_s=SLOW_LOGIN_S):
                return run(argv, env=env, timeout_s=LOGIN_TIMEOUT_S)
        except TimedOut:
            raise Unreachable(
                f"The login of the context {self._entry.context} timed out: no answer within {LOGIN_TIMEOUT_S:g} s.",
                fix="Log in manually first, then try again.",
            ) from None

    def _no_credentials(self, who: str, reason: str) -> Unreachable:
        message = f"{who} of the context {self._entry.context} gave no credentials: {reason}"
        if blames_network(reason):
            return Unreachable(message, fix="Check the network and the VPN, and try again.")
        fix = GCLOUD_LOGIN if self._gke else "Log in again with that program."
        return Unreachable(message, fix=fix, id="login-expired", again="never")


def tls_context(*, ca: bytes, verify: bool = True, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
    """Return the TLS context. All bytes are PEM; without `ca`, the system's certificates are trusted. Raises ValueError
    if a certificate or key cannot be used.
    """
    try:
        context = urllib3.util.create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED if verify else ssl.CERT_NONE)
        if verify and ca:
            context.load_verify_locations(cadata=ca.decode("ascii"))
        elif verify:
            context.load_default_certs()
        if certificate and key:
            with scratch_folder("tls") as private:  # Python's ssl module reads them from a file only
                file = private / "client.pem"
                file.write_bytes(certificate + b"\n" + key)
                context.load_cert_chain(file)
    except (ssl.SSLError, UnicodeDecodeError) as failed:
        raise ValueError(f"its certificate or key is not valid: {failed}") from None
    return context


def _parse_credential(text: bytes) -> ExecCredential:
    """Return the credential. Raises ValueError without what the program printed, which may be a part of a token."""
    try:
        return _EXEC_CREDENTIAL.decode(text)
    except DecodeError:
        raise ValueError("see its output above") from None


def _bearer(token: str) -> str:
    """Return the header with the token, without the line end of a YAML block. Raises ValueError if no header can hold
    it.
    """
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise ValueError(
            "its token has a character that a token cannot have, such as a line end or a letter with an accent"
        )
    return f"Bearer {token}"


def _of_program(done: ProcessResult) -> Credentials:
    """Return the credentials that a login program printed. Raises ValueError if it failed or printed none."""
    status = parse_bounded(done.stdout.encode(), _parse_credential).status
    certificate, key = status.client_certificate_data, status.client_key_data
    if not done.ok or not (status.token or (certificate and key)):
        raise ValueError("see its output above")
    expires, now = moment(status.expiration_timestamp), clock.epoch()
    left_s = expires.timestamp() - now if expires else 0.0
    return Credentials(
        authorization=_bearer(status.token) if status.token else None,
        certificate=(certificate or "").encode(),
        key=(key or "").encode(),
        renew_at=now + max(left_s - EARLY_S, left_s / 2) if expires else None,
    )


def _brief(text: str) -> str:
    return redact(" ".join(text.split()))[:600]
