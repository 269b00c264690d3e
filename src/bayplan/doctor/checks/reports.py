"""Reports of nodes: missing, stale, contradictory, and at odds with the kubelet or with the pods on the node."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan import __version__
from bayplan.cluster.pods.request import AmountError, amount_of
from bayplan.cluster.reports.fingerprint import fingerprint_of
from bayplan.cluster.reports.inventory import AGENT_VERSION
from bayplan.cluster.reports.kubelet_settings import REFUSING_POLICIES
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.cluster.reports.two_reports import STALE_AFTER
from bayplan.doctor.findings import Finding, error, note, warning
from bayplan.doctor.installation import Installation, shown_pod
from bayplan.engine.kubelet.verdict import TOPOLOGY_AFFINITY_ERROR
from bayplan.explain.amounts import human
from bayplan.explain.overview.nodes import refusal_reason
from bayplan.explain.pod_view import duration
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES
from bayplan.kube.times import moment_of
from bayplan.kube.wire.core_v1 import Node

# Pods that came or went so recently need not be in the report yet.
SETTLED_AFTER = 60.0  # seconds


def check_missing_reports(installation: Installation) -> Iterator[Finding]:
    """Every node has a report, and every report a node."""
    served = installation.served.get(NODE_RESOURCE_TOPOLOGIES)
    if served is None or served.readable is None:
        return  # the check of kinds says so
    nodes = [node.metadata.name for node in installation.objects.nodes]
    without = [name for name in nodes if name not in installation.reports]
    agents = f"kubectl -n {installation.names.agent_namespace} get pods -o wide"
    if nodes and len(without) == len(nodes):
        yield warning(
            "no node has a report: pods are placed as if nodes had no NUMA zones",
            "Install node agents: kubectl apply -k deploy/agent, or the chart with agent.enabled=true",
        )
    elif without:
        yield warning(
            f"{len(without)} of {len(nodes)} nodes have no report: their NUMA zones are unknown",
            f"Check that an agent runs there and can write: {agents}",
            *(f"node/{name}" for name in without),
        )
    orphans = sorted(installation.reports.keys() - set(nodes))
    if orphans:
        yield warning(
            "there are reports of nodes that do not exist",
            "Run bayplan agent-gc, which deletes them, or: kubectl delete noderesourcetopologies NAME",
            *(f"noderesourcetopology/{name}" for name in orphans),
        )


def check_stale_reports(installation: Installation) -> Iterator[Finding]:
    """Agents renew their reports."""
    stale, ages = [], []
    for node, report in installation.reports.items():
        if report.made_at is not None and (report.marked_stale or installation.now - report.made_at > STALE_AFTER):
            stale.append(f"node/{node}")
            ages.append(installation.now - report.made_at)
    if stale:
        yield error(
            f"reports have not been renewed, for up to {duration(int(max(ages)))}",
            f"Check the agents on these nodes: kubectl -n {installation.names.agent_namespace} get pods -o wide; "
            "/readyz?verbose of an agent says what keeps it from reporting.",
            *stale,
        )


def check_contents(installation: Installation) -> Iterator[Finding]:
    """Reports can be used, and do not contradict their Node."""
    unusable = [node for node, report in installation.reports.items() if not report.usable or not report.tells_enough]
    if unusable:
        why = [str(each) for node in unusable for each in installation.reports[node].remarks[:1]]
        why += [str(each) for each in installation.objects.left_out if NODE_RESOURCE_TOPOLOGIES.kind in str(each)]
        yield error(
            "reports cannot be used; pods that need alignment are not placed on these nodes" + _first(why),
            "Correct or restart what writes them; an event InvalidTopology on the node has the reason in full.",
            *(f"node/{node}" for node in unusable),
        )
    odd = [node for node, report in installation.reports.items() if report.remarks and node not in unusable]
    if odd:
        why = [str(installation.reports[node].remarks[0]) for node in odd]
        yield warning(
            "parts of reports are ignored" + _first(why),
            "Correct or upgrade what writes them.",
            *(f"node/{node}" for node in odd),
        )
    contradictory: dict[str, list[str]] = {}
    for node in installation.objects.nodes:
        report = installation.reports.get(node.metadata.name)
        for contradiction in _contradictions(node, report) if report is not None and report.usable else ():
            contradictory.setdefault(contradiction, []).append(f"node/{node.metadata.name}")
    for contradiction, nodes in contradictory.items():
        yield error(
            f"the report contradicts the Node: {contradiction}",
            "The report is of another machine or of before a change of hardware: restart the agent on the node.",
            *nodes,
        )


def check_policies(installation: Installation) -> Iterator[Finding]:
    """Kubelets refuse no pods, least of all for a policy that their report denies."""
    by_reason: dict[tuple[str, bool], dict[str, list[str]]] = {}
    for pod in installation.objects.pods:
        reason, node = refusal_reason(pod), pod.spec.node_name
        if not reason or not node:
            continue
        report = installation.reports.get(node)
        denied = (
            reason == TOPOLOGY_AFFINITY_ERROR
            and report is not None
            and report.readable
            and report.settings.policy not in REFUSING_POLICIES
        )
        ours = pod.spec.scheduler_name in installation.profiles
        if denied or ours:
            by_reason.setdefault((reason, denied), {}).setdefault(f"node/{node}", []).append(shown_pod(pod))
    for (reason, denied), found in by_reason.items():
        pods = sum(map(len, found.values()))
        if denied:
            policies = {installation.reports[node.removeprefix("node/")].settings.policy.text for node in found}
            yield error(
                f"kubelets refused {pods} pods with {reason}, which their reported policy "
                f"({', '.join(sorted(policies))}) "
                "never does",
                "The report names another Topology Manager policy than the kubelet runs with: restart the agent, and "
                "check its --kubelet-config and --kubelet-flags.",
                *found,
            )
        else:
            yield warning(
                f"kubelets refused {pods} pods that bayplan had placed, with {reason}",
                "See whether the reports of these nodes are late or another scheduler uses the nodes "
                "(docs/troubleshooting.md), then delete the failed pods.",
                *found,
            )


def check_fingerprints(installation: Installation) -> Iterator[Finding]:
    """A report's fingerprint stands for the pods on the node, once those have settled."""
    found = []
    for node, report in installation.reports.items():
        if not report.fingerprint or report.only_exclusive:
            continue  # which pods hold something exclusively, only the kubelet knows for certain
        pods = installation.running_by_node.get(node, [])
        changed = [_changed_at(each.metadata.creation_timestamp) for each in pods]
        if any(installation.now - moment < SETTLED_AFTER for moment in changed):
            continue
        names = [(each.metadata.namespace or "", each.metadata.name) for each in pods]
        if fingerprint_of(names) != report.fingerprint:
            found.append(f"node/{node}")
    if found:
        yield warning(
            "fingerprints of reports do not match the pods on the node, though no pod is new",
            "The agent sees other pods than the API server: check that one agent runs per node, that it reaches the "
            "kubelet's podresources socket, and that both use the same fingerprint method.",
            *found,
        )


