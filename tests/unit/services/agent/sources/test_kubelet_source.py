"""Where the kubelet's configuration comes from: files, flags on top of them, configz; and what is said when it does not
come.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.services.agent.sources import kubelet_source
from bayplan.services.agent.sources.kubelet_config import setup_of
from bayplan.services.agent.sources.kubelet_source import NoConfiguration, checked_source, read_setup
from tests.scripted_api_server import ScriptedServer, asynchronous, says, says_text, watch

FILE = "topologyManagerPolicy: restricted\ncpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(FILE)
    return file


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}"])
@asynchronous
async def test_a_file(config: Path, form: str) -> None:
    setup = await read_setup(form.format(config))
    assert setup.settings.policy is Policy.RESTRICTED
    assert setup.settings.cpu_static
    assert setup.reserved_cpus == {0, 1}


@pytest.mark.parametrize(
    "text",
    [
        (
            'KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.7 --topology-manager-policy=single-numa-node '
            '--topology-manager-scope pod"\n'
        ),
        "kubelet --topology-manager-policy=single-numa-node --topology-manager-scope=pod",
    ],
)
@pytest.mark.parametrize("form", ["{}", "file://{}"])
@pytest.mark.parametrize("name, named", [("kubeadm-flags.env", False), ("kubeadm-flags.env", True), ("flags", True)])
@asynchronous
async def test_flags_overrule_the_file(config: Path, text: str, form: str, name: str, named: bool) -> None:
    """Those that kubeadm writes beside the file count without being named."""
    flags = config.with_name(name)
    flags.write_text(text)
    settings = (await read_setup(form.format(config), flags if named else None)).settings
    assert (settings.policy, settings.scope, settings.cpu_static) == (Policy.SINGLE_NUMA_NODE, Scope.POD, True)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("topologyManagerPolicy: strict", 'topologyManagerPolicy: "strict": must be one of none, best-effort'),
        ("- a list", "must be a KubeletConfiguration"),
        ("{", "kubelet configuration: file .* is not valid JSON"),
        ("", "is empty"),
    ],
)
@asynchronous
async def test_a_file_that_makes_no_sense(tmp_path: Path, text: str, problem: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    with pytest.raises(NoConfiguration, match=problem):
        await read_setup(str(config))


@asynchronous
async def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(NoConfiguration, match="does not exist"):
        await read_setup(str(tmp_path / "config.yaml"))


@asynchronous
async def test_configz_is_asked_with_the_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    async with ScriptedServer() as server:
        server.answers("GET", "/configz", says({"kubeletconfig": {"topologyManagerPolicy": "best-effort"}}))
        said = await kubelet_source._configz(f"{server.url}/configz", kubelet_source._token(token))
        assert server.asked[0].headers["Authorization"] == "Bearer secret"
    assert setup_of(said, "configz").settings.policy is Policy.BEST_EFFORT


@asynchronous
async def test_a_token_that_is_not_text(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_bytes(b"\xff\xfe")
    with pytest.raises(NoConfiguration, match="token: is not text"):
        await read_setup("https://127.0.0.1:1/configz", token_file=token)


@asynchronous
async def test_a_named_file_of_flags_must_be_there(config: Path) -> None:
    flags = config.with_name("flags")
    with pytest.raises(NoConfiguration, match=f"^kubelet flags {flags}: No such file or directory$"):
        await read_setup(str(config), flags)


@asynchronous
async def test_a_named_file_of_flags_takes_the_place_of_the_one_beside(config: Path) -> None:
    config.with_name("kubeadm-flags.env").write_text('KUBELET_KUBEADM_ARGS="--topology-manager-policy=best-effort"')
    assert (await read_setup(str(config), Path("/dev/null"))).settings.policy is Policy.RESTRICTED


@asynchronous
async def test_a_long_answer_that_comes_in_pieces_is_read_to_its_end() -> None:
    said = json.dumps({"kubeletconfig": {"clusterDNS": ["x" * 6000], "topologyManagerPolicy": "restricted"}}).encode()
    async with ScriptedServer() as server:
        server.answers("GET", "/configz", watch(*(said[at : at + 1000] for at in range(0, len(said), 1000))))
        document = await kubelet_source._configz(f"{server.url}/configz", {})
    assert setup_of(document, "configz").settings.policy is Policy.RESTRICTED


@asynchronous
async def test_an_answer_without_end_is_not_read() -> None:
    async with ScriptedServer() as server:
        server.answers("GET", "/configz", watch(*[b"x" * (1 << 19)] * 4))
        with pytest.raises(NoConfiguration, match="has more than 1 MiB"):
            await kubelet_source._configz(f"{server.url}/configz", {})


@asynchronous
async def test_a_kubelet_that_does_not_listen() -> None:
    with pytest.raises(
        NoConfiguration, match=r"configuration https://127.0.0.1:1/configz: cannot connect: Connection refused$"
    ):
        await read_setup("https://127.0.0.1:1/configz")


@asynchronous
async def test_configz_refuses() -> None:
    async with ScriptedServer() as server:
        server.answers("GET", "/configz", says_text("Forbidden (user=agent, verb=get, resource=nodes)", 403))
        with pytest.raises(NoConfiguration, match="403 Forbidden: Forbidden"):
            await kubelet_source._configz(f"{server.url}/configz", {})
        server.answers("GET", "/configz", says_text("<html>"))
        with pytest.raises(NoConfiguration, match="this is not an answer of configz"):
            await kubelet_source._configz(f"{server.url}/configz", {})


@asynchronous
async def test_configz_does_not_answer() -> None:
    with pytest.raises(NoConfiguration, match=r"kubelet configuration https://127\.0\.0\.1:1/configz"):
        await read_setup("https://127.0.0.1:1/configz")


@pytest.mark.parametrize("text", ["", "/var/lib/kubelet/config.yaml", "file:///x", "https://10.0.0.7:10250/configz"])
def test_sources_that_can_be_read(text: str) -> None:
    assert checked_source(text) == text


@pytest.mark.parametrize("text", ["http://10.0.0.7/configz", "https://:10250/configz"])
def test_sources_that_cannot(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a path|names no host"):
        checked_source(text)
