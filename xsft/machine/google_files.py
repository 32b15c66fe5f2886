"""Checks whether this user has a Google login, by its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

LOGIN = "Log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file."
DMI_PRODUCT = Path("/sys/class/dmi/id/product_name")
"""Contains `Google Compute Engine` on such machines; source: google-auth auth/compute_engine/_metadata.py."""


def may_log_in(env: Mapping[str, str], *, product: Path = DMI_PRODUCT) -> bool:
    """Return whether google.auth.default could find a login; source: google-auth auth/_default.py and _cloud_sdk.py.

    Checked first: it saves the import of `google_login`, half a second, and seconds of search for a metadata server.
    """
    named = ("GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "GCE_METADATA_ROOT")
    if any(env.get(name) for name in named):
        return True
    folder = Path(env.get("CLOUDSDK_CONFIG") or Path(env.get("HOME", "/")) / ".config" / "gcloud")
    return (folder / "application_default_credentials.json").exists() or _on_google_machine(product)


def _on_google_machine(product: Path) -> bool:
    try:
        return product.read_text(encoding="utf-8").startswith("Google")
    except (OSError, ValueError):
        return False
