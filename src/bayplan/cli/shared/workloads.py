"""Workloads for the commands: which objects of `-f` and of the cluster own pods, and what pods and gangs they are.

`take_workloads` puts the pods and PodGroups of every workload of `-f` among the objects, so that a command places them
like any others. What no pods can be made of is named in a remark, with the way to write a rule for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from bayplan.cli.shared.admission import admit_plan
from bayplan.cli.shared.output import warn
from bayplan.cli.shared.session import ClusterSession
from bayplan.cluster.state import pod_key
from bayplan.dialects.dialect import full_name
from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.dialects.registry import key_of
from bayplan.explain.topology.hostlist import hostlist
from bayplan.gangs.closeness import unbound
from bayplan.grouping.group import GroupingSettings, with_rules
from bayplan.grouping.grouping import INVALID_GROUP
from bayplan.grouping.raw import RawObject, Reference, raw_pod
from bayplan.grouping.rules import rules_of
from bayplan.kube.errors import InvalidObject, ObjectPath, did_you_mean
from bayplan.kube.object_set import READ_LATER, MadeFrom, ObjectSet, OtherObject
from bayplan.kube.validation.submitted import pod_templates
from bayplan.kube.wire.core_v1 import Pod
from bayplan.workloads.existing import OwnerIndex, owner_of
from bayplan.workloads.grouped import Grouped, group_pods
from bayplan.workloads.held import is_kueue_workload
from bayplan.workloads.kinds import every_kind, kind_of, known_kinds
from bayplan.workloads.plan import Beside, WorkloadPlan, plan_of, with_names
from bayplan.workloads.planned import Around

# Kinds whose pods only their controllers know: who makes them, and what to give instead.
INSTEAD = {
    ("argoproj.io", "CronWorkflow"): ("Argo Workflows", "the pods of its steps"),
    ("argoproj.io", "Rollout"): ("Argo Rollouts", "its ReplicaSets"),
    ("argoproj.io", "Workflow"): ("Argo Workflows", "the pods of its steps"),
    ("flink.apache.org", "FlinkDeployment"): ("the Flink operator", "its Deployments"),
    ("grove.io", "PodCliqueSet"): ("Grove", "its pods and their PodGangs"),
    ("kubevirt.io", "VirtualMachine"): ("KubeVirt", "its virt-launcher pod"),
    ("machinelearning.seldon.io", "SeldonDeployment"): ("Seldon", "its Deployments"),
    ("nvidia.com", "DynamoGraphDeployment"): ("Dynamo", "its Deployments, or its pods and their PodGangs"),
    ("serving.knative.dev", "Service"): ("Knative", "its Revisions"),
    ("serving.kserve.io", "InferenceService"): ("KServe", "its Deployments"),
    ("serving.kserve.io", "LLMInferenceService"): ("KServe", "its Deployments or LeaderWorkerSets"),
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): ("Spark", "its driver and executor pods"),
    ("sparkoperator.k8s.io", "SparkApplication"): ("Spark", "its driver and executor pods"),
    ("tekton.dev", "PipelineRun"): ("Tekton", "its pods"),
    ("tekton.dev", "TaskRun"): ("Tekton", "its pod"),
    ("trainer.kubeflow.org", "TrainJob"): ("the trainer by its runtime", "its JobSet"),
    ("workload.codeflare.dev", "AppWrapper"): ("the workloads in it", "these"),
}
OWNERS_NAMED = 3
_Key = tuple[str, str, str, str]
_ALIKE = 0.85  # kinds are short: a Service is no RayService
HOW_TO_RULE = "other kinds need a rule (--grouping-rules FILE, see docs/pod-grouper.md)"


class Workloads:
    """The workloads of a session's cluster and of `-f`, with what their controllers would look at."""

    def __init__(self, session: ClusterSession, work: ObjectSet | None = None, namespace: str | None = None) -> None:
        self._session = session
        self._home = namespace or "default"
        objects = ObjectSet() if work is None else work
        self.settings = grouping_with(session, objects)
        self._in_cluster = _decoded(session.objects.others, "default", self.settings)
        self._in_files = _decoded(objects.others, self._home, self.settings)
        self._beside = Beside(
            pods=[*session.objects.pods, *_only_in_files(session, objects)],
            # An object that exists says more about itself than the file about it: its uid and status.
            owners=OwnerIndex([*self._in_files.values(), *self._in_cluster.values()]),
            workloads=KubernetesWorkloads.of(
                [*session.objects.kubernetes_workloads, *objects.kubernetes_workloads], self._home
            ),
        )
        self._around = Around(self.settings.rules, session.state)
        self._classes, self._source = session.priority_classes(objects), session.source
        written = {key_of(each).rpartition(" ")[2] for each in (*session.objects.gangs, *objects.gangs)}
        # Gangs that were made of the owners of pods are those of the workloads themselves.
        self._taken = written - session.grouped.names

    @property
    def in_cluster(self) -> list[RawObject]:
        """The workloads of the cluster."""
        return list(self._in_cluster.values())

    @property
    def owners(self) -> OwnerIndex:
        """Everything that may own pods."""
        return self._beside.owners

    def plans(self, work: ObjectSet) -> Iterator[WorkloadPlan]:
        """The plan of each workload of `-f` that no other workload of `-f` owns."""
        own = OwnerIndex(self._in_files.values())
        seen: set[Reference] = set()
        for other in work.others:
            thing = self._in_files.get(id(other))
            if thing is None:
                continue
            above = owner_of(thing)
            if above is not None and own.above(above):
                continue
            try:
                _refuse_twice(Reference.of(thing), seen)
                yield self.plan(thing, submitted=True)
            except InvalidObject as error:
                raise work.naming_the_file_of(error, other) from None

    def plan(self, thing: RawObject, *, submitted: bool = False) -> WorkloadPlan:
        """The plan of one workload of the cluster or, `submitted`, of `-f`.

        If another gang has its name, the kind becomes part of the name.
        """
        planned = plan_of(thing, self._around, self.settings, self._beside)
        if not planned.about.uid and self._names(planned) & self._taken:
            metadata = {**thing["metadata"], "uid": planned.about.kind.lower()}
            planned = plan_of({**thing, "metadata": metadata}, self._around, self.settings, self._beside)
        self._taken |= self._names(planned)
        planned = admit_plan(planned, self._classes, self._source, submitted=submitted)
        warn(list(planned.remarks))
        if submitted and planned.suspended:
            what = "no pods are created until it is resumed; planned as if it were"
            warn([f"{planned.about}: {planned.suspended}: true: {what}"])
        return planned

    @staticmethod
    def _names(plan: WorkloadPlan) -> set[str]:
        return {key_of(gang).rpartition(" ")[2] for gang in plan.gangs}


