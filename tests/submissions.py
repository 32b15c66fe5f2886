"""Submitters of one shown workload against the stand-ins, in this process or as one that can be killed.

    python -m tests.submissions KUBECONFIG NAMESPACE BUCKET_URL STATE [DIE_AT] < "go"

DIE_AT: begun | created, where the process kills itself.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from tests.fakes.clusters import ClusterApi
from tests.replacing import replace
from tests.stories import ROOT, facts_for, spec_of, varied
from xsft.image.contents import ImageConfiguration, ImageLook
from xsft.launch.recording import Provenance
from xsft.launch.submission import Submitter, create_planned
from xsft.machine.objects import GcsObjects
from xsft.machine.writable import check_writable
from xsft.planning.planner import make_intent, make_plan
from xsft.planning.steps import Plan
from xsft.records.record_files import RecordStore
from xsft.spec.yamltext import load_yaml

NAME = "deepseek-ultrachat"
FOLDER = f"runs/{NAME}/xsft"
STEPS = 1000


def planned(changes: Mapping[str, Any] | None = None, *, attempt: int = 1, namespace: str = "default") -> Plan:
    """The workload's plan; what xpk renders is taken from its golden manifest."""
    return _planned(json.dumps({"namespace": namespace, **(changes or {})}), attempt)


@cache
def _planned(changes: str, attempt: int) -> Plan:
    """One parse and one plan for all tests that submit the same."""
    spec = varied(spec_of("deepseek_ultrachat"), json.loads(changes))
    text = (ROOT / "tests" / "golden" / "deepseek_ultrachat.manifest.yaml").read_text(encoding="utf-8")
    jobset = NAME if attempt == 1 else f"{NAME}-{attempt}"
    rendered = load_yaml(re.sub(rf": {NAME}$", f": {jobset}", text, flags=re.MULTILINE))
    rendered["metadata"]["namespace"] = spec.namespace
    intent = make_intent(spec, replace(facts_for(spec), attempt=attempt))
    return make_plan(intent, rendered=rendered, file="w.yaml")


def good_image(ref: str, *, maxtext: str = "0.2.5") -> ImageLook:
    """Return the registry's answer about an image of ours."""
    labels = {"dev.xsft.maxtext.version": maxtext, "dev.xsft.packages": "jax==0.11.0 libtpu==0.0.44"}
    image_configuration = ImageConfiguration(platforms=("linux/amd64",), size=2**32, labels=labels)
    return ImageLook(ref=ref, status="there", configuration=image_configuration)


def submitter(
    api: ClusterApi,
    *,
    bucket_url: str,
    state: Path,
    changes: Mapping[str, Any] | None = None,
    by: str = "a" * 16,
    slept: list[float] | None = None,
    **settings: Any,
) -> Submitter:
    objects = bucket_objects(bucket_url, slept if slept is not None else [])
    return Submitter(
        cluster=api.connect(),
        store=RecordStore(state=state, objects_at=lambda _: objects),
        provenance=Provenance(submitter=by, at="2026-11-21T10:00:00+00:00", user="me", git=None, versions={}),
        **{
            "replan": lambda attempt: planned(changes, attempt=attempt, namespace=api.namespace),
            "writable": lambda output, zone: check_writable(output, zone, objects=objects),
            "image": good_image,
            **settings,
        },
    )


def bucket_objects(url: str, slept: list[float]) -> GcsObjects:
    client = Client(
        project="p",
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        client_options={"api_endpoint": url},
    )
    return GcsObjects(client, sleep=slept.append)


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(moment: str) -> Callable[..., Any]:
    def create(*arguments: Any) -> Any:
        if moment == "begun":
            killed()
        created_run = create_planned(*arguments)
        if moment == "created":
            killed()
        return created_run

    return create


def main(kubeconfig: str, namespace: str, bucket_url: str, state: str, die_at: str = "") -> None:
    api = ClusterApi(kubeconfig=Path(kubeconfig), namespace=namespace)
    by = f"{os.getpid():016x}"
    submitter_of_process = submitter(api, bucket_url=bucket_url, state=Path(state), by=by, create=dying(die_at))
    plan = planned(namespace=namespace)
    print("ready", flush=True)
    sys.stdin.readline()
    done = submitter_of_process.submit(plan)
    print(json.dumps({"action": done.action, "uid": done.uid, "jobset": done.jobset}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
