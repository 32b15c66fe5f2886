"""`xsft status RUN --receipt` of a run that was submitted again, on a real control plane."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.clusterruns import Staged
from tests.control_plane.api import Cluster as Real
from tests.records.test_record_files import CREATED, begun, intent, store
from tests.replacing import replace
from tests.trainer.test_progress import BEGIN, MODEL, exact
from xsft.cluster.sources import RunSource
from xsft.machine.objects import LocalObjects
from xsft.records.run_cluster import ClusterAddress
from xsft.runs.lookup import one_run
from xsft.runs.read_all import Runs
from xsft.runs.run_receipts import read_receipt, record_wait_end
from xsft.verbs.card import print_receipt

pytestmark = pytest.mark.cluster


def test_every_submission_of_a_run_counts_and_the_end_is_kept(
    real_cluster: Real, cluster_namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    staged, output = Staged(real=real_cluster, namespace=cluster_namespace), str(tmp_path / "runs")
    for name, code in (("gemma", 1), ("gemma-2", 0)):
        uid = staged.submit(name, run="gemma", output=output)["metadata"]["uid"]
        staged.runs(name)
        # A run's end is known to the second: lines that are no second apart may show no time at all.
        staged.says(name, BEGIN, MODEL, exact(1, 2.0), exact(2, 1.9), apart_s=1.0)
        # One pod fails: the Job deletes those that still run, and their logs with them.
        staged.ends(name, code=code, **({"host": 0} if code else {}))
        staged.wait(
            lambda: all(observation.jobset and observation.jobset.terminal for observation in staged.seen("gemma")),
            "its end",
        )
    where = RunSource(name="real", where=ClusterAddress(context=staged.real.context), namespace=staged.namespace)
    records = store(tmp_path, LocalObjects())
    runs = Runs(sources=(where,), store=records, local=False, connect=lambda _: staged.cluster)
    assert print_receipt("gemma", runs=runs, read=partial(read_receipt, runs), json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["jobset"], document["steps"], document["notes"]) == ("gemma-2", 2, [])
    assert document["seconds"]["training"] >= 2
    assert document["seconds"]["lost"] >= 2, "the first submission's steps, which the second did again"
    records.finish(begun(records, replace(intent(output, number=2), run_name="gemma")), replace(CREATED, uid=uid))
    assert record_wait_end(runs, one_run("gemma", runs.look()).row) == ()
    (record,) = records.read_run(output, "gemma")
    assert record.last.receipt is not None
    assert record.last.receipt.steps == 2