def group_by_owners(objects: ObjectSet, settings: GroupingSettings) -> Grouped:
    """Put the pods of a cluster into the gangs that their owners mean, as the pod grouper does,
    and the PodGroups among the objects.
    """
    found = _grouped(objects.pods, settings, [(objects, "default")])
    objects.pods = found.pods
    objects.gangs += found.gangs
    objects.origins |= found.origins
    return found


def group_files_by_owners(
    session: ClusterSession, work: ObjectSet, plans: Iterable[WorkloadPlan], namespace: str | None
) -> None:
    """The same for the pods of `-f` that no workload there wants: their owners may be in the cluster.

    What is wrong with the annotations of a pod of `-f` is an error, as it is for a workload.
    """
    planned = {pod_key(member.pod) for plan in plans for member in plan.members}
    pods = [pod for pod in work.pods if pod_key(pod) not in planned]
    parts = [(session.objects, "default"), (work, namespace or "default")]
    found = _grouped(pods, grouping_with(session, work), parts)
    for pod in pods:
        for problem in found.problems.get(pod_key(pod), ()):
            if problem.holds or (problem.about.kind == "Pod" and problem.reason == INVALID_GROUP):
                raise work.naming_the_file(problem.as_error(), pod)
    grouped = {pod_key(pod): pod for pod in found.pods}
    work.pods = [grouped.get(pod_key(pod), pod) for pod in work.pods]
    work.gangs += found.gangs
    work.origins |= found.origins
    warn_of_owners(found, pods, f"{session.source} or -f")


