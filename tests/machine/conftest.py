from __future__ import annotations

from tests.localruns import fake  # noqa: F401 - a fixture
