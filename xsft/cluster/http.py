"""Requests to a Kubernetes API server, each sent once, their outcomes, and the login that they carry.

A kubeconfig user's login is a header and a client certificate, renewed before it expires. source: client-go@v0.35
plugin/pkg/client/auth/exec (login programs), transport (token files).
"""

from __future__ import annotations

import json
import shutil
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import lru_cache, partial
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import urllib3
from msgspec import DecodeError, Struct, to_builtins
from msgspec.json import Decoder
from msgspec.structs import replace
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from xsft.base.amounts import moment
from xsft.base.errors import EnvironmentMissing, TimedOut, Unreachable
from xsft.base.network_words import blames_network, keeps_secrets, meaning
from xsft.base.secrets import hold_secret, redact
from xsft.cluster.access import GCLOUD_LOGIN, Access, Entry, LoginProgram, entry_of, unusable_context
from xsft.cluster.answers import (
    LostAnswer,
    ParseBody,
    Reply,
    late_answer,
    lost_answer,
    read_object,
    reply_of,
    unusable_answer,
)
from xsft.machine import clock
from xsft.machine.bounded import MAX_BYTES, BoundedBytes, UnusableAnswer, parse_bounded
from xsft.machine.deadline import NEVER, Deadline
from xsft.machine.parallel import start
from xsft.machine.paths import scratch_folder
from xsft.machine.process import ProcessResult, at_terminal, run
from xsft.machine.regular import read_text
from xsft.machine.streams import has_terminal, print_if_slow

MAX_LINE_BYTES = 2**20
"""A longer line is passed on in parts."""
LOGIN_TIMEOUT_S = 60.0
"""A login program may query its own server; it is killed after this time."""
SLOW_LOGIN_S = 5.0
"""A login program that takes longer is named; GKE's takes a second."""
EARLY_S = 300.0
"""Seconds before its expiry at which a login is renewed; at half of its lifetime if that is shorter."""
TOKEN_FILE_S = 60.0
"""Seconds for which a token file's content is used. source: client-go transport/token_source.go"""
INSTALL_HINTS = {"gke-gcloud-auth-plugin": "Install it: gcloud components install gke-gcloud-auth-plugin"}


class Stream:
    """An answer that is read as it arrives."""

    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response = response

    def lines(self) -> Iterator[bytes]:
        """Yield whole lines as they arrive. Raises OSError if the connection breaks or is silent for too long; a
        partial line is dropped then.
        """
        torn = b""
        try:
            for part in self._response.stream(decode_content=True):
                *lines, torn = (torn + part).split(b"\n")
                yield from lines
                if len(torn) > MAX_LINE_BYTES:
                    yield torn
                    torn = b""
            if torn:
                yield torn
        except (HTTPError, ValueError, AttributeError) as broken:  # the latter two if it was interrupted
            raise OSError(meaning(f"{type(broken).__name__} {broken}")) from None

    def interrupt(self) -> None:
        """Interrupt the reading thread, which gets an OSError. Call this from another thread. (Closing would wait for
        the reader.)
        """
        with suppress(OSError, ValueError, AttributeError, RuntimeError):  # it may have ended or been closed
            self._response.shutdown()

    def close(self) -> None:
        """Close the stream. Call this from the reading thread."""
        self._response.close()


T = TypeVar("T")

LARGE_BYTES = 16 * 2**20
_ONE_LARGE = Lock()
"""Held while more than LARGE_BYTES of an answer are read and parsed: xsft reads several lists at once."""
JSON = "application/json"
ANYTHING = "*/*"
PART = 16384
"""Maximum bytes read at once."""
POOL_SIZE = 16
"""Connections kept open; one status read fetches up to eight logs in addition to its lists."""
LOOPBACK = "localhost,127.0.0.0/8,::1"
"""Addresses never reached through a proxy, as in kubectl (golang.org/x/net http/httpproxy)."""


def http_for(access: Access, *, env: Mapping[str, str], timeouts_s: tuple[float, float]) -> Http:
    """Return the client. Raises EnvironmentMissing if the context cannot be used or its login program is missing,
    Unreachable if the login gives no credentials.
    """
    entry = entry_of(access.context, access.kubeconfig)
    login = ClusterLogin(entry, gke=access.gke, env=env)
    pool = lru_cache(maxsize=1)(partial(pool_for, entry, env=env))  # a new one if the login has another certificate
    return Http(entry.cluster.server, access=access, login=login.credentials, pool=pool, timeouts_s=timeouts_s)


