"""`bayplan scheduler`, as far as it goes without a cluster: its arguments, its configuration in words, and how it ends
without its lease.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bayplan.cli.program import run
from bayplan.services.edges.leader import LeadershipLost

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("bayplan")
    before = (list(root.handlers), root.level, ours.level)
    yield
    root.handlers, level, of_ours = before
    root.setLevel(level)
    ours.setLevel(of_ours)


@pytest.mark.parametrize("option", ["--gangs-complete-in", "--keep-room-for", "--events-per-second"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "soon"])
def test_what_is_no_sensible_number_is_refused(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bayplan", "scheduler", "--check-config", option, value]) == 2
    assert option in capsys.readouterr().err


@pytest.mark.parametrize(
    "written, lease",
    [
        ("", "lease kube-system/bayplan, 15 s"),
        ("leaderElection: {resourceNamespace: ml, resourceName: second}", "lease ml/second, 15 s"),
        ("leaderElection: {leaderElect: false}", "none: one instance only"),
    ],
)
def test_the_configuration_in_words_says_which_lease(
    written: str, lease: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{written}\n")
    assert run(["bayplan", "scheduler", "--config", str(file), "--check-config"]) == 0
    assert f"leader election  {lease}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "plugin, written, said",
    [
        ("NodeResourceTopologyMatch", "type: LeastNUMANodes", "LeastNUMANodes of NodeResourceTopologyMatch"),
        (
            "NodeResourceTopologyMatch",
            "type: MostAllocated, resources: [{name: cpu, weight: 2}, {name: memory}]",
            "MostAllocated of NodeResourceTopologyMatch: cpu x2, memory x1",
        ),
        ("NodeResourcesFit", "type: MostAllocated", "MostAllocated of NodeResourcesFit"),
    ],
)
def test_the_configuration_in_words_says_which_scoring_strategy_was_set(
    plugin: str, written: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {{scoringStrategy: {{{written}}}}}}}]}}]\n"
    )
    assert run(["bayplan", "scheduler", "--config", str(file), "--check-config"]) == 0
    assert f"    scoringStrategy  {said}\n" in capsys.readouterr().out


@pytest.mark.usefixtures("logs_as_before")
@pytest.mark.parametrize(
    "command, runs",
    [
        ("scheduler", "bayplan.services.scheduler.run._run"),
        ("pod-grouper", "bayplan.services.pod_grouper.run.run_pod_grouper"),
    ],
)
def test_that_the_lease_was_lost_is_the_last_record_of_the_log(
    command: str, runs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def loses(*_: object) -> None:
        raise LeadershipLost('lease ml/x: taken by "b"')

    monkeypatch.setattr(runs, loses)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    assert run(["bayplan", command, "--kubeconfig", str(kubeconfig), "--log-format", "json"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    record = msgspec.json.decode(line)
    assert (record["level"], record["message"], record["problem"]) == (
        "error",
        "the lease is lost",
        'lease ml/x: taken by "b"',
    )
