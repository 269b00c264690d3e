"""Properties of a scenario that are no errors, but that its author should know before the result comes as a surprise.

Input: a parsed scenario. Output: lines with file, line and key: labels that some nodes lack, levels that do not nest,
pods that arrive too late or that not even an empty node would take, demands that no scheduler judges. `reader.py` adds
them to the scenario.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from bayplan.cluster.pods.pod_class import PodClass, pod_class_of
from bayplan.cluster.pods.request import PodRequest, effective_request
from bayplan.cluster.reports.numa_policy import policy_remarks
from bayplan.cluster.state import ClusterState
from bayplan.dialects.pod_words import word_remarks
from bayplan.explain.amounts import count, human, usual_order
from bayplan.explain.topology.hostlist import hostlist
from bayplan.kube.volcano_annotations import POLICY
from bayplan.kube.wire.core_v1 import Metadata, Node, NodeSpec, Pod
from bayplan.scheduling.profile import PASSES, default_profile
from bayplan.simulate.kubelet.kubelet import VirtualKubelet
from bayplan.simulate.scenario.lines import Section, SourcePosition, described
from bayplan.simulate.scenario.model import Scenario, SimulatedNode, Workload
from bayplan.simulate.scenario.pods import PRIORITY_CLASSES


def remarks_on(scenario: Scenario, section: Section, places: Mapping[str, SourcePosition]) -> tuple[str, ...]:
    """All remarks; `places` tells where each workload stands."""
    found = [*_levels(scenario, section), *_unknown_classes(section)]
    if not scenario.workloads:
        found.append((section.written.place, "nothing arrives: there are neither workloads nor a trace"))
    for workload in scenario.workloads:
        texts = (*_late(scenario, workload), *_held_back(workload), *_without_effect(workload))
        found += [(places[workload.name], text) for text in texts]
    found += [(places[name], text) for name, text in _without_a_home(scenario)]
    return tuple(f"{place}: {text}" for place, text in sorted(found, key=lambda remark: remark[0].line))


def _levels(scenario: Scenario, section: Section) -> Iterator[tuple[SourcePosition, str]]:
    """Every node should have every level."""
    for index, level in enumerate(scenario.levels):
        without = [node.name for node in scenario.nodes if level not in node.labels]
        if without:
            text = f"nodes {hostlist(without)} have no label {level}: they belong to nothing at this level"
            yield section.written.at(f"levels[{index}]").place, text


def _unknown_classes(section: Section) -> Iterator[tuple[SourcePosition, str]]:
    """What a PriorityClass means stands in the cluster that the pod was copied from."""
    workloads = section.get("workloads")
    for workload in workloads.content if workloads is not None and isinstance(workloads.content, list) else ():
        pod = workload.at("pod").content
        named = pod.get("priorityClassName") if isinstance(pod, dict) and "priority" not in pod else None
        if named is not None and named.content is not None and named.content not in PRIORITY_CLASSES:
            yield (
                named.place,
                f"{described(named)} counts as priority 0: what the class means is not known here, say priority",
            )


def _late(scenario: Scenario, workload: Workload) -> Iterator[str]:
    late = sum(member.arrives > scenario.lasts for member in workload.members)
    if late:
        pods = count(len(workload.members), "pod")
        yield f"{late} of the {pods} of {workload.name} would arrive after the end (lasts {scenario.lasts:g}s)"


def _held_back(workload: Workload) -> Iterator[str]:
    """Demands that no scheduler here can judge, and gates that are never opened."""
    for demand in dict.fromkeys(each for pod in workload.templates for each in pod_class_of(pod).not_understood):
        yield f"the pods of {workload.name} will wait: {demand} is not supported here"
    for field in dict.fromkeys(each for pod in workload.templates for each in claims_of(pod)):
        yield f"the pods of {workload.name} will wait: {field} is not supported here"
    if any(pod.spec.scheduling_gates for pod in workload.templates):
        yield f"the pods of {workload.name} will wait: scheduling gates stay closed here"


def claims_of(pod: Pod) -> Iterator[str]:
    """The fields by which a pod asks for claims, which no simulation has."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield "spec.volumes[].persistentVolumeClaim"
        elif volume.ephemeral is not None:
            yield "spec.volumes[].ephemeral"


