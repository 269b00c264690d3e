"""Connection, leader election and backoff of a `KubeSchedulerConfiguration`.

Fields as written come in (`configuration.py` decodes the file); `ServiceSettings` with defaults and seconds go out.
Fields and rules are kube-scheduler's, except two defaults. The lease is named `bayplan`, so that both schedulers can
run. The client can send far more than 50 requests a second, which would limit binding. `notices` lists fields without
effect; fields that would be missed are rejected.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from bayplan.plugins.node_resource_topology_args import ArgumentError

DEFAULT_LEASE_NAME = "bayplan"
DEFAULT_LEASE_NAMESPACE = "kube-system"
DEFAULT_QPS = 2000.0
DEFAULT_BURST = 4000
# client-go renews with jitter: the deadline must leave room for one late try.
RETRY_JITTER = 1.2

_GO_DURATION = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:h|ms|m|us|µs|ns|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


class Strict(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Base of all structs of a configuration file: an unknown field is an error."""


class LeaderElectionFields(Strict, frozen=True):
    """Leader election; durations in Go's form."""

    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = DEFAULT_LEASE_NAME
    resource_namespace: str = DEFAULT_LEASE_NAMESPACE


class ClientConnectionFields(Strict, frozen=True):
    """How to reach the API server, and rate limits; bayplan always uses JSON."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: int = 0


class ServiceFields(Strict, frozen=True):
    """The fields of a running scheduler."""

    leader_election: LeaderElectionFields = LeaderElectionFields()
    client_connection: ClientConnectionFields = ClientConnectionFields()
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    parallelism: int | None = None
    percentage_of_nodes_to_score: int | None = None
    extenders: list[Any] | None = None
    delay_cache_until_active: bool = False
    enable_profiling: bool = False
    enable_contention_profiling: bool = False


@dataclass(frozen=True, slots=True)
class LeaderElectionSettings:
    """Leader election as it is run."""

    enabled: bool
    lease_duration: float
    renew_deadline: float
    retry_period: float
    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """The effective connection; a `qps` of 0 means no client-side rate limit."""

    kubeconfig: str | None
    qps: float
    burst: int


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of a running scheduler beside its profiles."""

    leader_election: LeaderElectionSettings
    client: ClientConnection
    initial_backoff: float
    max_backoff: float
    notices: tuple[str, ...] = ()


def service_settings(written: ServiceFields) -> ServiceSettings:
    """The settings with defaults, in seconds. Raises `ArgumentError`, which begins with the field's path."""
    if written.extenders:
        raise ArgumentError("extenders: not supported: bayplan evaluates nodes itself")
    _check_backoff(written)
    return ServiceSettings(
        leader_election=_leader_election(written.leader_election),
        client=_client_connection(written.client_connection),
        initial_backoff=float(written.pod_initial_backoff_seconds),
        max_backoff=float(written.pod_max_backoff_seconds),
        notices=tuple(_notices(written)),
    )


def parse_duration(text: str, field: str) -> float:
    """Seconds of a duration in Go's form, such as 15s, 1m30s or 500ms."""
    pieces = _GO_DURATION.findall(text)
    if not pieces or "".join(pieces) != text:
        raise ArgumentError(f"{field}: {text!r} is not a duration; expected such as 15s, 1m30s or 500ms")
    return sum(float(piece.rstrip("hmsunµ")) * _SECONDS[piece.lstrip("0123456789.")] for piece in pieces)


def _check_backoff(written: ServiceFields) -> None:
    initial, longest = written.pod_initial_backoff_seconds, written.pod_max_backoff_seconds
    if initial < 1:
        raise ArgumentError(f"podInitialBackoffSeconds: {initial} is not allowed: must be 1 or more")
    if longest < initial:
        raise ArgumentError(
            f"podMaxBackoffSeconds: {longest} is not allowed: must be at least podInitialBackoffSeconds ({initial})"
        )


