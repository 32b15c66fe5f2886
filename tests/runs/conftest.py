from __future__ import annotations

from tests.localruns import fake  # noqa: F401 - a fixture
from tests.nologin import empty_folder, no_google_login  # noqa: F401 - fixtures of every test here
