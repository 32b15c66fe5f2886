from __future__ import annotations

import re
from datetime import UTC, datetime

from xsft.effects import clock
from xsft.states.moments import moment, with_z


def test_now_is_written_as_kubernetes_writes_times() -> None:
    said = clock.now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", said)
    assert with_z(said) == said
    found = moment(said)
    assert found is not None
    assert abs((datetime.now(UTC) - found).total_seconds()) < 60
