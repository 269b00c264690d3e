"""Connection, leader election and backoff from a KubeSchedulerConfiguration: defaults, notices,
and words for mistakes.
"""

from __future__ import annotations

import pytest

from bayplan.config.configuration import ConfigurationError, configuration_of
from bayplan.config.service_settings import ClientConnection, LeaderElectionSettings, ServiceSettings, parse_duration
from bayplan.plugins.node_resource_topology_args import ArgumentError
from tests.builders.bodies import Json

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def settings(**fields: object) -> ServiceSettings:
    return configuration_of({**HEADER, **fields}).services


def test_defaults() -> None:
    assert settings() == ServiceSettings(
        leader_election=LeaderElectionSettings(True, 15.0, 10.0, 2.0, "bayplan", "kube-system"),
        client=ClientConnection(None, 2000.0, 4000),
        initial_backoff=1.0,
        max_backoff=10.0,
        notices=(),
    )


def test_an_empty_namespace_of_the_lease_is_the_default() -> None:
    assert settings(leaderElection={"resourceNamespace": ""}).leader_election.namespace == "kube-system"


def test_what_is_written_counts() -> None:
    election = {
        "leaderElect": False,
        "leaseDuration": "1m",
        "renewDeadline": "40s",
        "retryPeriod": "500ms",
        "resourceLock": "leases",
        "resourceName": "second",
        "resourceNamespace": "ml",
    }
    connection = {"kubeconfig": "/etc/kubeconfig", "qps": 100, "burst": 150}
    found = settings(
        leaderElection=election, clientConnection=connection, podInitialBackoffSeconds=2, podMaxBackoffSeconds=60
    )
    assert found == ServiceSettings(
        leader_election=LeaderElectionSettings(False, 60.0, 40.0, 0.5, "second", "ml"),
        client=ClientConnection("/etc/kubeconfig", 100.0, 150),
        initial_backoff=2.0,
        max_backoff=60.0,
    )


@pytest.mark.parametrize(
    "written, qps, burst",
    [({"qps": 10}, 10.0, 20), ({"qps": 0.1}, 0.1, 1), ({"qps": -1}, 0.0, 1), ({"burst": 5}, 2000.0, 5)],
    ids=["twice the rate", "at least one", "no limit", "burst alone"],
)
def test_rates(written: Json, qps: float, burst: int) -> None:
    assert settings(clientConnection=written).client == ClientConnection(None, qps, burst)


@pytest.mark.parametrize(
    "fields, notice",
    [
        ({"parallelism": 16}, "parallelism changes nothing: bayplan judges all nodes in one pass"),
        (
            {"percentageOfNodesToScore": 50},
            "percentageOfNodesToScore changes nothing: bayplan always looks at every node",
        ),
        ({"enableProfiling": True}, "enableProfiling changes nothing: bayplan has no profiling endpoint"),
        (
            {"delayCacheUntilActive": True},
            "delayCacheUntilActive changes nothing: a standby follows the cluster, so that it can take over at once",
        ),
        (
            {"clientConnection": {"contentType": "application/vnd.kubernetes.protobuf"}},
            "clientConnection.contentType and acceptContentTypes change nothing: bayplan speaks JSON",
        ),
    ],
)
def test_what_is_accepted_and_changes_nothing_is_said(fields: Json, notice: str) -> None:
    assert settings(**fields).notices == (notice,)


@pytest.mark.parametrize(
    "fields, message",
    [
        (
            {"extenders": [{"urlPrefix": "http://x"}]},
            "extenders: not supported: bayplan evaluates nodes itself",
        ),
        (
            {"podInitialBackoffSeconds": 0},
            "podInitialBackoffSeconds: 0 is not allowed: must be 1 or more",
        ),
        (
            {"podInitialBackoffSeconds": 20},
            "podMaxBackoffSeconds: 10 is not allowed: must be at least podInitialBackoffSeconds (20)",
        ),
        ({"parallelism": 0}, "parallelism: 0 is not allowed: must be 1 or more"),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: 101 is not allowed: must be 0 to 100"),
        (
            {"profiles": [{"percentageOfNodesToScore": -1}]},
            "profiles[0].percentageOfNodesToScore: -1 is not allowed: must be 0 to 100",
        ),
        (
            {"leaderElection": {"leaseDuration": "15"}},
            "leaderElection.leaseDuration: '15' is not a duration; expected such as 15s, 1m30s or 500ms",
        ),
        (
            {"leaderElection": {"retryPeriod": "0s"}},
            "leaderElection.retryPeriod: 0s is not allowed: must be longer than 0s",
        ),
        (
            {"leaderElection": {"leaseDuration": "10500ms"}},
            "leaderElection.leaseDuration: 10500ms is not allowed: a Lease counts whole seconds",
        ),
        (
            {"leaderElection": {"leaseDuration": "10s"}},
            "leaderElection.leaseDuration: 10s is not allowed: must be longer than renewDeadline (10s)",
        ),
        (
            {"leaderElection": {"retryPeriod": "9s"}},
            "leaderElection.renewDeadline: 10s is not allowed: must be longer than 1.2 times retryPeriod (9s)",
        ),
        (
            {"leaderElection": {"resourceLock": "endpoints"}},
            "leaderElection.resourceLock: 'endpoints' is not allowed: must be leases",
        ),
        (
            {"leaderElection": {"resourceName": ""}},
            "leaderElection.resourceName: is empty: must be the name of a Lease",
        ),
        (
            {"leaderElection": {"leaderElected": True}},
            "leaderElection.leaderElected: there is no such field; did you mean leaderElect?",
        ),
        ({"clientConnection": {"qps": "many"}}, "clientConnection.qps: must be a number, not a string"),
        ({"clientConnection": {"qps": float("nan")}}, "clientConnection.qps: nan is not allowed: must be a number"),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst: -1 is not allowed: must be 0 or more"),
        ({"healthzBindAddress": ":10259"}, "healthzBindAddress: there is no such field"),
    ],
)
def test_mistakes_are_named_by_field(fields: Json, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings(**fields)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text, seconds",
    [("15s", 15.0), ("1m30s", 90.0), ("1h", 3600.0), ("500ms", 0.5), ("1.5s", 1.5), ("250us", 0.00025), ("0s", 0.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text, "f") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "15", "15 s", "-5s", "1d", "15s!", "1m30"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ArgumentError):
        parse_duration(text, "f")
