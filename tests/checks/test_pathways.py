"""Pathways' servers need images, a bucket and arguments that xpk passes on."""

from __future__ import annotations

import pytest

from tests.checks.factory import DROP, FLAGSHIP, GOOD, ids, problems, spec
from xsft.checks.pathways import check
from xsft.spec.model import WorkloadSpec

SERVERS = FLAGSHIP["place"]["pathways"]


def servers(**changes: object) -> WorkloadSpec:
    return spec(FLAGSHIP, place={"pathways": changes})


def test_own_pathways_servers_have_no_problem():
    workload = spec(FLAGSHIP, place={"pathways": DROP}, pathways=SERVERS)
    assert ids(check, workload) == set()


def test_pathways_images_and_bucket_are_required():
    bare = spec(FLAGSHIP, place={"pathways": DROP})
    assert ids(check, bare) == {"pathways-image-missing", "pathways-scratch-missing"}
    (problem,) = problems(check, servers(server_image=DROP))
    assert (problem.id, problem.severity) == ("pathways-image-missing", "error")
    assert "server_image" in problem.message
    assert "proxy_image" not in problem.message


@pytest.mark.parametrize("tag", ["", ":latest"])
def test_pathways_image_with_latest_or_no_tag_is_not_pinned(tag: str):
    refs = {"proxy_image": f"example.com/proxy_server{tag}", "server_image": f"example.com/server{tag}"}
    reported = problems(check, servers(**refs))
    assert [(p.id, p.severity, p.where) for p in reported] == [
        ("pathways-images-unpinned", "warning", "pathways.proxy_image"),
        ("pathways-images-unpinned", "warning", "pathways.server_image"),
    ]


def test_pathways_proxy_and_server_must_have_one_release():
    assert ids(check, servers(proxy_image="example.com/proxy_server:jax-0.6.0")) == {"pathways-images-differ"}
    pinned = "example.com/proxy_server@sha256:" + "0" * 64
    assert ids(check, servers(proxy_image=pinned)) == set()


@pytest.mark.parametrize("section", ["server_args", "proxy_args", "worker_args"])
@pytest.mark.parametrize("token", ["--c='x y'", "--a=1  --b=2", "--x: y", "plain", "", "--a=$HOME", "--x:"])
def test_arguments_that_xpk_would_change_are_refused(section: str, token: str):
    (problem,) = problems(check, spec(FLAGSHIP, pathways={section: ["--fine=1", token]}))
    assert (problem.id, problem.severity, problem.where) == ("pathways-args", "error", f"pathways.{section}.1")


def test_xla_flags_follow_the_rules_of_proxy_arguments():
    assert ids(check, spec(FLAGSHIP, xla_flags=["--xla_tpu_a=true"])) == set()
    (problem,) = problems(check, spec(FLAGSHIP, xla_flags=["--xla_tpu_a=a b"]))
    assert (problem.id, problem.where) == ("pathways-args", "xla_flags.0")
    assert ids(check, spec(xla_flags=["--xla_tpu_a=a b"])) == set()


def test_arguments_that_the_template_sets_are_refused():
    assert ids(check, spec(FLAGSHIP, pathways={"server_args": ["--server_port=1"]})) == {"pathways-args-reserved"}


def test_elastic_slices_are_refused_however_they_are_requested():
    assert ids(check, spec(FLAGSHIP, pathways={"proxy_args": ["--num_elastic_slices=1"]})) == {"refused-elastic"}


def test_a_pathways_section_in_mcjax_is_reported():
    assert ids(check, spec(GOOD, mode="mcjax", pathways={})) == {"pathways-section-unused"}
    assert ids(check, spec(GOOD, mode="mcjax", pathways={}, target="local")) == set()