def _leader_election(written: LeaderElectionFields) -> LeaderElectionSettings:
    duration, deadline, retry = (
        _positive_duration(text, f"leaderElection.{field}")
        for field, text in (
            ("leaseDuration", written.lease_duration),
            ("renewDeadline", written.renew_deadline),
            ("retryPeriod", written.retry_period),
        )
    )
    if duration != int(duration):
        raise ArgumentError(
            f"leaderElection.leaseDuration: {written.lease_duration} is not allowed: a Lease counts whole seconds"
        )
    if duration <= deadline:
        raise ArgumentError(
            f"leaderElection.leaseDuration: {written.lease_duration} is not allowed: "
            f"must be longer than renewDeadline ({written.renew_deadline})"
        )
    if deadline <= RETRY_JITTER * retry:
        raise ArgumentError(
            f"leaderElection.renewDeadline: {written.renew_deadline} is not allowed: "
            f"must be longer than {RETRY_JITTER} times retryPeriod ({written.retry_period})"
        )
    if written.resource_lock != "leases":
        raise ArgumentError(f"leaderElection.resourceLock: {written.resource_lock!r} is not allowed: must be leases")
    if not written.resource_name:
        raise ArgumentError("leaderElection.resourceName: is empty: must be the name of a Lease")
    return LeaderElectionSettings(
        written.leader_elect,
        duration,
        deadline,
        retry,
        written.resource_name,
        written.resource_namespace or DEFAULT_LEASE_NAMESPACE,
    )


def _positive_duration(text: str, field: str) -> float:
    seconds = parse_duration(text, field)
    if seconds <= 0:
        raise ArgumentError(f"{field}: {text} is not allowed: must be longer than 0s")
    return seconds


def _client_connection(written: ClientConnectionFields) -> ClientConnection:
    """As in client-go, 0 means the default and a negative `qps` no limit."""
    if not math.isfinite(written.qps):
        raise ArgumentError(f"clientConnection.qps: {written.qps} is not allowed: must be a number")
    if written.burst < 0:
        raise ArgumentError(f"clientConnection.burst: {written.burst} is not allowed: must be 0 or more")
    kubeconfig = written.kubeconfig or None
    if written.qps < 0:
        return ClientConnection(kubeconfig, qps=0.0, burst=1)
    qps = written.qps or DEFAULT_QPS
    # A burst below one request would block everything; upstream's default is twice the rate.
    return ClientConnection(kubeconfig, qps, written.burst or (max(1, int(2 * qps)) if written.qps else DEFAULT_BURST))


def _notices(written: ServiceFields) -> list[str]:
    """Sentences about fields without effect."""
    notices = []
    if written.parallelism is not None:
        if written.parallelism < 1:
            raise ArgumentError(f"parallelism: {written.parallelism} is not allowed: must be 1 or more")
        notices.append("parallelism changes nothing: bayplan judges all nodes in one pass")
    percentage = written.percentage_of_nodes_to_score
    check_percentage(percentage, "percentageOfNodesToScore")
    if percentage not in (None, 100):
        notices.append("percentageOfNodesToScore changes nothing: bayplan always looks at every node")
    if written.delay_cache_until_active:
        notices.append(
            "delayCacheUntilActive changes nothing: a standby follows the cluster, so that it can take over at once"
        )
    if written.enable_profiling or written.enable_contention_profiling:
        notices.append("enableProfiling changes nothing: bayplan has no profiling endpoint")
    content_types = (written.client_connection.content_type, written.client_connection.accept_content_types)
    if any(name not in ("", "application/json") for name in content_types):
        notices.append("clientConnection.contentType and acceptContentTypes change nothing: bayplan speaks JSON")
    return notices


def check_percentage(percentage: int | None, field: str) -> None:
    """Reject an invalid percentage. The value has no effect: bayplan evaluates every node."""
    if percentage is not None and not 0 <= percentage <= 100:
        raise ArgumentError(f"{field}: {percentage} is not allowed: must be 0 to 100")
