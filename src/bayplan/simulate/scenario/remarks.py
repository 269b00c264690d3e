"""Properties of a scenario that are no errors, but that its author should know before the result comes as a surprise.

Input: a parsed scenario. Output: lines with file, line and key: labels that some nodes lack, levels that do not nest,
pods that arrive too late or that not even an empty node would take, demands that no scheduler judges. `reader.py` adds
them to the scenario.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import structs

from bayplan.cluster.pods.pod_class import PodClass, pod_class_of
from bayplan.cluster.pods.request import effective_request
from bayplan.cluster.reports.numa_policy import policy_remarks
from bayplan.cluster.state import ClusterState
from bayplan.dialects.pod_words import word_remarks
from bayplan.explain.amounts import count
from bayplan.explain.refusal import refusal_of
from bayplan.explain.topology.hostlist import hostlist
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.volcano_annotations import POLICY
from bayplan.kube.wire.core_v1 import Metadata, NodeSpec, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import Profile, default_profile
from bayplan.scheduling.remedies import some_node_takes
from bayplan.scheduling.shortfall import shortfall_of
from bayplan.simulate.kubelet.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
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
    """Workloads whose pods every node would refuse even if it were empty, and why."""
    state, profile = _empty_cluster(scenario.nodes), default_profile()
    known: dict[PodClass, str | None] = {}
    for workload in scenario.workloads:
        for pod in map(state.classes.of, workload.templates):
            if pod not in known:
                known[pod] = None if some_node_takes(state, pod, profile) else _why_nowhere(state, pod, profile)
            reason = known[pod]
            if reason is not None:
                yield workload.name, f"the pods of {workload.name} fit nowhere, not even on an empty node: {reason}"
                break


def _empty_cluster(nodes: tuple[SimulatedNode, ...]) -> ClusterState:
    """The nodes with the reports of their idle kubelets; those of equal nodes are made once."""
    state = ClusterState()
    known: list[tuple[SimulatedNode, NodeAgent, NodeResourceTopology]] = []
    for node in nodes:
        alike = (each for each in known if (each[0].machine, each[0].kubelet) == (node.machine, node.kubelet))
        entry = next(alike, None)
        if entry is None:
            agent = NodeAgent(node.name, VirtualKubelet(node.machine, node.kubelet))
            entry = node, agent, agent.topology(complete=True)
            known.append(entry)
        _, agent, report = entry
        metadata = Metadata(name=node.name, labels={HOSTNAME: node.name, **node.labels})
        spec = NodeSpec(unschedulable=node.unschedulable, taints=list(node.taints))
        state.set_node(structs.replace(agent.node, metadata=metadata, spec=spec))
        state.set_topology(structs.replace(report, metadata=Metadata(name=node.name)))
    return state


def _why_nowhere(state: ClusterState, pod: PodClass, profile: Profile) -> str:
    answer = ClassAnswers(state).for_class(pod, profile)
    found = shortfall_of(state, pod, profile, answer, most=0)
    return refusal_of(state, pod, profile, Decision("", None, shortfall=found), ()).sentence
