"""How the API server is found: kubeconfig files merged as kubectl merges them, service accounts, proxies, and what is
said when they are wrong.
"""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path
from typing import Any

import pytest

from bayplan.kube.client.access import find_access
from bayplan.kube.client.credentials import AccessError
from bayplan.kube.client.proxies import proxy_from_environment
from tests.builders.kubeconfigs import SERVER, kubeconfig
from tests.kubernetes.control_plane.certificates import Authority


def authorization(file: Path, **arguments: Any) -> str | None:
    """What is shown to the server."""
    return asyncio.run(find_access(str(file), **arguments).credentials.current()).authorization


# ---------------------------------------------------------------------------------------------------------------------
# where to look


def test_the_file_that_is_given_wins_over_all_others(tmp_path: Path) -> None:
    given = kubeconfig(tmp_path / "given", {"server": "https://given"})
    listed = kubeconfig(tmp_path / "listed", {"server": "https://listed"})
    kubeconfig(tmp_path / ".kube" / "config", {"server": "https://home"})
    environment = {"KUBECONFIG": str(listed), "HOME": str(tmp_path)}
    assert find_access(str(given), environment=environment).server == "https://given"
    assert find_access(environment=environment).server == "https://listed"
    assert find_access(environment={"HOME": str(tmp_path)}).server == "https://home"


def test_a_user_without_a_home_has_no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container, whose user id is in no passwd file."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    with pytest.raises(AccessError, match="no cluster"):
        find_access(environment={})


def test_of_a_list_the_first_to_say_something_wins_and_missing_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    first = kubeconfig(tmp_path / "first", name="a", **{"current-context": None})
    second = kubeconfig(
        tmp_path / "second",
        {"server": "https://not-this-one"},
        name="a",
        clusters=[
            {"name": "a", "cluster": {"server": "https://not-this-one"}},
            {"name": "b", "cluster": {"server": "https://b"}},
        ],
        contexts=[{"name": "b", "context": {"cluster": "b", "user": "a", "namespace": "telco"}}],
    )
    environment = {"KUBECONFIG": f"{tmp_path}/empty:{tmp_path}/missing:{first}:{second}"}
    assert find_access(environment=environment).server == SERVER
    other = find_access(context="b", environment=environment)
    assert (other.server, other.namespace) == ("https://b", "telco")


def test_inside_a_pod_the_service_account_serves(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    account = tmp_path / "account"
    account.mkdir()
    (account / "ca.crt").write_bytes(authority.certificate.read_bytes())
    (account / "token").write_text("secret\n")
    (account / "namespace").write_text("kube-system")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    access = find_access(environment=environment, service_account=account)
    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "kube-system")
    assert asyncio.run(access.credentials.current()).authorization == "Bearer secret"


@pytest.mark.parametrize(
    "missing, problem", [("ca.crt", "ca.crt: cannot be used"), ("token", "token: cannot be read"), ("", "")]
)
def test_a_service_account_that_lacks_a_file(tmp_path: Path, missing: str, problem: str) -> None:
    authority = Authority(tmp_path)
    for name in ("ca.crt", "token"):
        if name == missing:
            (tmp_path / name).unlink(missing_ok=True)
        else:
            (tmp_path / name).write_text(authority.certificate.read_text() if name == "ca.crt" else "secret")
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOME": str(tmp_path)}
    if missing:
        with pytest.raises(AccessError, match=problem):
            find_access(environment=environment, service_account=tmp_path)
    else:
        assert find_access(environment=environment, service_account=tmp_path).namespace == "default"


def test_nothing_to_be_found(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"no cluster: there is no kubeconfig .* and bayplan does not run in a pod"):
        find_access(environment={"HOME": str(tmp_path)})
    with pytest.raises(AccessError, match=r"no cluster: \$KUBECONFIG names /nowhere, which does not exist"):
        find_access(environment={"HOME": str(tmp_path), "KUBECONFIG": "/nowhere"})
    with pytest.raises(AccessError, match=r'context "dev": there is no kubeconfig'):
        find_access(context="dev", environment={"HOME": str(tmp_path)})
    with pytest.raises(AccessError, match=re.escape(f"kubeconfig {tmp_path}/nowhere: does not exist")):
        find_access(f"{tmp_path}/nowhere")


# ---------------------------------------------------------------------------------------------------------------------
# what stands there


@pytest.mark.parametrize(
    "user, shown",
    [
        ({}, None),
        ({"token": "abc"}, "Bearer abc"),
        ({"username": "me", "password": "secret"}, "Basic bWU6c2VjcmV0"),
        ({"tokenFile": "token"}, "Bearer from a file"),
        ({"tokenFile": "token", "token": "abc"}, "Bearer from a file"),
        ({"tokenFile": "missing", "token": "abc"}, "Bearer abc"),
    ],
)
def test_tokens_and_passwords(tmp_path: Path, user: dict[str, Any], shown: str | None) -> None:
    (tmp_path / "token").write_text("from a file\n")
    assert authorization(kubeconfig(tmp_path / "config", user=user)) == shown


def test_impersonation(tmp_path: Path) -> None:
    user = {"token": "abc", "as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"team": ["x"]}}
    assert find_access(str(kubeconfig(tmp_path / "config", user=user))).headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-team", "x"),
    )


