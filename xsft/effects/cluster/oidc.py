"""An OpenID Connect token from a kubeconfig, renewed if it has expired. source: client-go@v0.35
plugin/pkg/client/auth/oidc/oidc.go; OpenID Connect Core 1.0 §12, Discovery 1.0 §4.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import urllib3

from xsft.effects.cluster.tls import context_of
from xsft.effects.machine.regular import read_bytes

TIMEOUT_S = 10.0


def id_token(config: Mapping[str, Any], *, folder: Path, now: float) -> str:
    """Return the configured token, or a new one from the refresh token. `now`: seconds since the epoch. Raises
    ValueError.
    """
    held = str(config.get("id-token") or "")
    if held and _expires(held) > now:
        return held
    issuer, client, refresh = (config.get(key) for key in ("idp-issuer-url", "client-id", "refresh-token"))
    if not (issuer and client and refresh):
        raise ValueError("its id-token has expired, and it has no refresh-token")
    pool = urllib3.PoolManager(ssl_context=_trust(config, folder), retries=False, timeout=TIMEOUT_S)
    try:
        endpoint = _answer(pool.request("GET", f"{str(issuer).rstrip('/')}/.well-known/openid-configuration"))
        fields = {"grant_type": "refresh_token", "refresh_token": refresh}
        headers = urllib3.make_headers(basic_auth=f"{client}:{config.get('client-secret') or ''}")
        renewed = _answer(
            pool.request_encode_body(
                "POST", str(endpoint["token_endpoint"]), fields=fields, headers=headers, encode_multipart=False
            )
        )
        return str(renewed["id_token"])
    except (urllib3.exceptions.HTTPError, KeyError) as failed:
        raise ValueError(f"its token could not be renewed: {type(failed).__name__} {failed}") from None


def _expires(token: str) -> float:
    """Return the expiry in seconds since the epoch; 0 if the token has none."""
    try:
        claims = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return 0.0


def _answer(response: urllib3.BaseHTTPResponse) -> Mapping[str, Any]:
    if response.status != 200:
        raise ValueError(f"its issuer answers HTTP {response.status}")
    found = json.loads(response.data)
    if not isinstance(found, dict):
        raise ValueError("its issuer's answer is not a JSON object")  # noqa: TRY004 - as any other bad answer
    return found


def _trust(config: Mapping[str, Any], folder: Path) -> Any:
    data, path = config.get("idp-certificate-authority-data"), config.get("idp-certificate-authority")
    ca = base64.b64decode(str(data)) if data else read_bytes(folder / str(path)) if path else None
    return context_of(ca=ca)
