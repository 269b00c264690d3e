"""What is shown to the server: tokens that are rotated, certificates, over real TLS; plug-ins
are little shell scripts.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.client.credentials import AccessError, TokenFile
from bayplan.kube.client.exec_credentials import ExecPlugin
from bayplan.kube.resources import PODS
from tests.builders.kubeconfigs import SERVER, kubeconfig
from tests.kubernetes.control_plane.certificates import Authority, KeyPair
from tests.scripted_api_server import ScriptedServer, asynchronous, listing, refusal

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> ssl.SSLContext:
    """What the API server has: its certificate, and who may sign clients' certificates."""
    serving = authority.issue_server()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(serving.certificate, serving.key)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def files_of(pair: KeyPair) -> dict[str, str]:
    return {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}


async def list_pods(file: Path) -> None:
    async with KubeClient(find_access(str(file))) as client:
        await client.request("GET", PODS.path())


# ---------------------------------------------------------------------------------------------------------------------
# tokens and certificates


def test_a_token_file_is_read_again_every_minute_and_survives_being_replaced(tmp_path: Path) -> None:
    now = 0.0
    file = tmp_path / "token"
    file.write_text("one")
    credentials = TokenFile(file, None, clock=lambda: now)

    def shown() -> str | None:
        return asyncio.run(credentials.current()).authorization

    assert shown() == "Bearer one"
    file.write_text("two")
    now = 59.0
    assert shown() == "Bearer one"
    now = 60.0
    assert shown() == "Bearer two"
    file.unlink()
    now = 300.0
    assert shown() == "Bearer two"


@pytest.mark.parametrize("form", ["files", "data"])
@asynchronous
async def test_a_client_certificate(tmp_path: Path, authority: Authority, tls: ssl.SSLContext, form: str) -> None:
    pair = authority.issue_client("jane", [])
    data = {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}
    async with ScriptedServer(tls) as server:
        server.answers("GET", "/api/v1/pods", listing([]))
        cluster = {"server": server.url, "certificate-authority": str(authority.certificate)}
        await list_pods(kubeconfig(tmp_path / "config", cluster, files_of(pair) if form == "files" else data))
        assert server.asked[0].certificate == "jane"


@asynchronous
async def test_a_renewed_certificate_is_shown_after_a_refusal(
    tmp_path: Path, authority: Authority, tls: ssl.SSLContext
) -> None:
    files = KeyPair(tmp_path / "client.crt", tmp_path / "client.key")
    for name, source in (("old", authority.issue_client("old", [])), ("new", authority.issue_client("new", []))):
        (tmp_path / f"{name}.crt").write_bytes(source.certificate.read_bytes())
        (tmp_path / f"{name}.key").write_bytes(source.key.read_bytes())
    shutil.copy(tmp_path / "old.crt", files.certificate)
    shutil.copy(tmp_path / "old.key", files.key)
    async with ScriptedServer(tls) as server:
        server.answers("GET", "/api/v1/pods", listing([]), refusal(401, "Unauthorized"), listing([]))
        cluster = {"server": server.url, "certificate-authority": str(authority.certificate)}
        async with KubeClient(find_access(str(kubeconfig(tmp_path / "config", cluster, files_of(files))))) as client:
            await client.list(PODS)
            shutil.copy(tmp_path / "new.crt", files.certificate)
            shutil.copy(tmp_path / "new.key", files.key)
            await client.list(PODS)
        assert [asked.certificate for asked in server.asked] == ["old", "old", "new"]


def test_the_authorities_beside_a_token_are_read_again_when_they_are_replaced(
    tmp_path: Path, authority: Authority
) -> None:
    """A cluster that changes its CA replaces ca.crt of service accounts; who read it once could reach no server any
    more.
    """
    now = 0.0
    token, trusted = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("secret")
    trusted.write_bytes(authority.certificate.read_bytes())
    credentials = TokenFile(token, None, authorities=trusted, clock=lambda: now)

    def shown() -> ssl.SSLContext:
        context = asyncio.run(credentials.current()).tls
        assert context is not None
        return context

    first = shown()
    now = 61.0
    assert shown() is first
    (tmp_path / "next").mkdir()
    trusted.write_bytes(Authority(tmp_path / "next").certificate.read_bytes())
    now = 122.0
    second = shown()
    assert second is not first
    assert second.get_ca_certs() != first.get_ca_certs()
    trusted.write_text("half of it")
    now = 183.0
    assert shown() is second