def test_name_in_the_certificate_and_proxy(tmp_path: Path) -> None:
    cluster = {"tls-server-name": "api.internal", "proxy-url": "http://proxy:3128", "server": "https://a/k8s/c-1/"}
    access = find_access(str(kubeconfig(tmp_path / "config", cluster)))
    assert access.tls_server_name == "api.internal"
    assert access.proxy == "http://proxy:3128"
    assert access.server == "https://a/k8s/c-1"
    assert access.source == f'context "dev" of {tmp_path}/config'


NO_PEM = base64.b64encode(b"nothing").decode()


@pytest.mark.parametrize(
    "cluster, user, more, problem",
    [
        ({"server": ""}, {}, {}, 'clusters["dev"].cluster.server: is not set'),
        (
            {"server": "10.0.0.1:6443"},
            {},
            {},
            'clusters["dev"].cluster.server: "10.0.0.1:6443" is no address; expected such as https://10.0.0.1:6443',
        ),
        ({"server": "https://a:b"}, {}, {}, 'clusters["dev"].cluster.server: "https://a:b" is no address'),
        ({"server": 7}, {}, {}, "clusters[0].cluster.server: must be a string, not a whole number"),
        ({"proxy-url": "socks5://a:1"}, {}, {}, 'cluster.proxy-url: "socks5://a:1" is not supported; expected http://'),
        ({"certificate-authority": "ca.crt"}, {}, {}, "cluster.certificate-authority: {folder}/ca.crt cannot be read"),
        ({"certificate-authority-data": "%"}, {}, {}, "cluster.certificate-authority-data: is not base64"),
        ({"certificate-authority-data": NO_PEM}, {}, {}, "cluster.certificate-authority: cannot be used"),
        (
            {"certificate-authority-data": NO_PEM, "insecure-skip-tls-verify": True},
            {},
            {},
            "cluster.insecure-skip-tls-verify: cannot be true beside a certificate-authority",
        ),
        ({}, {"client-certificate-data": NO_PEM}, {}, "user.client-key: is not set, but client-certificate is"),
        ({}, {"client-key-data": NO_PEM}, {}, "user.client-certificate: is not set, but client-key is"),
        (
            {},
            {"client-certificate-data": NO_PEM, "client-key-data": NO_PEM},
            {},
            "user.client-certificate: cannot be used with its key",
        ),
        ({}, {"tokenFile": "missing"}, {}, "token file {folder}/missing: cannot be read"),
        ({}, {"tokenFile": "empty"}, {}, "token file {folder}/empty: is empty"),
        (
            {},
            {"auth-provider": {"name": "gcp"}},
            {},
            'users["dev"].user.auth-provider: "gcp" plug-ins are gone since Kubernetes 1.26; use an exec plug-in',
        ),
        ({}, {}, {"current-context": None}, "current-context: is not set; choose a context: dev"),
        ({}, {}, {"contexts": []}, "config is no kubeconfig, or has no contexts"),
        ({}, {}, {"current-context": "prod"}, 'current-context: "prod" does not exist; known: dev'),
        (
            {},
            {},
            {"contexts": [{"name": "dev", "context": {"cluster": "x", "user": "dev"}}]},
            'contexts["dev"].context.cluster: "x" does not exist; known: dev',
        ),
        (
            {},
            {},
            {"contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "x"}}]},
            'contexts["dev"].context.user: "x" does not exist; known: dev',
        ),
        ({}, {}, {"contexts": [{"name": "dev"}]}, 'contexts["dev"].context.cluster: is not set'),
        ({}, {}, {"users": [{"name": "a"}, {"name": "a"}]}, 'users: the name "a" appears twice'),
        ({}, {}, {"clusters": 3}, "clusters: must be a list, not a whole number"),
    ],
)
def test_what_is_wrong_is_told_by_file_and_field(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], more: dict[str, Any], problem: str
) -> None:
    (tmp_path / "empty").touch()
    file = kubeconfig(tmp_path / "config", cluster, user, **more)
    with pytest.raises(AccessError) as caught:
        find_access(str(file))
    assert problem.format(folder=tmp_path) in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_context_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r'config: context: "prod" does not exist; known: dev'):
        find_access(str(kubeconfig(tmp_path / "config")), "prod")


def test_a_file_that_is_no_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("{not: [yaml")
    with pytest.raises(AccessError, match=r"kubeconfig .*/config: is neither JSON nor YAML|is not valid JSON"):
        find_access(str(tmp_path / "config"))


# ---------------------------------------------------------------------------------------------------------------------
# proxies of the environment


@pytest.mark.parametrize(
    "server, environment, proxy",
    [
        (SERVER, {}, None),
        (SERVER, {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        (SERVER, {"https_proxy": "p:1"}, "http://p:1"),
        (SERVER, {"HTTP_PROXY": "http://p:1"}, None),
        ("http://api", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        (SERVER, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.com, 10.0.0.0/8"}, None),
        (SERVER, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.1.0.0/16,nonsense/x"}, "http://p:1"),
        (SERVER, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.1:6443"}, None),
        (SERVER, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.1:443"}, "http://p:1"),
        (SERVER, {"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, None),
        ("https://api.example.com", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.com"}, None),
        ("https://api.example.com", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example.com"}, None),
        ("https://example.com", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example.com"}, "http://p:1"),
        ("https://notexample.com", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.com"}, "http://p:1"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://p:1"}, None),
    ],
)
def test_a_proxy_from_the_environment(server: str, environment: dict[str, str], proxy: str | None) -> None:
    assert proxy_from_environment(server, environment) == proxy