def _grouped(pods: Sequence[Pod], settings: GroupingSettings, parts: Sequence[tuple[ObjectSet, str]]) -> Grouped:
    """Pods, grouped by their owners in all parts, each with its default namespace."""
    written = {key_of(each).rpartition(" ")[2] for part, _ in parts for each in part.gangs}
    beside = Beside(
        pods=pods,
        owners=OwnerIndex(thing for part, home in parts for thing in _owners_in(part, home, settings)),
        workloads=KubernetesWorkloads.of(each for part, _ in parts for each in part.kubernetes_workloads),
    )
    return group_pods(beside, settings, written)


def warn_of_owners(grouped: Grouped, pods: Iterable[Pod], source: str) -> None:
    """Say of pods what is wrong with their owners' annotations, and which owners are not known:
    of many the first few.
    """
    told, missing = dict[str, None](), dict[str, None]()
    for pod in pods:
        key = pod_key(pod)
        told |= {str(problem): None for problem in grouped.problems.get(key, ()) if not problem.holds}
        if key in grouped.missing:
            missing[str(grouped.missing[key])] = None
    warn(list(told))
    named = ", ".join(list(missing)[:OWNERS_NAMED])
    if len(missing) == 1:
        warn([f"{named} is not in the {source}: its topology annotations are unknown"])
    elif missing:
        more = f" and {len(missing) - OWNERS_NAMED} more" if len(missing) > OWNERS_NAMED else ""
        warn([f"{len(missing)} owners are not in the {source} ({named}{more}): their topology annotations are unknown"])


def _only_in_files(session: ClusterSession, work: ObjectSet) -> list[Pod]:
    """Pods of `-f` that the cluster does not have: they run nowhere, whatever node they name."""
    known = {pod_key(pod) for pod in session.objects.pods}
    found = [pod for pod in work.pods if pod_key(pod) not in known]
    bound = [pod_key(pod) for pod in found if pod.spec.node_name and pod.metadata.owner_references]
    if bound:
        told = f"pods {hostlist(bound)} of -f name a node, but the {session.source} does not have them"
        warn([f"{told}: those of workloads are placed anew"])
    return [unbound(pod) if pod.metadata.owner_references else pod for pod in found]


def grouping_with(session: ClusterSession, work: ObjectSet) -> GroupingSettings:
    """How workloads become gangs, with the rules that `-f` holds."""
    settings = session.grouping
    for source, document in work.rule_documents:
        settings = with_rules(settings, rules_of(document, str(source)))
    return settings


def take_workloads(session: ClusterSession, work: ObjectSet, namespace: str | None) -> list[WorkloadPlan]:
    """Put the pods and PodGroups of the workloads of `-f` among its objects.

    Pods that exist are not made again: those that wait are placed, those that run count as they are.
    """
    workloads = Workloads(session, work, namespace)
    plans = list(workloads.plans(work))
    members = {pod_key(member.pod): member for plan in plans for member in plan.members}
    work.pods = [pod for pod in work.pods if pod_key(pod) not in members]
    work.pods += [each.pod for each in members.values() if each.is_new or not each.pod.spec.node_name]
    session.objects.pods = [
        members[key].pod if (key := pod_key(pod)) in members else pod for pod in session.objects.pods
    ]
    _take_gangs(work, plans, namespace)
    _take_topologies(session, work)
    return plans


