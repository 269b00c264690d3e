"""The workload that `bayplan why KIND/NAME` asks about, and what becomes of it.

It is looked for among the objects of a dump, or fetched from the cluster. A dump often holds pods and nothing else:
then the pods that name the workload as their owner are all that is known of it, and a remark says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches

import click

from bayplan.cli.shared.admission import admit_missing_pods
from bayplan.cli.shared.gang_objects import pod_groups, with_volcano_jobs
from bayplan.cli.shared.gangs import outcome_of_gang_with, outcome_of_running
from bayplan.cli.shared.group_trees import GroupTrees
from bayplan.cli.shared.output import warn
from bayplan.cli.shared.placing import place_in_turn, workload_outcome
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.shared.workloads import Workloads, instead_of, no_pods_text
from bayplan.cluster.state import pod_key
from bayplan.dialects.registry import gang_named, key_of
from bayplan.explain.amounts import count
from bayplan.explain.gangs.outcome import GangOutcome
from bayplan.explain.workload_text import WorkloadOutcome
from bayplan.grouping.raw import RawObject, Reference
from bayplan.kube.object_set import ObjectSet, OtherObject
from bayplan.kube.wire.core_v1 import Pod
from bayplan.workloads.by_rule import by_rule
from bayplan.workloads.existing import OwnerIndex, pods_of
from bayplan.workloads.held import why_suspended
from bayplan.workloads.kinds import VOLCANO_JOB, WorkloadKind, kind_of, kinds_named
from bayplan.workloads.plan import PlannedMember, WorkloadPlan

RANKED = 5
# Kinds that are asked for in another way.
ELSEWHERE = ("pod", "pods", "po", "podgroup", "podgroups", "pg", "node", "nodes", "no")


def find_workload(session: ClusterSession, text: str, namespace: str | None) -> WorkloadPlan | None:
    """The workload called KIND/NAME or KIND/NAMESPACE/NAME; None if a pod or a gang must be meant."""
    kind_text, _, rest = text.partition("/")
    if not rest or kind_text.lower() in ELSEWHERE or _is_known(session, text):
        return None
    home, _, name = rest.rpartition("/")
    home = home or namespace or ""
    kinds = kinds_named(kind_text, session.grouping.rules)
    fetched = session.read_named(kind_text, [(kind.group, kind.kind) for kind in kinds], name, home or None)
    if not kinds:
        of_kind = fetched or [each for each in session.objects.others if _is_called(each, kind_text, name)]
        if not of_kind:
            return None
        return _of_kind(session, of_kind[0], name, home)
    workloads = Workloads(session)
    found = [thing for thing in workloads.in_cluster if _is_meant(thing, kinds, name, home)]
    if found:
        return _planned(session, workloads, _only(found, text))
    return _of_volcano(session, kinds, name, home) or _known_by_pods(session, workloads, kinds[0], name, home)


def _planned(session: ClusterSession, workloads: Workloads, thing: RawObject) -> WorkloadPlan:
    """The plan of a workload of the cluster, which says why it has no pods if it is suspended."""
    plan = workloads.plan(thing)
    lacks_pods = plan.suspended and any(member.is_new for member in plan.members)
    told = why_suspended(thing, plan.suspended, session.objects.others) if lacks_pods else ""
    return replace(plan, suspended=told)


def outcome_of_workload(
    session: ClusterSession, plan: WorkloadPlan, now: datetime
) -> tuple[list[GangOutcome], WorkloadOutcome]:
    """What becomes of a workload's gangs, and of its pods where they stand alone."""
    plan = admit_missing_pods(session, plan)
    _take(session, plan)
    gangs: dict[str, Pod] = {}
    groups = GroupTrees(pod_groups(session.objects))
    for member in plan.members:
        if key := groups.gang_of(member.pod):
            gangs.setdefault(key, member.pod)
    outcomes = [outcome_of_gang_with(session, pod, now) for pod in gangs.values()]
    alone = [each.pod for each in plan.members if not gang_named(each.pod) and not each.pod.spec.node_name]
    placed = {outcome.decision.pod: outcome for outcome in place_in_turn(session, alone, RANKED)}
    outcome = replace(workload_outcome(plan, placed), suspended=plan.suspended)
    running = [
        each.pod for each in plan.members if not gang_named(each.pod) and each.pod.spec.node_name in session.state.rows
    ]
    if running and session.trees.names:
        outcome = replace(outcome, standing=outcome_of_running(session, outcome.name, running))
    return outcomes, outcome


def _take(session: ClusterSession, plan: WorkloadPlan) -> None:
    """Put a workload's pods and PodGroups among the objects, as if its controller and the pod grouper had made them."""
    members = {pod_key(member.pod): member.pod for member in plan.members}
    kept = [pod for pod in session.objects.pods if pod_key(pod) not in members]
    session.objects.pods = [*kept, *members.values()]
    known = {key_of(each) for each in pod_groups(session.objects)}
    session.objects.gangs += [gang for gang in plan.gangs if key_of(gang) not in known]


def _is_known(session: ClusterSession, key: str) -> bool:
    """Whether a pod or PodGroup is called so, in a namespace that has the name of a kind."""
    if any(pod_key(pod) == key for pod in session.objects.pods):
        return True
    return any(key_of(each).rpartition(" ")[2] == key for each in pod_groups(session.objects))