def _without_effect(workload: Workload) -> Iterator[str]:
    """What the pods ask for by labels and annotations, and will not get: a topology policy in Volcano's way, a gang."""
    for text in dict.fromkeys(
        each.text for pod in workload.templates for each in policy_remarks(pod, effective_request)
    ):
        yield f"annotation {POLICY} of the pods of {workload.name}: {text}"
    words = (each for pod in workload.templates for each in word_remarks(pod))
    for text in dict.fromkeys(f"{each.at.field} of the pods of {workload.name}: {each.text}" for each in words):
        yield text


def _without_a_home(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Workloads whose pods every node would refuse even if it were empty, with the best reason for it."""
    nodes = _EmptyNodes(scenario.nodes)
    known: dict[PodClass, str | None] = {}
    for workload in scenario.workloads:
        for pod in map(nodes.state.classes.of, workload.templates):
            if pod not in known:
                known[pod] = nodes.why_nowhere(pod)
            reason = known[pod]
            if reason is not None:
                yield workload.name, f"the pods of {workload.name} fit nowhere, not even on an empty node: {reason}"
                break


class _EmptyNodes:
    """All nodes with their labels and taints, and one of every kind of machine and kubelet."""

    def __init__(self, nodes: tuple[SimulatedNode, ...]) -> None:
        self.state = ClusterState()
        self._profile = default_profile()
        self._kinds: list[SimulatedNode] = []
        self._kind_of_row: dict[int, int] = {}
        for node in nodes:
            spec = NodeSpec(unschedulable=node.unschedulable, taints=list(node.taints))
            row = self.state.set_node(Node(metadata=Metadata(name=node.name, labels=dict(node.labels)), spec=spec))
            self._kind_of_row[row] = self._kind(node)

    def _kind(self, node: SimulatedNode) -> int:
        for index, kind in enumerate(self._kinds):
            if (kind.machine, kind.kubelet) == (node.machine, node.kubelet):
                return index
        self._kinds.append(node)
        return len(self._kinds) - 1

    def why_nowhere(self, pod: PodClass) -> str | None:
        """Why no node takes a pod, None if one does: schedulers look at labels and taints, kubelets at amounts."""
        profile = self._profile
        rows = slice(0, self.state.columns.size)
        found = profile.for_class(pod).blocked_by_node(self.state, rows)
        blocked = [PASSES] * rows.stop if found is None else found.tolist()
        open_kinds = {self._kind_of_row[row] for row, number in enumerate(blocked) if number == PASSES}
        closed = Counter(profile.cause(pod, number)[1] for number in blocked if number != PASSES)
        reasons = [f"{nodes} {cause}" for cause, nodes in closed.items()]
        if open_kinds or not closed:
            kinds = [self._kinds[index] for index in sorted(open_kinds)]
            refusal = _why_refused(pod.request, kinds, "no other node" if closed else "no node")
            if refusal is None:
                return None
            reasons.append(refusal)
        return "; ".join(reasons)


def _why_refused(request: PodRequest, kinds: list[SimulatedNode], none: str) -> str | None:
    """Why kubelets refuse a pod, None if one of them does not.

    The refusal of a node that has enough in sum says most.
    """
    refusals = []
    most: dict[str, int] = {}
    for kind in kinds:
        kubelet = VirtualKubelet(kind.machine, kind.kubelet)
        admission = kubelet.admit("pod", request)
        has_enough = all(kubelet.allocatable.get(name, 0) >= amount for name, amount in request.total.items())
        if admission.admitted and has_enough:
            return None
        if has_enough:
            refusals.append(f"{kind.name} refuses them with {admission.reason}: {admission.message}")
        for resource, amount in kubelet.allocatable.items():
            most[resource] = max(amount, most.get(resource, 0))
    if refusals:
        return refusals[0]
    for resource in usual_order(request.total):
        want, have = request.total[resource], most.get(resource, 0)
        if want > have:
            limit = f"{none} has more than {human(resource, have)}" if have else f"{none} has any"
            return f"they ask for {resource} {human(resource, want)}, and {limit}"
    return f"{none} has all that they ask for at once"
