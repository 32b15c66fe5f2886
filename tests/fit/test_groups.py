from __future__ import annotations

import pytest

from xsft.fit.groups import first_group


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("replica_groups={{0,2,4,6},{1,3,5,7}}, dimensions={0}", (0, 2, 4, 6)),
        ("replica_groups=[2,4]<=[8]", (0, 1, 2, 3)),
        ("replica_groups=[4,2]<=[2,4]T(1,0)", (0, 4)),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_1'}", (0, 1, 2, 3)),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_0'}", (0, 4)),
        ("replica_groups=mesh['axis_0'=8,'axis_1'=1] {'axis_0','axis_1'}", tuple(range(8))),
        ("channel_id=3", ()),
    ],
)
def test_first_group_reads_every_form_of_replica_groups(text: str, group: tuple[int, ...]) -> None:
    assert first_group(text) == group