def _take_topologies(session: ClusterSession, work: ObjectSet) -> None:
    """The Topologies of `-f`, which come with the workloads; one that the cluster has counts as it is there."""
    known = {(each.system, each.metadata.name): each.spec for each in session.objects.levels}
    for each in work.levels:
        name = each.metadata.name
        if (each.system, name) not in known:
            session.objects.levels.append(each)
        elif known[each.system, name] != each.spec:
            warn([f"Topology {name} of -f is not used: the {session.source} has one of that name with other levels"])


def _take_gangs(work: ObjectSet, plans: Iterable[WorkloadPlan], namespace: str | None) -> None:
    """The gangs of workloads; a PodGroup of `-f` with the same name counts as it is written."""
    written = {key_of(each) for each in work.gangs}
    in_file = {
        (other.kind, other.metadata.namespace or namespace or "default", other.metadata.name): other
        for other in work.others
    }
    for plan in plans:
        manifest = in_file.get((plan.about.kind, plan.about.namespace, plan.about.name))
        for gang in plan.gangs:
            if key_of(gang) not in written:
                work.gangs.append(gang)
                asked_in = plan.asked_in.get(gang.metadata.name, {})
                work.origins[full_name(gang.metadata)] = MadeFrom(str(plan.about), asked_in, manifest)


def unused_kinds(objects: ObjectSet, settings: GroupingSettings, *, harmless: bool = False) -> str:
    """Kinds that no pods are made of, each with its number: `ConfigMap (2), Service (1)`. Empty if there are none.

    Kubernetes' own kinds that no decision depends on are `harmless`.
    """
    unused = (each for each in _unused(objects, settings) if harmless or not _is_harmless(each))
    counts = Counter(each.shown for each in unused)
    return ", ".join(f"{kind} ({number})" for kind, number in sorted(counts.items()))


def _is_harmless(other: OtherObject) -> bool:
    """True for Kubernetes' own kinds, unless bayplan reads another version of them."""
    group = _reference(other).group
    return other.shown == other.kind and ("." not in group or group.endswith(".k8s.io"))


def unused_pods(objects: ObjectSet, settings: GroupingSettings) -> list[str]:
    """What to do about objects of unknown kinds that have pods all the same."""
    found: dict[str, None] = {}
    for each in _unused(objects, settings):
        if _kind_meant(each, settings):
            continue
        if told := instead_of(each):
            found[told] = None
            continue
        for _, at in pod_templates(each.decoded(), ObjectPath(each.kind)):
            lacks = "no rule says how many pods there are; write one (--grouping-rules FILE, see docs/pod-grouper.md)"
            found[f"{each.kind} holds a pod template at {at.field}, and {lacks}"] = None
    return list(found)


def instead_of(other: OtherObject) -> str:
    """What to give instead of an object of a kind whose pods only its controller knows; empty for other kinds."""
    maker, what = INSTEAD.get((_reference(other).group, other.kind), ("", ""))
    named = f"{other.kind} {other.metadata.name}".rstrip()
    return f"the pods of {named} are made by {maker}: give {what} instead" if maker else ""


def misspelt_kinds(objects: ObjectSet, settings: GroupingSettings) -> list[InvalidObject]:
    """Objects whose kind or group is misspelt or outdated, each with the one that is meant."""
    meant = ((each, _kind_meant(each, settings)) for each in _unused(objects, settings))
    return [objects.naming_the_file_of(fault, each) for each, fault in meant if fault is not None]


def _kind_meant(other: OtherObject, settings: GroupingSettings) -> InvalidObject | None:
    """What is wrong with the kind or the group of an object that no pods are made of; None if nothing resembles it."""
    groups: dict[str, list[str]] = {"Pod": [""]}
    for each in every_kind(settings.rules):
        groups.setdefault(each.kind, []).append(each.group)
    at = ObjectPath(str(_reference(other)))
    if other.kind in groups:
        expected = " or ".join(f"group {group}" if group else "v1" for group in groups[other.kind])
        return InvalidObject(at.child("apiVersion"), f'"{other.api_version}" has no {other.kind}; expected {expected}')
    hint = did_you_mean(other.kind, groups, _ALIKE)
    return InvalidObject(at.child("kind"), f'"{other.kind}" is not known{hint}') if hint else None


