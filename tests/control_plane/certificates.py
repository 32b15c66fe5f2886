"""One certificate authority per cluster, and what it signs. Made anew at every start; nothing of it is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA = "xsft-tests"
VALID = timedelta(days=365)
BITS = 2048


def write_certificates(folder: Path) -> None:
    """ca, server (all servers share it), front-proxy, kubelet-client as .crt and .key; service-account.{pub,key}.

    With key identifiers: Python 3.13 refuses certificates without (ssl.VERIFY_X509_STRICT).
    """
    folder.mkdir(mode=0o700)
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    ca = _named(CA).public_key(key.public_key())
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    ca = ca.add_extension(_usage(signs=True), critical=True)
    ca = ca.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    _write(folder, "ca", key, ca.sign(key, SHA256()))
    signer = (folder, key)
    _signed(signer, "server", server=True)
    _signed(signer, "front-proxy")
    _signed(signer, "kubelet-client", group="system:masters")
    _write_service_account(folder)


def _signed(signer: tuple[Path, rsa.RSAPrivateKey], name: str, *, group: str = "", server: bool = False) -> None:
    folder, ca = signer
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    builder = _named(name, group=group).public_key(key.public_key())
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if server else [])]
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key()), critical=False)
    if server:
        names = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    _write(folder, name, key, builder.sign(ca, SHA256()))


def _named(name: str, *, group: str = "") -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        subject_name=_subject(name, group=group),
        issuer_name=_subject(CA),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(hours=1),
        not_valid_after=now + VALID,
    )


def _subject(name: str, *, group: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    return x509.Name([*([x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []), *parts])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(folder: Path, name: str, key: rsa.RSAPrivateKey, certificate: x509.Certificate) -> None:
    (folder / f"{name}.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    _write_key(folder / f"{name}.key", key)


def _write_service_account(folder: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "service-account.pub").write_bytes(public)
    _write_key(folder / "service-account.key", key)


def _write_key(path: Path, key: rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
