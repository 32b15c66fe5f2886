"""Detection of a Google login without a request."""

from __future__ import annotations

from pathlib import Path

from xsft.machine.paths import may_log_in


def test_may_log_in_checks_the_places_where_google_auth_looks(tmp_path: Path) -> None:
    product = tmp_path / "product"
    nobody = {"HOME": str(tmp_path)}
    assert not may_log_in(nobody, product=product)
    assert may_log_in({**nobody, "GOOGLE_APPLICATION_CREDENTIALS": "key.json"}, product=product)
    product.write_text("Google Compute Engine\n")
    assert may_log_in(nobody, product=product)
    product.write_text("Something else\n")
    assert not may_log_in(nobody, product=product)
    (tmp_path / ".config" / "gcloud").mkdir(parents=True)
    (tmp_path / ".config" / "gcloud" / "application_default_credentials.json").write_text("{}")
    assert may_log_in(nobody, product=product)
    assert not may_log_in({**nobody, "CLOUDSDK_CONFIG": str(tmp_path / "other")}, product=product)
    assert not may_log_in(
        {**nobody, "CLOUDSDK_CONFIG": str(tmp_path / "other"), "STORAGE_EMULATOR_HOST": "x"}, product=product
    )
