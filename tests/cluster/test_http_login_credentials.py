"""The credentials that a user of a kubeconfig has, without a cluster."""

from __future__ import annotations

import ssl
from pathlib import Path

from xsft.cluster.access import ClusterEntry, Entry, UserEntry
from xsft.cluster.http import TOKEN_FILE_S, ClusterLogin, Credentials, tls_context
from xsft.machine import clock

PLAIN = "http://lab.example"


def test_the_certificates_of_the_system_are_trusted_without_a_certificate_authority() -> None:
    assert tls_context(ca=b"").cert_store_stats() == ssl.create_default_context().cert_store_stats()


def test_a_token_file_is_read_again_after_its_interval(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t\n")
    user = UserEntry(token_file=str(tmp_path / "token"), client_certificate_data=b"c", client_key_data=b"k")
    entry = Entry(context="lab", cluster=ClusterEntry(server=PLAIN), user=user)
    before, credentials = clock.epoch(), ClusterLogin(entry, gke=False, env={}).credentials()
    assert (credentials.authorization, credentials.certificate, credentials.key) == ("Bearer t", b"c", b"k")
    assert credentials.renew_at is not None
    assert 0 <= credentials.renew_at - before - TOKEN_FILE_S < 5


def test_repr_of_credentials_hides_them() -> None:
    assert repr(Credentials(authorization="secret", key=b"secret")) == "Credentials(…)"
