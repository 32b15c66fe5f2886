"""The credentials that a user of a kubeconfig has, without a cluster."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path

import pytest

from xsft.base.errors import Unreachable
from xsft.cluster.kubeconfig import AuthProvider, ClusterEntry, Entry, OidcConfig, UserEntry
from xsft.cluster.login import TOKEN_FILE_S, ClusterLogin, Credentials, tls_context
from xsft.machine import clock

PLAIN = "http://lab.example"


def test_the_certificates_of_the_system_are_trusted_without_a_certificate_authority() -> None:
    assert tls_context(ca=b"").cert_store_stats() == ssl.create_default_context().cert_store_stats()


def test_a_token_file_is_read_again_after_its_interval(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t\n")
    user = UserEntry(token_file=str(tmp_path / "token"), client_certificate_data=b"c", client_key_data=b"k")
    entry = Entry(context="lab", cluster=ClusterEntry(server=PLAIN), user=user)
    before, found = clock.epoch(), ClusterLogin(entry, gke=False, env={}).credentials()
    assert (found.authorization, found.certificate, found.key) == ("Bearer t", b"c", b"k")
    assert found.renew_at is not None
    assert 0 <= found.renew_at - before - TOKEN_FILE_S < 5


def by_provider(**config: str) -> Credentials:
    provider = AuthProvider(name="oidc", config=OidcConfig(**config))
    entry = Entry(context="lab", cluster=ClusterEntry(server=PLAIN), user=UserEntry(auth_provider=provider))
    return ClusterLogin(entry, gke=False, env={}).credentials()


def id_token(claims: object) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.e30"


@pytest.mark.parametrize("more", [{}, {"a": ""}, {"a": "1"}, {"a": "12"}])
def test_an_id_token_is_used_until_it_expires(more: dict[str, str]) -> None:
    token = id_token({"exp": clock.epoch() + 100, **more})
    assert by_provider(id_token=token).authorization == f"Bearer {token}"


RENEWABLE = {"idp_issuer_url": "http://127.0.0.1:1", "client_id": "xsft", "refresh_token": "r"}


@pytest.mark.parametrize("token", [id_token({"exp": 1}), id_token({}), id_token([]), "no token", ""])
@pytest.mark.parametrize("lacking", RENEWABLE)
def test_an_expired_id_token_that_cannot_be_renewed_is_an_expired_login(token: str, lacking: str) -> None:
    with pytest.raises(Unreachable, match="its id-token has expired, and it has no refresh-token") as caught:
        by_provider(id_token=token, **{key: value for key, value in RENEWABLE.items() if key != lacking})
    (problem,) = caught.value.problems
    assert (problem.id, problem.again) == ("login-expired", "never")


def test_an_unreachable_issuer_is_not_an_expired_login() -> None:
    with pytest.raises(Unreachable, match="its token could not be renewed: NewConnectionError") as caught:
        by_provider(**RENEWABLE)
    assert (caught.value.problem_id, caught.value.fix) == (
        "unreachable",
        "Check the network and the VPN, and try again.",
    )


def test_repr_of_credentials_hides_them() -> None:
    assert repr(Credentials(authorization="secret", key=b"secret")) == "Credentials(…)"