@asynchronous
async def test_a_server_of_another_authority_is_not_believed(
    tmp_path: Path, authority: Authority, tls: ssl.SSLContext
) -> None:
    foreign = Authority(tmp_path)
    async with ScriptedServer(tls) as server:
        server.answers("GET", "/api/v1/pods", listing([]))
        cluster: dict[str, Any] = {"server": server.url, "certificate-authority": str(foreign.certificate)}
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await list_pods(kubeconfig(tmp_path / "config", cluster))
        with pytest.raises(Unreachable, match="certificate verify failed"):  # nor by the system's authorities
            await list_pods(kubeconfig(tmp_path / "config", {"server": server.url, "insecure-skip-tls-verify": False}))
        await list_pods(kubeconfig(tmp_path / "config", {"server": server.url}))


@asynchronous
async def test_the_name_in_the_servers_certificate_can_be_stated(
    tmp_path: Path, authority: Authority, tls: ssl.SSLContext
) -> None:
    async with ScriptedServer(tls) as server:
        server.answers("GET", "/api/v1/pods", listing([]))
        cluster = {"certificate-authority-data": encoded(authority.certificate)}
        by_name = server.url.replace("127.0.0.1", "localhost")
        with pytest.raises(Unreachable, match="certificate is not valid for 'localhost'"):
            await list_pods(kubeconfig(tmp_path / "config", {**cluster, "server": by_name}))
        stated = {**cluster, "server": by_name, "tls-server-name": "127.0.0.1"}
        await list_pods(kubeconfig(tmp_path / "config", stated))


# ---------------------------------------------------------------------------------------------------------------------
# plug-ins


def plugin(folder: Path, script: str, **exec_fields: Any) -> Path:
    """A kubeconfig whose user asks a shell script in the same folder; each run of it leaves a line in `runs`."""
    file = folder / "plugin.sh"
    file.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{script}\n")
    file.chmod(0o755)
    exec_ = {"apiVersion": V1, "command": "./plugin.sh", "interactiveMode": "Never", **exec_fields}
    return kubeconfig(folder / "config", user={"exec": exec_})


def prints(api_version: str = V1, **status: Any) -> str:
    """A script that prints credentials."""
    printed = {"apiVersion": api_version, "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(printed)}\nEND"


def runs(folder: Path) -> int:
    file = folder / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.parametrize("api_version, mode", [(V1, "Never"), (V1, "IfAvailable"), (V1BETA1, ""), (V1BETA1, "Never")])
@asynchronous
async def test_a_plug_in_prints_a_token_once(tmp_path: Path, api_version: str, mode: str) -> None:
    file = plugin(tmp_path, prints(api_version, token="abc"), apiVersion=api_version, interactiveMode=mode)
    credentials = find_access(str(file)).credentials
    shown = await asyncio.gather(*(credentials.current() for _ in range(5)))
    assert {each.authorization for each in shown} == {"Bearer abc"}
    assert runs(tmp_path) == 1


@asynchronous
async def test_a_plug_in_is_told_what_it_asked_for(tmp_path: Path) -> None:
    script = (
        f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo "$1 $PROFILE $KEPT" > '
        f"{tmp_path}/rest\n{prints(token='a')}"
    )
    file = plugin(
        tmp_path,
        script,
        args=["get-token"],
        env=[{"name": "PROFILE", "value": "dev"}],
        provideClusterInfo=True,
    )
    text = file.read_text().replace(
        "    server:",
        "    extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: x}}]\n    server:",
    )
    file.write_text(text)
    await find_access(str(file), environment={"PATH": "/usr/bin:/bin", "KEPT": "yes"}).credentials.current()
    assert (tmp_path / "rest").read_text() == "get-token dev yes\n"
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": SERVER, "insecure-skip-tls-verify": True, "config": {"audience": "x"}},
        },
    }


@asynchronous
async def test_a_plug_in_runs_again_shortly_before_its_credentials_expire(tmp_path: Path) -> None:
    expires = datetime(2026, 1, 31, 12, tzinfo=UTC)
    now = expires - timedelta(minutes=5)
    access = find_access(str(plugin(tmp_path, prints(token="abc", expirationTimestamp="2026-01-31T12:00:00Z"))))
    credentials = access.credentials
    assert isinstance(credentials, ExecPlugin)
    credentials._clock = lambda: now
    await credentials.current()
    now = expires - timedelta(seconds=11)
    await credentials.current()
    assert runs(tmp_path) == 1
    now = expires - timedelta(seconds=10)
    await credentials.current()
    assert runs(tmp_path) == 2