def check_agents(installation: Installation) -> Iterator[Finding]:
    """Agents are of the doctor's version."""
    by_version: dict[str, list[str]] = {}
    for topology in installation.objects.topologies:
        for attribute in topology.attributes or ():
            if attribute.name == AGENT_VERSION and attribute.value != __version__:
                by_version.setdefault(attribute.value, []).append(f"node/{topology.metadata.name}")
    for version, nodes in sorted(by_version.items()):
        older = _numbers(version) < _numbers(__version__)
        severity = warning if older else note
        yield severity(
            f"agents are of version {version}; this is {__version__}",
            "Upgrade the DaemonSet's image." if older else "Use a bayplan of the agents' version.",
            *nodes,
        )


def _contradictions(node: Node, report: TopologyReport) -> Iterator[str]:
    """Resources of which the Node lets pods have more than all zones of its report hold."""
    for name, written in (node.status.allocatable or {}).items():
        amounts = [zone.resources[name] for zone in report.zones if name in zone.resources]
        if not amounts:
            continue
        try:
            allocatable = amount_of(name, written)
        except AmountError:
            continue
        total = sum(max(each.capacity, each.allocatable) for each in amounts)
        if allocatable > total:
            yield f"{name} {human(name, allocatable)} allocatable, {human(name, total)} in all zones"


def _changed_at(created: str | None) -> float:
    moment = moment_of(created or "")
    return moment.timestamp() if moment is not None else 0.0


def _first(reasons: list[str]) -> str:
    return f": {reasons[0]}" if reasons else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