def _is_meant(thing: RawObject, kinds: Sequence[WorkloadKind], name: str, namespace: str) -> bool:
    about = Reference.of(thing)
    is_kind = any((about.group, about.kind) == (kind.group, kind.kind) for kind in kinds)
    return is_kind and about.name == name and namespace in ("", about.namespace)


def _only(found: Sequence[RawObject], text: str) -> RawObject:
    """The one object that is meant; of several kinds with one name the likeliest, of several namespaces none."""
    first = Reference.of(found[0])
    homes = sorted({each.namespace for thing in found if (each := Reference.of(thing)).kind == first.kind})
    if len(homes) > 1:
        raise click.ClickException(f"{text} is in several namespaces: {', '.join(homes)}; choose with -n")
    return found[0]


def _is_called(other: OtherObject, kind_text: str, name: str) -> bool:
    kind = other.kind.lower()
    return kind_text.lower().partition(".")[0] in (kind, f"{kind}s") and other.metadata.name == name


def _of_kind(session: ClusterSession, other: OtherObject, name: str, home: str) -> WorkloadPlan:
    """A workload of a kind that only the cluster's own words named: by its rule, else by the pods that it has."""
    about = Reference(other.api_version, other.kind, other.metadata.namespace or "default", name, other.metadata.uid)
    workloads = Workloads(session)
    if kind_of(about, session.grouping.rules) is not None:
        found = [thing for thing in workloads.in_cluster if _is_same(Reference.of(thing), about, home)]
        return _planned(session, workloads, _only(found, f"{other.kind} {name}"))
    owners = OwnerIndex([*workloads.in_cluster, *(each.decoded() for each in session.objects.others)])
    pods = pods_of(about, (), session.objects.pods, owners)
    if not pods:
        raise click.ClickException(f"{about}: {instead_of(other) or no_pods_text(session.grouping)}")
    warn([f"{about}: its kind has no rule; answered from its {count(len(pods), 'pod')}"])
    members = (PlannedMember(pod, is_new=False, where="") for pod in pods)
    return WorkloadPlan(about, WorkloadKind(about.group, about.kind, by_rule), tuple(members))


def _is_same(one: Reference, other: Reference, namespace: str) -> bool:
    same = (one.group, one.kind, one.name) == (other.group, other.kind, other.name)
    return same and namespace in ("", one.namespace)


def _of_volcano(
    session: ClusterSession, kinds: Sequence[WorkloadKind], name: str, namespace: str
) -> WorkloadPlan | None:
    """A Volcano Job of a dump, with the PodGroup and pods that Volcano would make unless they are there."""
    for job in session.objects.volcano_jobs if VOLCANO_JOB in kinds else ():
        home = job.metadata.namespace or "default"
        if job.metadata.name != name or namespace not in ("", home):
            continue
        made = with_volcano_jobs(ObjectSet(volcano_jobs=[job]), session.objects)
        about = Reference(f"{VOLCANO_JOB.group}/v1alpha1", VOLCANO_JOB.kind, home, name, job.metadata.uid)
        known = {pod_key(pod): pod for pod in session.objects.pods}
        existing = pods_of(about, (), known.values(), OwnerIndex())
        new = [pod for pod in made.pods if pod_key(pod) not in known]
        gangs = {key_of(each) for each in pod_groups(session.objects)}
        session.objects.other_gangs += [each for each in made.other_gangs if key_of(each) not in gangs]
        members = [
            *(PlannedMember(pod, is_new=False, where="") for pod in existing),
            *(PlannedMember(pod, is_new=True, where="") for pod in new),
        ]
        return WorkloadPlan(about, VOLCANO_JOB, tuple(members))
    return None


def _known_by_pods(
    session: ClusterSession, workloads: Workloads, kind: WorkloadKind, name: str, namespace: str
) -> WorkloadPlan:
    """A workload of which only pods are known."""
    homes = [namespace] if namespace else sorted({pod.metadata.namespace or "default" for pod in session.objects.pods})
    api_version = f"{kind.group}/v1" if kind.group else "v1"
    found: dict[Reference, list[Pod]] = {}
    for home in homes:
        about = Reference(api_version, kind.kind, home, name)
        if pods := pods_of(about, (), session.objects.pods, workloads.owners):
            found[about] = pods
    if len(found) > 1:
        several = ", ".join(about.namespace for about in found)
        raise click.ClickException(f"{kind.kind} {name} is in several namespaces: {several}; choose with -n")
    for about, pods in found.items():
        warn([f"there is no {about} in the {session.source}; answered from its {count(len(pods), 'pod')}"])
        return WorkloadPlan(about, kind, tuple(PlannedMember(pod, is_new=False, where="") for pod in pods))
    names = [
        f"{each.namespace}/{each.name}"
        for thing in workloads.in_cluster
        if (each := Reference.of(thing)).kind == kind.kind
    ]
    asked = f"{namespace}/{name}" if namespace else name
    named = {written: each for each in names for written in (each, each.partition("/")[2])}
    close = dict.fromkeys(named[written] for written in get_close_matches(asked, named, n=3, cutoff=0.5))
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    raise click.ClickException(
        f"there is no {kind.kind} '{asked}' in the {session.source}, nor a pod that it owns{hint}"
    )