def pool_for(entry: Entry, certificate: bytes, key: bytes, *, env: Mapping[str, str]) -> urllib3.PoolManager:
    """Return the connections to the entry's cluster, with this client certificate (PEM). Raises EnvironmentMissing if a
    certificate, a key or the proxy cannot be used.
    """
    cluster = entry.cluster
    over_tls, ca = cluster.server.startswith("https://"), cluster.certificate_authority_data
    options: dict[str, Any] = {"maxsize": POOL_SIZE}
    if cluster.tls_server_name and over_tls:
        options |= {"server_hostname": cluster.tls_server_name, "assert_hostname": cluster.tls_server_name}
    if cluster.insecure_skip_tls_verify:  # the user chose it: no warning for each request
        urllib3.disable_warnings(InsecureRequestWarning)
    try:
        if over_tls or ca or certificate:  # else not: reading the system's certificates takes 0.03 CPU-s
            verify = not cluster.insecure_skip_tls_verify
            options["ssl_context"] = tls_context(ca=ca, verify=verify, certificate=certificate, key=key)
        proxy = cluster.proxy_url or _environment_proxy(cluster.server, env)
        if not proxy:
            return urllib3.PoolManager(**options)
        user = urlsplit(proxy)
        pair = f"{unquote(user.username or '')}:{unquote(user.password or '')}"  # as Go's net/url decodes them
        login = urllib3.make_headers(proxy_basic_auth=pair) if user.username else {}
        return urllib3.ProxyManager(proxy, proxy_headers=login, **options)
    except (ValueError, HTTPError) as failed:
        raise unusable_context(entry.context, str(failed)) from None


def _environment_proxy(server: str, env: Mapping[str, str]) -> str | None:
    """Return the proxy of the environment, as kubectl does."""
    scheme = urlsplit(server).scheme
    proxy = env.get(f"{scheme}_proxy") or env.get(f"{scheme.upper()}_PROXY")
    if not proxy:
        return None
    from requests.utils import should_bypass_proxies  # slow to import, and most machines have no proxy

    never = ",".join(filter(None, (env.get("no_proxy") or env.get("NO_PROXY"), LOOPBACK)))
    return None if should_bypass_proxies(server, no_proxy=never) else proxy


class Http:
    """A client of one server, shared by threads: no retries, no redirects. It logs in when it is created, so that a
    failed login is reported before any request. `pool`: gives the connections for a client certificate and its key.
    `timeouts_s`: to connect, and between two parts of an answer.
    """

    def __init__(
        self,
        server: str,
        *,
        access: Access,
        login: Callable[[], Credentials],
        pool: Callable[[bytes, bytes], urllib3.PoolManager],
        timeouts_s: tuple[float, float],
    ) -> None:
        self._server = server.rstrip("/")
        self._access, self._login, self._pool, self._timeouts_s = access, login, pool, timeouts_s
        self.ahead_s = 0.0
        """Seconds by which the server's clock is ahead of this machine's, by the Date of its last answer."""
        credentials = login()
        pool(credentials.certificate, credentials.key)

    def request(
        self, method: str, path: str, *, body: Any, accept: str, read: ParseBody, deadline: Deadline = NEVER
    ) -> Reply | LostAnswer:
        """Send a request. Raises as `ClusterLogin.credentials`, as does `opened`."""
        headers = {"Accept": accept, "Accept-Encoding": "gzip", "Content-Type": JSON}
        content = None if body is None else json.dumps(body).encode()

        def exchange() -> Reply | LostAnswer:
            response = self._send(method, path, headers, content, self._timeouts_s[1])
            return self._read_reply(response, read, deadline)

        return self._by(deadline, exchange)

    def opened(self, path: str, *, read_timeout_s: float, deadline: Deadline = NEVER) -> Stream | Reply | LostAnswer:
        """Send a GET whose answer is read as it arrives. `deadline`: for the beginning of the answer."""

        def exchange() -> Stream | Reply | LostAnswer:
            response = self._send("GET", path, {"Accept": ANYTHING}, None, read_timeout_s)
            return Stream(response) if response.status == 200 else self._read_reply(response, read_object, deadline)

        return self._by(deadline, exchange)

    def _by(self, deadline: Deadline, exchange: Callable[[], T]) -> T | LostAnswer:
        """Return what `exchange` returns, or the loss. It is abandoned at the deadline: name resolution, TLS and the
        head of an answer have no limit of their own.
        """
        limit_s = deadline.left_s
        if not limit_s:
            return late_answer(self._access, host=self._server, sent=False)
        started = start(exchange)
        try:
            return (
                started.result() if started.ended(limit_s) else late_answer(self._access, host=self._server, sent=True)
            )
        except (HTTPError, OSError) as failed:
            return lost_answer(failed, self._access, host=self._server)

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, read_timeout_s: float
    ) -> urllib3.BaseHTTPResponse:
        """Send one request; its answer is not read yet."""
        credentials = self._login()
        login = {}
        if credentials.authorization and keeps_secrets(self._server):  # as client-go
            login = {"Authorization": credentials.authorization}
        response = self._pool(credentials.certificate, credentials.key).request(
            method,
            f"{self._server}{path}",
            body=body,
            headers={**headers, **login, "User-Agent": "xsft"},
            timeout=urllib3.Timeout(connect=self._timeouts_s[0], read=read_timeout_s),
            preload_content=False,
            redirect=False,
            retries=False,
        )
        if date := response.headers.get("Date"):
            self.ahead_s = clock.ahead_s(date)
        return response

    def _read_reply(
        self, response: urllib3.BaseHTTPResponse, read: ParseBody, deadline: Deadline
    ) -> Reply | LostAnswer:
        with ExitStack() as large:
            try:
                content = _content_of(response, deadline, large=large)
            except UnusableAnswer as unusable:
                response.close()  # the rest is not read
                return unusable_answer(unusable, self._access, host=self._server)
            return reply_of(content, response, read=read, access=self._access, host=self._server)


