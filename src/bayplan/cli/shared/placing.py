"""Place pods one after another on a cluster in memory, so that each sees what the earlier ones took.

Shared by the commands: `place` prints the outcomes, `why` asks about one pod, `numa` draws a node after placing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from time import monotonic

import click
import msgspec

from bayplan.cli.shared.admission import admit_files, admit_new_pods
from bayplan.cli.shared.gang_objects import (
    gang_in,
    gang_of_key,
    gangs_without_an_object,
    naming_the_file,
    pod_groups,
    warn_of_demands,
    warn_of_fields,
    warn_of_members,
    with_volcano_jobs,
)
from bayplan.cli.shared.gangs import GangPlacer
from bayplan.cli.shared.group_trees import GroupTrees
from bayplan.cli.shared.output import show_progress, warn, working
from bayplan.cli.shared.planned_claims import claim_templates, take_claims
from bayplan.cli.shared.reading import read_all
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.shared.workloads import (
    group_files_by_owners,
    grouping_with,
    instead_of,
    misspelt_kinds,
    no_pods_text,
    running_members,
    take_workloads,
    unused_kinds,
    unused_pods,
)
from bayplan.cluster.pods.request import effective_request
from bayplan.cluster.reports.numa_policy import policy_remarks
from bayplan.cluster.state import pod_key
from bayplan.dialects.members import Incomplete
from bayplan.dialects.pod_words import word_remarks
from bayplan.dialects.registry import AnyPodGroup, gang_named
from bayplan.engine.gangs.objective import Objective
from bayplan.explain.documents import Document, placement_list
from bayplan.explain.gangs.document import gang_document
from bayplan.explain.gangs.outcome import GangOutcome
from bayplan.explain.placement import PodOutcome
from bayplan.explain.preemption import PreemptionView, preemption_document
from bayplan.explain.ranking import ranked
from bayplan.explain.refusal import refusal_of
from bayplan.explain.repeated_refusal import RepeatedRefusal
from bayplan.explain.workload_text import WorkloadOutcome, work_answer, workload_document
from bayplan.gangs.model import Gang
from bayplan.kube.errors import InvalidObject, InvalidObjects, ObjectPath
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.relations import answer_for, with_pods_as_they_are
from bayplan.scheduling.remedies import remedies
from bayplan.workloads.plan import WorkloadPlan

SECONDS_BETWEEN_NEWS = 0.5


@dataclass(frozen=True)
class FilesWork:
    """What `-f` holds: pods and PodGroups, those of workloads among them, and the plan of each workload."""

    objects: ObjectSet
    plans: list[WorkloadPlan]


def read_work(session: ClusterSession, paths: Sequence[Path], namespace: str | None) -> FilesWork:
    """The pods, PodGroups and workloads of `-f`.

    Other kinds are named once, and are an error if there is nothing else.
    """
    objects = with_volcano_jobs(read_all(paths), session.objects, namespace)
    warn(admit_files(objects, session.priority_classes(objects), session.source))
    templates = claim_templates(objects.others)
    plans = take_workloads(session, objects, namespace)
    _name_other_kinds(session, objects, usable=bool(objects.pods or plans or pod_groups(objects)), paths=paths)
    objects.pods = [
        pod if pod.metadata.namespace else in_namespace(pod, namespace or "default") for pod in objects.pods
    ]
    _refuse_two_pods_of_one_name(objects.pods)
    admit_new_pods(session, objects)
    remarks = _remarks(session, objects.pods)
    group_files_by_owners(session, objects, plans, namespace)
    warn(remarks)
    take_claims(session.state, objects, plans, templates, namespace or "default")
    return FilesWork(objects, plans)


def read_pods(session: ClusterSession, paths: Sequence[Path], namespace: str | None) -> list[Pod]:
    """The pods of `-f`, those of workloads among them. A PodGroup by itself has none."""
    work = read_work(session, paths, namespace).objects
    if not work.pods:
        raise click.ClickException(f"-f holds no pod: {', '.join(str(path) for path in paths)}")
    return work.pods


def _name_other_kinds(session: ClusterSession, objects: ObjectSet, *, usable: bool, paths: Sequence[Path]) -> None:
    """Objects of `-f` that are neither placed nor used: those that belong into `--cluster`,
    and kinds that own no pods.
    """
    of_cluster: dict[str, Sized] = {
        "Node": objects.nodes,
        "NodeResourceTopology": objects.topologies,
        "Numatopology": objects.numatopologies,
        "HyperNode": objects.hyper_nodes,
        "Namespace": objects.namespaces,
    }
    belong = [f"{kind} ({len(things)})" for kind, things in of_cluster.items() if things]
    settings = grouping_with(session, objects)
    unused, templates = unused_kinds(objects, settings, harmless=not usable), unused_pods(objects, settings)
    misspelt = misspelt_kinds(objects, settings)
    if misspelt and not usable:
        raise InvalidObjects(misspelt)
    templates += [str(each) for each in misspelt]
    hints = [f"not used: {', '.join(belong)}: part of the cluster; pass it with --cluster"] if belong else []
    hints += [f"not used: {unused}"] if unused else []
    if usable:
        warn([*hints, *templates])
        return
    told = [text for each in objects.others if (text := instead_of(each))]
    if told and len(told) == len(objects.others):
        raise click.ClickException(f"-f holds no pod: {'; '.join(told)}")
    found = "; ".join([*hints, *templates]) or ", ".join(str(path) for path in paths)
    raise click.ClickException(f"-f holds no pod: {found}; {no_pods_text(settings)}")


def _remarks(session: ClusterSession, pods: Sequence[Pod]) -> list[str]:
    problems = (
        (*(session.ignored_annotations(pod) or policy_remarks(pod, effective_request)), *word_remarks(pod))
        for pod in pods
    )
    return [str(problem) for of_pod in problems for problem in of_pod]


def _refuse_two_pods_of_one_name(pods: Sequence[Pod]) -> None:
    seen = set()
    for pod in pods:
        key = pod_key(pod)
        if key in seen:
            raise InvalidObject(ObjectPath(f"Pod {key}").child("metadata.name"), "is the name of two pods of -f")
        seen.add(key)


def in_namespace(pod: Pod, namespace: str) -> Pod:
    """The same pod in a namespace, as kubectl would create it."""
    metadata = msgspec.structs.replace(pod.metadata, namespace=namespace)
    return msgspec.structs.replace(pod, metadata=metadata)


def place_gangs(
    session: ClusterSession,
    work: ObjectSet,
    namespace: str | None,
    answers: ClassAnswers,
    now: datetime,
    objective: Objective | None = None,
) -> tuple[list[GangOutcome], list[Pod]]:
    """Decide for each gang of `-f` and take all its seats before the next one is asked; and the pods that are in none.

    An `objective` counts instead of the one that a gang names.
    """

    def placed(gang: Gang | Incomplete, written: AnyPodGroup | None = None) -> GangOutcome:
        warn_of_members(session, gang)
        return placer.place(_aiming_at(objective, gang), now, written)

    known = {pod_key(pod) for pod in work.pods}
    pods = [*work.pods, *(pod for pod in session.objects.pods if pod_key(pod) not in known)]
    topologies = session.trees.topologies
    placer = GangPlacer(session, answers)
    outcomes: list[GangOutcome] = []
    _refuse_two_of_one_name(work, namespace)
    groups = GroupTrees([*pod_groups(session.objects), *pod_groups(work)], namespace)
    nested: set[str] = set()
    with working("placing gangs"):
        for written in pod_groups(work):
            warn_of_fields(work, written)
            root = groups.outermost(groups.key_of(written))
            with naming_the_file(work, written):
                if not groups.is_nested(root):
                    outcomes.append(placed(gang_in(written, pods, topologies, namespace), written))
                elif root not in nested:
                    nested.add(root)
                    outcomes.append(placed(groups.gang(root, pods, topologies), groups.written(root)))
            warn_of_demands(work, written, session.trees.topologies)
        outcomes += [placed(gang) for gang in gangs_without_an_object(work.pods, topologies)]
        decided = {outcome.name for outcome in outcomes}
        outcomes += [placed(*gang_of_key(session, key, pods)) for key in _gangs_named(work.pods, groups, decided)]
    decided = {outcome.name for outcome in outcomes}
    return outcomes, [pod for pod in work.pods if _name(groups.gang_of(pod)) not in decided]


def _gangs_named(pods: Sequence[Pod], groups: GroupTrees, decided: AbstractSet[str]) -> list[str]:
    """The keys of gangs that pods name and `-f` does not hold: their PodGroups are in the cluster, or missing."""
    keys = (groups.gang_of(pod) for pod in pods)
    return list(dict.fromkeys(key for key in keys if key and _name(key) not in decided))


def _name(key: str) -> str:
    """`namespace/name` of a gang."""
    return key.rpartition(" ")[2]


def _refuse_two_of_one_name(work: ObjectSet, namespace: str | None) -> None:
    """Two PodGroups that nothing tells apart are an error, which names the second."""
    seen = set()
    for written in pod_groups(work):
        named = (type(written), written.metadata.namespace or namespace or "default", written.metadata.name)
        if named in seen:
            with naming_the_file(work, written):
                raise InvalidObject(ObjectPath.of(written).child("metadata.name"), "is the name of two PodGroups of -f")
        seen.add(named)


def _aiming_at(objective: Objective | None, gang: Gang | Incomplete) -> Gang | Incomplete:
    return gang if objective is None or isinstance(gang, Incomplete) else replace(gang, objective=objective)


def place_in_turn(
    session: ClusterSession, pods: Sequence[Pod], ranking_rows: int, answers: ClassAnswers | None = None
) -> list[PodOutcome]:
    """Decide for each pod and take what it was given before the next one is asked."""
    answers = answers or ClassAnswers(session.state)
    refused = RepeatedRefusal(session.state.classes)
    outcomes = []
    told = monotonic()
    with working(""):
        for number, pod in enumerate(pods):
            if monotonic() - told >= SECONDS_BETWEEN_NEWS:
                told = monotonic()
                show_progress(f"placing pods: {number} of {len(pods)}")
            session.refuse_if_there(pod)
            known = None if session.held_back(pod) else refused.for_one_like(pod)
            outcome = known or outcome_for(session, pod, answers, ranking_rows)
            if outcome.decision.placed:
                assume(session.state, outcome.decision, pod)
            if known is None:
                refused.note(pod, outcome)
            outcomes.append(outcome)
    return outcomes


def by_workload(
    plans: Sequence[WorkloadPlan], outcomes: Sequence[PodOutcome]
) -> tuple[list[WorkloadOutcome], list[PodOutcome]]:
    """Outcomes of pods by the workload that wants them; and those of pods that no workload wants.

    Gangs have outcomes of their own, those of a PodGroup beside the workload as well.
    """
    left = {outcome.decision.pod: outcome for outcome in outcomes}
    every = [(plan, workload_outcome(plan, left)) for plan in plans if not plan.gangs]
    found = [each for plan, each in every if each.outcomes or each.running or not plan.members]
    wanted = {outcome.decision.pod for each in found for outcome in each.outcomes}
    return found, [outcome for pod, outcome in left.items() if pod not in wanted]


def placed_document(
    gangs: Sequence[GangOutcome],
    outcomes: Sequence[PodOutcome],
    workloads: Sequence[WorkloadOutcome],
    others: Sequence[PodOutcome],
    plans: Mapping[str, PreemptionView] | None = None,
) -> Document:
    """What `bayplan place -o json` prints; `others` are the outcomes of pods that no workload wants, `plans` are for
    pods and gangs without a place, if that was asked.
    """
    asked = {} if plans is None else {name: preemption_document(view) for name, view in plans.items()}
    return {
        **placement_list(work_answer(gangs, workloads, others), outcomes),
        "gangs": [gang_document(gang) for gang in gangs],
        "workloads": [workload_document(each) for each in workloads],
        **({} if plans is None else {"preemption": asked}),
    }


def placed_names(gangs: Sequence[GangOutcome], outcomes: Sequence[PodOutcome]) -> Iterator[str]:
    """`pod/NAMESPACE/NAME node/NODE`, in the order of the answer; `<none>` stands for no node, as kubectl writes it."""
    for gang in gangs:
        nodes = {seat.pod: seat.node for seat in gang.decision.seats}
        waiting = [] if gang.gang is None else [pod_key(pod) for pod in gang.gang.pods]
        yield from (_placed_name(pod, nodes.get(pod, "")) for pod in dict.fromkeys([*nodes, *waiting]))
    yield from (_placed_name(each.decision.pod, each.decision.node or "") for each in outcomes)


def _placed_name(pod: str, node: str) -> str:
    return f"pod/{pod} {f'node/{node}' if node else '<none>'}"


def workload_outcome(plan: WorkloadPlan, outcomes: Mapping[str, PodOutcome]) -> WorkloadOutcome:
    """What became of a workload's pods; `outcomes` are by the pods' names."""
    own = [outcomes[key] for member in plan.members if (key := pod_key(member.pod)) in outcomes]
    running = [(pod_key(pod), pod.spec.node_name or "") for pod in running_members(plan)]
    members = [member.pod for member in plan.members if gang_named(member.pod)]
    in_gangs = [pod_key(pod) for pod in members if not pod.spec.node_name]
    return WorkloadOutcome(plan.about.kind, plan.name, plan.kind.counts, running, own, in_gangs=in_gangs)


def outcome_for(session: ClusterSession, pod: Pod, answers: ClassAnswers, ranking_rows: int) -> PodOutcome:
    """One decision with its ranking, or with everything there is to say about the "no"."""
    state, profile = session.state, session.profile_for(pod)
    wrong = session.held_back(pod)
    decision = Decision(pod_key(pod), None, held_back=wrong) if wrong else schedule_one(state, pod, profile, answers)
    if decision.held_back:
        return PodOutcome(decision)
    pod_class = state.classes.of(pod)
    answer = answer_for(state, pod, pod_class, profile, answers)
    if decision.placed:
        return PodOutcome(decision, ranking=ranked(state, pod_class, profile, answer, ranking_rows))
    found = remedies(state, pod_class, with_pods_as_they_are(state, pod, pod_class, profile), answer)
    return PodOutcome(decision, refusal=refusal_of(state, pod_class, profile, decision, found))
