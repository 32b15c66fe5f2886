from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.observations import jobset
from tests.replacing import replace
from tests.runs.test_run_logs import MCJAX, PATHWAYS
from xsft.base.errors import UsageError
from xsft.cluster.observation import ReplicatedJob, RunObject
from xsft.runs.log_roles import ProcessRole, all_roles, chosen_roles, role_text


@given(st.sampled_from([MCJAX, PATHWAYS, jobset(jobs=()), jobset(mode=None, tpu=None, jobs=MCJAX.jobs)]))
def test_every_process_has_its_own_name(there: RunObject) -> None:
    roles = all_roles(there)
    names = [role_text(there, role) for role in roles]
    assert len(set(names)) == len(roles)
    for role in roles[:1]:
        assert chosen_roles(there, slice_index=None, host=None, every=False) == (role,)


def test_processes_are_named_by_slice_and_host_or_by_their_job() -> None:
    names = [role_text(PATHWAYS, role) for role in all_roles(PATHWAYS)]
    assert names[:3] == ["head", "slice 0 host 0", "slice 0 host 1"]
    server = jobset("s", jobs=(ReplicatedJob(name="server", replicas=1),), kind="Deployment", work="serve")
    assert [role_text(server, role) for role in all_roles(server)] == ["server"]
    beside = replace(MCJAX, jobs=(*MCJAX.jobs, ReplicatedJob(name="beside", replicas=1)))
    assert role_text(beside, ProcessRole(replicated_job="beside", slice_index=0, host=0)) == "beside"


@pytest.mark.parametrize(("tpu", "hosts"), [("v6e-8", 2), ("v99-8", 1), (None, 1)])
def test_a_slice_has_the_hosts_of_its_type(tpu: str | None, hosts: int) -> None:
    changed_mcjax = replace(MCJAX, tpu=tpu)
    assert len(all_roles(changed_mcjax)) == 2 * hosts
    with pytest.raises(UsageError, match=f"slice 0 has hosts 0 to {hosts - 1}; slice 1 has hosts 0 to {hosts - 1}"):
        chosen_roles(changed_mcjax, slice_index=2, host=None, every=False)


@pytest.mark.parametrize("every", [True, False])
def test_without_jobs_no_process_is_known(every: bool) -> None:
    with pytest.raises(UsageError, match="no such process: none is known") as raised:
        chosen_roles(replace(MCJAX, jobs=()), slice_index=None if every else 0, host=None, every=every)
    assert raised.value.fix == "Slices and hosts count from 0."