def _content_of(response: urllib3.BaseHTTPResponse, deadline: Deadline, *, large: ExitStack) -> bytes:
    """Return the body. `large`: its owner reads a large answer while no other is read. Raises UnusableAnswer if it is
    too large, or after the deadline, when no thread waits for it.
    """
    content = BoundedBytes(MAX_BYTES)
    for part in response.stream(PART, decode_content=True):
        if content.tell() <= LARGE_BYTES < content.tell() + len(part):
            large.enter_context(_ONE_LARGE)
        if not deadline.left_s:
            raise UnusableAnswer("came too late")
        content.write(part)
    return content.getvalue()


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
        self._entry = entry
        self._gke = gke
        self._env = env
        self._credentials: Credentials | None = None
        self._lock = threading.Lock()

    def credentials(self) -> Credentials:
        """Return the credentials. Raises EnvironmentMissing if the login program is missing, Unreachable if it gives no
        credentials.
        """
        with self._lock:
            credentials = self._credentials
            if credentials is None or (credentials.renew_at is not None and clock.epoch() > credentials.renew_at):
                credentials = self._credentials = self._new()
                hold_secret((credentials.authorization or "").partition(" ")[2])
            return credentials

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
        command = program.command
        if not command or not shutil.which(command, path=self._env.get("PATH")):
            fix = INSTALL_HINTS.get(command) or _brief(program.install_hint or f"Install {command}, or put it on PATH.")
            named = command or "a program without a name"
            message = f"The context {self._entry.context} logs in with {named}, which is not on PATH."
            raise EnvironmentMissing(message, fix=fix, id="auth-plugin-missing")
        done = self._run((command, *program.args), program)
        try:
            return _of_program(done)
        except ValueError as failed:
            reason = _brief(done.stderr) or str(failed)
            raise self._no_credentials(f"The login program {command}", reason) from None

    def _run(self, argv: tuple[str, ...], program: LoginProgram) -> ProcessResult:
        terminal = program.interactive_mode != "Never" and has_terminal()
        if program.interactive_mode == "Always" and not terminal:
            raise self._no_credentials(f"The login program {argv[0]}", "it needs a terminal, and there is none")
        variables = {pair["name"]: pair.get("value", "") for pair in program.env if pair.get("name")}
        cluster = {"cluster": to_builtins(self._entry.cluster)} if program.provide_cluster_info else {}
        spec = {"interactive": terminal, **cluster}  # source: client-go as of ExecStatus, ExecCredentialSpec
        info = json.dumps({"kind": "ExecCredential", "apiVersion": program.api_version, "spec": spec})
        env = {**self._env, **variables, "KUBERNETES_EXEC_INFO": info}
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
    try:
        status = parse_bounded(done.stdout.encode(), _EXEC_CREDENTIAL.decode).status
    except DecodeError:  # whose message may quote a part of a token
        raise ValueError("see its output above") from None
    certificate, key = status.client_certificate_data, status.client_key_data
    if not done.ok or not (status.token or (certificate and key)):
        raise ValueError("see its output above")
    expires = moment(status.expiration_timestamp)
    now = clock.epoch()
    renew_at = None
    if expires:
        left_s = expires.timestamp() - now
        renew_at = now + max(left_s - EARLY_S, left_s / 2)
    return Credentials(
        authorization=_bearer(status.token) if status.token else None,
        certificate=(certificate or "").encode(),
        key=(key or "").encode(),
        renew_at=renew_at,
    )


def _brief(text: str) -> str:
    return redact(" ".join(text.split()))[:600]
