"""TLS to a cluster: the trusted certificates, and the client's certificate."""

from __future__ import annotations

import os
import ssl

from urllib3.util import create_urllib3_context

from xsft.effects.machine.scratch import scratch_folder


def context_of(
    *, ca: bytes | None, certificate: bytes | None = None, key: bytes | None = None, verify: bool = True
) -> ssl.SSLContext:
    """Return the TLS context. `ca`: PEM, or None for the system's certificates. Raises ValueError if one of them cannot
    be used.
    """
    context = create_urllib3_context()
    try:
        if not verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif ca:
            context.load_verify_locations(cadata=ca.decode("ascii"))
        else:
            context.load_default_certs()
        if certificate and key:
            _load_certificate(context, certificate, key)
    except (ssl.SSLError, UnicodeDecodeError) as failed:
        raise ValueError(f"its certificate or key is not valid: {failed}") from None
    return context


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load the client certificate. Python's ssl module reads only files, so it is written to a private folder and
    removed at once.
    """
    with scratch_folder("tls") as folder:
        file = folder / "client.pem"
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(certificate + b"\n" + key)
        context.load_cert_chain(file)
