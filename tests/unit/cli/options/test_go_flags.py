"""Flags as nfd-topology-updater and nfd-gc are given them in DaemonSets, in Go's spelling."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from bayplan.cli.options.go_flags import translated
from bayplan.cli.services.agent import agent
from bayplan.cli.services.agent_gc import agent_gc
from bayplan.services.agent.run import HealthSettings
from bayplan.services.agent.settings import AgentSettings
from tests.builders.kubeconfigs import kubeconfig
from tests.unit.cli.conftest import Bayplan


@pytest.mark.parametrize(
    "words, understood",
    [
        (["-oneshot"], ["--oneshot"]),
        (["-oneshot=true", "-no-publish=1"], ["--oneshot", "--no-publish"]),
        (["-oneshot=false"], ["--no-oneshot"]),
        (["-pods-fingerprint=false"], ["--no-pods-fingerprint"]),
        (["-sleep-interval=3s"], ["--sleep-interval=3s"]),
        (["-sleep-interval", "3s"], ["--sleep-interval", "3s"]),
        (["--watch-namespace=*"], ["--watch-namespace=*"]),
        (["-kubelet-state-dir="], ["--kubelet-state-dir="]),
        (["-v=4"], ["-v"]),
        (["-v=1"], []),
        (["-v", "4", "-oneshot"], ["-v", "--oneshot"]),
        (["-v", "1"], []),
        (["-v", "-o", "json"], ["-v", "-o", "json"]),
        (["-unknown"], ["--unknown"]),
    ],
)
def test_words_in_go_spelling(words: list[str], understood: list[str]) -> None:
    assert translated(words, agent.params) == (understood, [])


def test_how_go_programs_log_is_dropped_and_named() -> None:
    words = ["-logtostderr", "-stderrthreshold", "2", "-vmodule=a=1", "-oneshot"]
    assert translated(words, agent.params) == (["--oneshot"], ["-logtostderr", "-stderrthreshold", "-vmodule"])


@pytest.mark.parametrize(
    "command, flags",
    [
        (
            agent,
            "config kubeconfig no-publish oneshot port sleep-interval watch-namespace version pods-fingerprint",
        ),
        (
            agent,
            "kubelet-config-uri api-auth-token-file podresources-socket kubelet-state-dir",
        ),
        (agent_gc, "gc-interval kubeconfig port list-size version"),
    ],
)
def test_all_flags_of_nfd_are_known(command: click.Command, flags: str) -> None:
    known = {name for parameter in command.params for name in parameter.opts}
    assert {f"--{flag}" for flag in flags.split()} <= known


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["agent", "-oneshot=perhaps"], "--oneshot: 'perhaps' is neither true nor false"),
        (["agent", "--interval", "soon"], '--interval: "soon" is no duration'),
        (
            ["agent", "--kubelet-config", "ftp://x"],
            '--kubelet-config: "ftp://x": must be a path, file:///PATH or https://',
        ),
        (["agent", "--reference-container", "a/b"], '--reference-container: "a/b": must be NAMESPACE/POD/CONTAINER'),
        (["agent", "--pod", "upf-0"], "--pod: 'upf-0' is not understood: must be NAMESPACE/NAME"),
        (["agent", "--config", "nowhere.yaml"], "file nowhere.yaml: does not exist"),
        (["agent", "-klog.v=3"], "--klog.v"),
        (["agent-gc", "--stale-after", "0"], "--gc-interval and --stale-after must be more than 0"),
    ],
)
def test_what_makes_no_sense_is_one_line(bayplan: Bayplan, arguments: list[str], message: str) -> None:
    result = bayplan(*arguments, cluster=None)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_a_configuration_that_was_named_must_be_there_even_without_a_kubelet(bayplan: Bayplan) -> None:
    result = bayplan("agent", "--oneshot", "--no-publish", "--kubelet-config", "nowhere.yaml", cluster=None)
    assert result.code == 2
    assert "error: kubelet configuration: file nowhere.yaml: does not exist" in result.err


@pytest.mark.parametrize("program, command", [("nfd-topology-updater", "agent"), ("nfd-gc", "agent-gc")])
def test_a_link_by_the_name_of_nfds_program_is_the_agent(bayplan: Bayplan, program: str, command: str) -> None:
    result = bayplan("--help", cluster=None, program=f"/usr/bin/{program}")
    assert f"Usage: bayplan {command}" in result.out


def test_such_a_link_goes_on_without_its_configuration_as_nfds_program_does(
    bayplan: Bayplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = []

    async def run_agent(_access: object, given: AgentSettings, _health: object) -> None:
        settings.append(given)

    monkeypatch.setattr("bayplan.services.agent.run.run_agent", run_agent)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config")))
    result = bayplan("-config=/nowhere.conf", cluster=None, program="/usr/bin/nfd-topology-updater")
    assert result.code == 0
    assert result.err == "warning: file /nowhere.conf: does not exist: no resource and no pod is left out\n"
    assert [(each.excluded_resources, each.excluded_pods) for each in settings] == [(frozenset(), ())]


@pytest.mark.parametrize(
    "program, flags, address",
    [
        ("nfd-topology-updater", [], ":8080"),
        ("nfd-topology-updater", ["-port=8081"], ":8081"),
        ("bayplan", ["agent"], "127.0.0.1:10362"),
    ],
)
def test_such_a_link_is_probed_where_nfds_program_would_be(
    bayplan: Bayplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, flags: list[str], address: str
) -> None:
    addresses = []

    async def run_agent(_access: object, _settings: object, health: HealthSettings) -> None:
        addresses.append(health.address)

    monkeypatch.setattr("bayplan.services.agent.run.run_agent", run_agent)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config")))
    assert bayplan(*flags, cluster=None, program=f"/usr/bin/{program}").code == 0
    assert addresses == [address]
