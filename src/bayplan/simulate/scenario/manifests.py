"""Workloads of a scenario that are written as Kubernetes has them: `manifest: train.yaml`, or the object itself.

    workloads:
    - {manifest: ../workloads/pytorchjob.yaml, arrive: 10s, runs: 5m}
    - manifest: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {...}}

Pods and gangs are made as for `bayplan place` (`workloads/`); the tree is that of the scenario's `levels`. Out come
`Workload`s as `workloads.py` makes them, and remarks about objects that are not simulated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.dialects.own.members import POD_GROUP
from bayplan.grouping.group import GroupingSettings, with_rules
from bayplan.grouping.raw import Reference
from bayplan.grouping.rules import rules_of
from bayplan.kube.errors import InvalidObject
from bayplan.kube.files import read_document, read_objects
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.priority_classes import PriorityClasses
from bayplan.kube.wire import volcano_batch_v1alpha1
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup, PodShape
from bayplan.kube.wire.core_v1 import Metadata, Node, NodeSpec, Pod
from bayplan.simulate.scenario.arrivals import arrivals, chance, run_times
from bayplan.simulate.scenario.lines import Section, Wrong, YamlValue
from bayplan.simulate.scenario.model import JOB_BACKOFF_LIMIT, GangPattern, Kind, ScenarioPod, SimulatedNode, Workload
from bayplan.simulate.scenario.values import name, text, whole_number
from bayplan.workloads.kinds import kind_of
from bayplan.workloads.plan import Beside, WorkloadPlan, admitted, plan_of, with_names
from bayplan.workloads.planned import Around

KEY = "manifest"
KEYS = (KEY, "namespace", "arrive", "runs", "backoffLimit")
OBJECT_KEYS = ("apiVersion", "kind", "metadata", "spec")
# Kinds whose pods run until something is done, and are given up after a number of attempts.
RUN_TO_END = frozenset(
    {"Job", "CronJob", "JobSet", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob", "RayJob"}
)


def is_manifest(written: YamlValue) -> bool:
    """Whether an entry of `workloads` is an object of Kubernetes, or names a file of them."""
    return isinstance(written.content, dict) and bool({KEY, "apiVersion"} & set(written.content))


@dataclass
class Manifests:
    """Turns manifests of one scenario into workloads; `remarks` are about what is not simulated."""

    nodes: Sequence[SimulatedNode]
    seed: int
    settings: GroupingSettings = field(default_factory=GroupingSettings)
    remarks: list[str] = field(default_factory=list)

    def add_rules(self, written: YamlValue) -> None:
        """Take the rules of a file that is meant from the scenario's folder."""
        file = written.place.file.parent / text(written)
        try:
            self.settings = with_rules(self.settings, rules_of(read_document(file), str(file)))
        except InvalidObject as error:
            raise Wrong(str(error)) from None

    def workloads_of(self, written: YamlValue) -> list[Workload]:
        """The workloads of an entry with a manifest."""
        is_object = "apiVersion" in (written.content if isinstance(written.content, dict) else {})
        section = Section(written, (*OBJECT_KEYS, *KEYS[1:]) if is_object else KEYS)
        manifest = written if is_object else section.get(KEY)
        if manifest is None:
            raise Wrong(f"{KEY}: is missing")
        home = section.take("namespace", name, "default")
        is_inline = isinstance(manifest.content, dict)
        faults = len(written.faults.found)
        try:
            plans = self._planned_inline(manifest, home) if is_inline else self._planned_file(manifest, home)
        except Wrong as error:
            manifest.wrong(str(error))
            return []
        found = [each for plan in plans for each in self._workloads(section, plan)]
        if not found and len(written.faults.found) == faults:
            manifest.wrong("holds no workload with pods")
        return found

    def _planned_inline(self, written: YamlValue, home: str) -> list[WorkloadPlan]:
        """The object that stands in the scenario; what is wrong with it is noted at its line."""
        thing = {key: value for key, value in written.plain().items() if key in (*OBJECT_KEYS, "status")}
        try:
            return [self._plan(thing, home, KubernetesWorkloads(), PriorityClasses())]
        except InvalidObject as error:
            written.at(error.at.field).wrong(f"{error.at.field}: {error.problem}")
            return []

    def _planned_file(self, written: YamlValue, home: str) -> list[WorkloadPlan]:
        """The objects of a file that is meant from the scenario's folder."""
        path = written.place.file.parent / text(written)
        try:
            objects = read_objects(path)
            for file, document in objects.rule_documents:
                self.settings = with_rules(self.settings, rules_of(document, str(file)))
            return self._planned(objects, path, written, home)
        except InvalidObject as error:
            raise Wrong(str(error)) from None

    def _planned(self, objects: ObjectSet, path: Path, written: YamlValue, home: str) -> list[WorkloadPlan]:
        things = [each.decoded() for each in objects.others]
        things += [
            {"apiVersion": volcano_batch_v1alpha1.API_VERSION, "kind": "Job", **_said(msgspec.to_builtins(job))}
            for job in objects.volcano_jobs
        ]
        known = [thing for thing in things if kind_of(Reference.of(thing), self.settings.rules) is not None]
        unused = Counter(thing["kind"] for thing in things if thing not in known)
        unused += Counter(type(each).__name__ for each in _not_simulated(objects))
        if unused:
            kinds = ", ".join(f"{kind} ({number})" for kind, number in sorted(unused.items()))
            self.remarks.append(f"{written.place}: not simulated: {kinds} of {path}")
        about = KubernetesWorkloads.of(objects.kubernetes_workloads, home)
        classes = PriorityClasses(objects.priority_classes)
        return [self._plan(thing, home, about, classes) for thing in known]

    def _plan(
        self, thing: dict[str, Any], home: str, about: KubernetesWorkloads, classes: PriorityClasses
    ) -> WorkloadPlan:
        around = Around(self.settings.rules, self._state())
        plan = plan_of(with_names(thing, home), around, self.settings, Beside(workloads=about))
        unknown = dict.fromkeys(problem for each in plan.members if (problem := classes.problem(each.pod.spec)))
        effect = "its pods count as priority 0; add the class to the file, or set priority"
        if plan.suspended:
            self.remarks.append(f"{plan.about}: {plan.suspended}: true: simulated as if it were resumed")
        self.remarks += [*plan.remarks, *(f"{plan.about}: {problem}; {effect}" for problem in unknown)]
        return admitted(plan, classes)

    def _state(self) -> ClusterState:
        """The nodes, for DaemonSets."""
        state = ClusterState()
        for node in self.nodes:
            spec = NodeSpec(unschedulable=node.unschedulable, taints=list(node.taints))
            state.set_node(Node(metadata=Metadata(name=node.name, labels=dict(node.labels)), spec=spec))
        return state

    def _workloads(self, section: Section, plan: WorkloadPlan) -> list[Workload]:
        """Gangs of one shape are one workload, and the pods that stand alone another."""
        gangs = {gang.metadata.name: gang for gang in plan.gangs}
        by_gang: dict[str, list[Pod]] = {}
        for member in plan.members:
            by_gang.setdefault((member.pod.metadata.labels or {}).get(POD_GROUP, ""), []).append(member.pod)
        alone = by_gang.pop("", [])
        in_gangs = [pod for pods in by_gang.values() for pod in pods]
        found = []
        if in_gangs:
            first, pods = next(iter(by_gang.items()))
            found.append(self._workload(section, plan, plan.about.name, in_gangs, _together(gangs[first], pods)))
        if alone:
            called = f"{plan.about.name}-alone" if in_gangs else plan.about.name
            found.append(self._workload(section, plan, called, alone, None))
        return found

    def _workload(
        self, section: Section, plan: WorkloadPlan, called: str, pods: Sequence[Pod], together: GangPattern | None
    ) -> Workload:
        ends = plan.about.kind in RUN_TO_END
        for key in ("runs", "backoffLimit"):
            value = section.get(key)
            if value is not None and not ends:
                value.wrong(f"is for jobs only: pods of a {plan.about.kind} run until the end")
        number, chosen = len(pods), f"{plan.about.namespace}/{called}"
        no_end: list[float | None] = [None] * number
        moments = section.take(
            "arrive", lambda value: arrivals(value, number, chance(self.seed, chosen, "arrivals")), [0.0] * number
        )
        times = section.take(
            "runs", lambda value: run_times(value, number, chance(self.seed, chosen, "run times")), no_end
        )
        members = [
            ScenarioPod(moment, time, pod, pod.metadata.name)
            for moment, time, pod in zip(moments, times, pods, strict=True)
        ]
        return Workload(
            name=called,
            kind=Kind.JOB if ends else Kind.REPLICA_SET,
            template=pods[0],
            members=tuple(members),
            backoff_limit=section.take("backoffLimit", whole_number(0, 1_000_000), JOB_BACKOFF_LIMIT),
            together=together,
            written_as=plan.about.kind,
        )


def _together(gang: PodGroup, pods: Sequence[Pod]) -> GangPattern:
    """The gang in the one tree of the scenario, whatever tree the workload names."""
    spec = msgspec.structs.replace(gang.spec, topology="", pod=PodShape(spec=pods[0].spec))
    return GangPattern(spec, len(pods))


def _not_simulated(objects: ObjectSet) -> Iterable[object]:
    """Objects of a manifest's file that decisions elsewhere are made from, and that a scenario
    says in its own words.
    """
    yield from objects.pods
    yield from objects.gangs
    yield from objects.other_gangs
    yield from objects.nodes
    yield from objects.levels
    yield from objects.hyper_nodes
    yield from objects.topologies
    yield from objects.numatopologies
    yield from objects.namespaces


def _said(content: Any) -> Any:
    """A struct's fields without those that are not set."""
    if isinstance(content, dict):
        return {key: _said(value) for key, value in content.items() if value is not None}
    return [_said(each) for each in content] if isinstance(content, list) else content
