"""Entries of a kubeconfig as kubectl and gcloud write them, and the errors of invalid ones."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from tests.records.arbitrary import any_of
from xsft.base.errors import EnvironmentMissing
from xsft.cluster.access import (
    AuthProvider,
    ClusterEntry,
    Entry,
    LoginProgram,
    UserEntry,
    context_names,
    entry_of,
    kubeconfig_files,
    load_kubeconfig,
)

PEM = b"-----BEGIN CERTIFICATE-----"


def read(folder: Path, *, cluster: Any = None, user: Any = None) -> Entry:
    config = {
        "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://lab.example", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    file = folder / "config"
    file.write_text(yaml.safe_dump(config))
    return entry_of("lab", (file,))


def test_nulls_and_unknown_keys_of_a_login_program_are_ignored(tmp_path: Path) -> None:
    program = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login", "args": None, "env": None}
    access = read(tmp_path, user={"exec": {**program, "installHint": None, "provideClusterInfo": True, "new": 1}})
    expected = LoginProgram(api_version=program["apiVersion"] or "", command="login", provide_cluster_info=True)
    assert access.user.exec == expected


PROGRAMS = any_of(LoginProgram, command=st.just("login"))
USERS = any_of(UserEntry, token_file=st.just(""), exec=st.none() | PROGRAMS)


@settings(max_examples=20)
@given(cluster=any_of(ClusterEntry, server=st.just("https://lab.example")), user=USERS)
def test_every_field_of_an_entry_is_read(
    cluster: ClusterEntry, user: UserEntry, tmp_path_factory: pytest.TempPathFactory
) -> None:
    access = read(tmp_path_factory.mktemp("kube"), cluster=to_builtins(cluster), user=to_builtins(user))
    assert access == Entry(context="lab", cluster=cluster, user=user)


def test_the_keys_are_those_of_kubectl(tmp_path: Path) -> None:
    """source: kubernetes client-go@v0.35 tools/clientcmd/api/v1/types.go"""
    cluster = {
        "server": "https://lab.example",
        "tls-server-name": "lab",
        "insecure-skip-tls-verify": True,
        "certificate-authority-data": base64.b64encode(b"ca").decode(),
        "proxy-url": "http://proxy",
    }
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "login",
        "args": ["a"],
        "env": [{"name": "N", "value": "V"}],
        "installHint": "install it",
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    user = {
        "client-certificate-data": base64.b64encode(b"crt").decode(),
        "client-key-data": base64.b64encode(b"key").decode(),
        "token": "t",
        "tokenFile": "/run/token",
        "username": "me",
        "exec": program,
        "auth-provider": {"name": "oidc", "config": {"client-id": "id"}},
    }
    assert read(tmp_path, cluster=cluster, user=user) == Entry(
        context="lab",
        cluster=ClusterEntry(
            server="https://lab.example",
            tls_server_name="lab",
            insecure_skip_tls_verify=True,
            certificate_authority_data=b"ca",
            proxy_url="http://proxy",
        ),
        user=UserEntry(
            client_certificate_data=b"crt",
            client_key_data=b"key",
            token="t",
            token_file="/run/token",
            username="me",
            exec=LoginProgram(
                api_version="client.authentication.k8s.io/v1",
                command="login",
                args=("a",),
                env=({"name": "N", "value": "V"},),
                install_hint="install it",
                interactive_mode="Never",
                provide_cluster_info=True,
            ),
            auth_provider=AuthProvider(name="oidc"),
        ),
    )


def test_a_key_that_is_not_set_has_the_value_of_kubectl(tmp_path: Path) -> None:
    access = read(tmp_path, user={"exec": {}, "auth-provider": {}})
    assert access.cluster == ClusterEntry(server="https://lab.example")
    program, provider = access.user.exec, access.user.auth_provider
    assert program
    assert provider
    assert (program.interactive_mode, program.provide_cluster_info) == ("IfAvailable", False)
    empty = [access.cluster.tls_server_name, access.cluster.insecure_skip_tls_verify, access.cluster.proxy_url]
    empty += [
        getattr(access.user, name) for name in UserEntry.__struct_fields__ if name not in ("exec", "auth_provider")
    ]
    empty += [getattr(program, name) for name in ("api_version", "command", "args", "env", "install_hint")]
    empty += [provider.name]
    assert not any(empty)


def test_paths_are_relative_to_the_folder_of_the_kubeconfig(tmp_path: Path) -> None:
    for name in ("ca", "crt", "key"):
        (tmp_path / name).write_bytes(PEM + name.encode())
    user = {"client-certificate": "crt", "client-key": str(tmp_path / "key"), "tokenFile": "token"}
    access = read(tmp_path, cluster={"certificate-authority": "ca"}, user={**user, "exec": {"command": "bin/login"}})
    assert access.cluster.certificate_authority_data == PEM + b"ca"
    assert (access.user.client_certificate_data, access.user.client_key_data) == (PEM + b"crt", PEM + b"key")
    assert access.user.token_file == str(tmp_path / "token")
    assert access.user.exec
    assert access.user.exec.command == str(tmp_path / "bin/login")


def test_data_wins_over_a_file(tmp_path: Path) -> None:
    data = base64.b64encode(PEM).decode()
    access = read(tmp_path, cluster={"certificate-authority": "nowhere", "certificate-authority-data": data})
    assert access.cluster.certificate_authority_data == PEM


def test_the_first_of_several_files_that_has_a_name_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for file, token, names in ((first, "1", ("lab",)), (second, "2", ("other", "lab"))):
        contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in names]
        users = [{"name": "u", "user": {"token": token}}]
        file.write_text(yaml.safe_dump({"contexts": [{"context": {}}, *contexts], "users": users}))
    (tmp_path / "clusters").write_text(yaml.safe_dump({"clusters": [{"name": "c", "cluster": {"server": "s"}}]}))
    files = (first, tmp_path / "nothing", second, tmp_path / "clusters")
    env = {"KUBECONFIG": f"{os.pathsep.join(map(str, files))}{os.pathsep}"}
    assert kubeconfig_files(env, home=tmp_path) == files
    assert context_names(files) == ("lab", "other")
    assert (entry_of("lab", files).user.token, entry_of("other", files).cluster.server) == ("1", "s")


def test_the_kubeconfig_is_that_of_the_home_unless_another_is_named(tmp_path: Path) -> None:
    for env in ({}, {"KUBECONFIG": ""}):
        assert kubeconfig_files(env, home=tmp_path) == (tmp_path / ".kube" / "config",)
    assert kubeconfig_files({"KUBECONFIG": "~/mine"}, home=tmp_path) == (Path.home() / "mine",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff", "it is not UTF-8 text"),
        (b"[1]", "it is not a mapping"),
        (b"{", "it is not YAML"),
        (None, "Is a directory"),
    ],
)
def test_an_unreadable_kubeconfig_names_the_reason(tmp_path: Path, content: bytes | None, reason: str) -> None:
    if content is not None:
        (tmp_path / "config").write_bytes(content)
    with pytest.raises(EnvironmentMissing, match=f"cannot be read: {reason}") as caught:
        load_kubeconfig(tmp_path / "config" if content is not None else tmp_path)
    assert caught.value.problem_id == "kubeconfig-unreadable"
    assert "kubectl config view" in caught.value.fix


def test_a_context_needs_a_cluster_but_no_user(tmp_path: Path) -> None:
    read(tmp_path)
    config = yaml.safe_load((tmp_path / "config").read_text())
    del config["contexts"][0]["context"]["user"]
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    assert entry_of("lab", (tmp_path / "config",)).user == UserEntry()
    for context, lacking in (("other", "context 'other'"), ("lab", "cluster 'c'")):
        if context == "lab":
            (tmp_path / "config").write_text(yaml.safe_dump({**config, "clusters": []}))
        with pytest.raises(EnvironmentMissing, match=f"cannot be used: {lacking} was not found") as caught:
            entry_of(context, (tmp_path / "config",))
        assert f"kubectl --context {context} version" in caught.value.fix


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"cluster": {"server": ""}}, "its cluster c has no server"),
        ({"cluster": {"server": 3}}, r"Expected `str`, got `int` - at `\$.server`"),
        ({"cluster": {"certificate-authority-data": "%"}}, "Invalid base64 encoded string"),
        ({"user": {"client-key": "nowhere"}}, r"\S+/nowhere cannot be read: No such file or directory"),
    ],
)
def test_an_invalid_context_names_the_reason(tmp_path: Path, entries: Any, reason: str) -> None:
    with pytest.raises(EnvironmentMissing, match=f"context lab of the kubeconfig cannot be used: {reason}") as caught:
        read(tmp_path, **entries)
    assert caught.value.problem_id == "kubeconfig-unreadable"
