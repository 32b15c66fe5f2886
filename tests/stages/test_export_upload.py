"""An export on this machine that is copied to a bucket or the hub. MaxText is a stand-in, the bucket is on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.fakes.gcs import Bucket, serving
from tests.stages.test_export import Lab
from tests.stages.test_export import lab as lab  # noqa: PLC0414 - its fixture
from xsft.base.errors import EnvironmentMissing, UsageError
from xsft.stages.export import ExportResult, ExportRoute, ExportWork, export_by
from xsft.stages.exported import training_of
from xsft.stages.once import find_job
from xsft.weights.export_record import FILE, from_json
from xsft.weights.exporter import ExportRequest

pytestmark = pytest.mark.contract
TO = "gs://my-bucket/models"


class Uploads(Struct, frozen=True, kw_only=True):
    lab: Lab
    bucket: Bucket

    def route(self, to: str = TO) -> ExportRoute:
        return ExportRoute(trained=training_of("tiny", self.lab.store), asked=ExportRequest(), to=to)

    def work(self, to: str = TO) -> ExportWork:
        return replace(self.lab.work(), look=self.route(to).plan)

    def export(self, to: str = TO) -> ExportResult:
        return export_by(self.route(to), self.work(to))

    def names(self) -> list[str]:
        return [name.partition("/tiny-export/")[2] for name in self.bucket.objects]


@pytest.fixture
def uploads(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Uploads]:
    with serving(Bucket({})) as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        yield Uploads(lab=lab, bucket=bucket)


def test_a_verified_export_is_copied_to_the_bucket_once(uploads: Uploads) -> None:
    assert find_job(uploads.work()).state == "missing"
    done = uploads.export()
    assert (done.action, done.end.outcome, done.end.reason) == ("created", "completed", None)
    assert done.end.result == uploads.route().plan().directory
    name = done.plan.digest[:12]
    assert done.end.result == f"{TO}/tiny-export/{name}"
    assert set(uploads.names()) == {
        *(f"{name}/{file}" for file in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")),
        *(f"{name}/{file}" for file in (FILE, "xsft/copying.json")),
    }
    record = from_json(uploads.bucket.objects[f"models/tiny-export/{name}/{FILE}"])
    assert record is not None
    assert record.verification is not None
    assert (record.outcome, record.verification.compared) == ("completed", 310)
    assert (find_job(uploads.work()).state, find_job(uploads.work()).result) == ("done", done.end.result)
    steps = uploads.lab.steps()
    assert uploads.export().action == "finished"
    assert uploads.lab.steps() == steps == ["export_container", "exporter", "model_files", "compare_export"]


def test_a_failed_copy_is_incomplete_and_the_next_call_exports_to_another_path(uploads: Uploads) -> None:
    first = uploads.route().plan().directory
    text = f"{first.removeprefix('gs://my-bucket/')}/config.json"

    def say(line: str) -> None:
        if line.startswith("copying"):
            uploads.bucket.objects[text] = b"of somebody"

    done = export_by(uploads.route(), replace(uploads.work(), say=say))
    assert (done.end.outcome, done.end.result, done.plan.whole) == ("failed", None, None)
    assert "PreconditionFailed" in str(done.end.reason)
    assert uploads.bucket.objects[text] == b"of somebody"
    stage_found = find_job(uploads.work())
    assert (stage_found.state, "PreconditionFailed" in stage_found.why) == ("failed", True)
    assert uploads.export().end.result == f"{first}-2"
    assert uploads.lab.steps().count("exporter") == 2


def test_an_export_to_the_hub_without_a_login_is_refused_before_it_starts(uploads: Uploads) -> None:
    with pytest.raises(EnvironmentMissing) as raised:
        uploads.export("hf://me/tiny")
    assert raised.value.problem_id == "export-token-missing"
    assert uploads.lab.steps() == []


@pytest.mark.parametrize("to", ["s3://bucket/models", "hf://tiny", "hf://"])
def test_a_destination_other_than_a_bucket_or_hub_repository_is_refused(uploads: Uploads, to: str) -> None:
    with pytest.raises(UsageError) as raised:
        uploads.export(to)
    assert raised.value.problem_id == "export-destination"