def add_workloads(cluster: ObjectSet, work: ObjectSet, namespace: str | None) -> None:
    """Put the workloads of `-f` that a cluster does not have among its objects."""
    known = {_key(_reference(each)) for each in cluster.others}
    for each in work.others:
        metadata = msgspec.structs.replace(each.metadata, namespace=each.metadata.namespace or namespace or "default")
        named = replace(
            each, metadata=metadata, document=msgspec.json.encode(with_names(each.decoded(), metadata.namespace or ""))
        )
        if _key(_reference(named)) not in known:
            cluster.others.append(named)


def used_objects(objects: ObjectSet, settings: GroupingSettings) -> list[OtherObject]:
    """Workloads, and objects of other kinds that own something."""
    unused = {id(each) for each in _unused(objects, settings)}
    return [each for each in objects.others if id(each) not in unused]


def _unused(objects: ObjectSet, settings: GroupingSettings) -> list[OtherObject]:
    """Objects of kinds without a rule that own nothing, and that no command reads."""
    others = [
        each
        for each in objects.others
        if (each.api_version, each.kind) not in READ_LATER
        and not is_kueue_workload(each)
        and kind_of(_reference(each), settings.rules) is None
    ]
    owning = _owning(objects) if others else set()
    return [each for each in others if _key(_reference(each)) not in owning]


def _owners_in(objects: ObjectSet, namespace: str, settings: GroupingSettings) -> Iterator[RawObject]:
    """Workloads, and whatever else owns something: a group's leader, Spark's driver,
    objects whose annotations count for what they own.
    """
    yield from _decoded(objects.others, namespace, settings).values()
    owning = _owning(objects)
    for pod in objects.pods:
        if ("", "Pod", pod.metadata.namespace or "default", pod.metadata.name) in owning:
            yield raw_pod(pod)
    for each in objects.others:
        about = _reference(each)
        if _key(about) in owning and kind_of(about, settings.rules) is None:
            yield with_names(each.decoded(), namespace)


def _owning(objects: ObjectSet) -> set[_Key]:
    """Everything that owns a pod or another object."""
    owned = [*(pod.metadata for pod in objects.pods), *(each.metadata for each in objects.others)]
    return {
        (owner.api_version.rpartition("/")[0], owner.kind, metadata.namespace or "default", owner.name)
        for metadata in owned
        for owner in metadata.owner_references or ()
    }


def _key(about: Reference) -> _Key:
    return about.group, about.kind, about.namespace or "default", about.name


def no_pods_text(settings: GroupingSettings) -> str:
    """Which kinds pods can be made of, and what to do about others."""
    return f"pods are made of {known_kinds(settings.rules)}; {HOW_TO_RULE}"


def _decoded(others: Sequence[OtherObject], namespace: str, settings: GroupingSettings) -> dict[int, RawObject]:
    """The workloads among objects, each with a name and a namespace, by the identity of the object."""
    return {
        id(each): with_names(each.decoded(), namespace)
        for each in others
        if kind_of(_reference(each), settings.rules) is not None
    }


def _reference(other: OtherObject) -> Reference:
    return Reference(other.api_version, other.kind, other.metadata.namespace or "", other.metadata.name)


def _refuse_twice(about: Reference, seen: set[Reference]) -> None:
    """The same object in two places of `-f` is an error, which names the second."""
    if about in seen:
        raise InvalidObject(ObjectPath(str(about)).child("metadata.name"), f"is the name of two {about.kind}s of -f")
    seen.add(about)


def running_members(plan: WorkloadPlan) -> list[Pod]:
    """The pods of a workload that have a node."""
    return [member.pod for member in plan.members if member.pod.spec.node_name and not member.is_new]