@asynchronous
async def test_a_plug_in_runs_again_once_after_a_refusal_however_many_were_refused(tmp_path: Path) -> None:
    file = plugin(
        tmp_path,
        (
            f"wc -l < {tmp_path}/runs | xargs printf "
            f'\'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{"token":"%s"}}}}\''
        ),
    )
    async with ScriptedServer() as server:
        server.answers("GET", "/api/v1/pods", *[refusal(401, "Unauthorized")] * 3, listing([]))
        async with server.client(find_access(str(file)).credentials) as client:
            await asyncio.gather(*(client.list(PODS) for _ in range(3)))
        assert sorted(asked.headers["Authorization"] for asked in server.asked) == ["Bearer 1"] * 3 + ["Bearer 2"] * 3
        assert runs(tmp_path) == 2


@asynchronous
async def test_a_server_that_refuses_everything_is_told_after_one_more_run(tmp_path: Path) -> None:
    async with ScriptedServer() as server:
        server.answers("GET", "/api/v1/pods", refusal(401, "Unauthorized"))
        async with server.client(find_access(str(plugin(tmp_path, prints(token="abc")))).credentials) as client:
            with pytest.raises(ApiError, match="401 Unauthorized"):
                await client.list(PODS)
        assert runs(tmp_path) == 2


@asynchronous
async def test_a_plug_in_may_print_a_certificate(tmp_path: Path, authority: Authority, tls: ssl.SSLContext) -> None:
    pair = authority.issue_client("jane", [])
    script = prints(clientCertificateData=pair.certificate.read_text(), clientKeyData=pair.key.read_text())
    async with ScriptedServer(tls) as server:
        server.answers("GET", "/api/v1/pods", listing([]))
        plugin(tmp_path, script)
        file = kubeconfig(
            tmp_path / "config",
            {"server": server.url, "certificate-authority-data": encoded(authority.certificate)},
            {"exec": {"apiVersion": V1, "command": "./plugin.sh", "interactiveMode": "Never"}},
        )
        await list_pods(file)
        assert server.asked[0].certificate == "jane"


@pytest.mark.parametrize(
    "script, problem",
    [
        ("echo no network >&2; exit 3", '"./plugin.sh" ended with 3: no network'),
        ("echo hello", "printed no JSON"),
        ("echo '{\"kind\": 7}'", "printed an ExecCredential with a wrong kind: must be a string, not a whole number"),
        (prints(V1BETA1, token="a"), f"printed {V1BETA1} ExecCredential; expected {V1} ExecCredential"),
        (prints(), "printed neither a token nor a client certificate"),
        (prints(clientKeyData="x"), "printed only one of clientCertificateData and clientKeyData"),
        (prints(clientKeyData="x", clientCertificateData="y"), "printed a client certificate that cannot be used"),
    ],
)
@asynchronous
async def test_a_plug_in_that_fails(tmp_path: Path, script: str, problem: str) -> None:
    access = find_access(str(plugin(tmp_path, script)))
    with pytest.raises(AccessError) as caught:
        await access.credentials.current()
    assert str(caught.value).startswith(f'{tmp_path}/config: users["dev"].user.exec.command: "./plugin.sh" ')
    assert problem in str(caught.value)
    async with KubeClient(access) as client:
        with pytest.raises(Unreachable, match=r"plugin.sh"):
            await client.request("GET", "/api/v1/pods")


@pytest.mark.parametrize(
    "fields, problem",
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "exec.apiVersion: "),
        ({"command": ""}, "exec.command: is not set"),
        ({"interactiveMode": "Always"}, 'exec.interactiveMode: "Always" needs a terminal, and bayplan offers none'),
        ({"interactiveMode": ""}, 'exec.interactiveMode: "" is not known; expected Never, IfAvailable, Always'),
        ({"interactiveMode": "Perhaps"}, 'exec.interactiveMode: "Perhaps" is not known'),
    ],
)
def test_a_plug_in_that_cannot_be_run(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(AccessError) as caught:
        find_access(str(plugin(tmp_path, "", **fields)))
    assert f'{tmp_path}/config: users["dev"].user.{problem}' in str(caught.value)


@asynchronous
async def test_a_plug_in_that_is_not_installed(tmp_path: Path) -> None:
    file = plugin(tmp_path, "", command="no-such-plug-in", installHint="Get it from example.com.")
    with pytest.raises(AccessError, match=r"cannot be started: No such file or directory\. Get it from example.com."):
        await find_access(str(file)).credentials.current()


@asynchronous
async def test_a_plug_in_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.kube.client.exec_credentials.LONGEST_RUN", 0.2)
    with pytest.raises(AccessError, match=r"did not end within 0\.2 s"):
        await find_access(str(plugin(tmp_path, "exec sleep 60"))).credentials.current()
