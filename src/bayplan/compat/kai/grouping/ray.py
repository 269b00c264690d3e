"""KAI's groups of Ray clusters: the head and each worker group as sub-groups, regardless of the cluster's owner.

A RayJob or RayService names its cluster in its status. Worker groups need their `minReplicas`, or all replicas where
that is 0. Groups that an older KAI left without sub-groups stay without.
"""

from __future__ import annotations

from dataclasses import replace

from bayplan.compat.kai.grouping.jobs import KAI_API
from bayplan.compat.kai.grouping.metadata import (
    NO_CONSTRAINT,
    KaiCase,
    KaiConstraint,
    KaiGroup,
    KaiSubGroup,
    constraint_of,
    usual_group,
)
from bayplan.grouping.raw import (
    RawObject,
    Reference,
    WrongValue,
    labels_of,
    list_at,
    map_at,
    number_at,
    text_at,
)

PRIORITY_CLASS = "ray.io/priority-class-name"
NODE_GROUP = "ray.io/group"
HEAD = "headgroup"


def ray_cluster(case: KaiCase) -> KaiGroup:
    """A RayCluster without an owner."""
    return _group(case, case.owner)


def ray_job(case: KaiCase) -> KaiGroup:
    """The cluster of a RayJob."""
    return _group(case, _cluster_of(case, ("rayClusterName",)))


def ray_service(case: KaiCase) -> KaiGroup:
    """The active cluster of a RayService, else the one that will be."""
    paths = (("activeServiceStatus", "rayClusterName"), ("pendingServiceStatus", "rayClusterName"))
    return _group(case, _cluster_of(case, *paths))


def _cluster_of(case: KaiCase, *paths: tuple[str, ...]) -> RawObject:
    owner = Reference.of(case.owner)
    named = (text_at(case.owner, ("status", *path)) for path in paths)
    name = next((name for name in named if name is not None), "")
    if not name:
        raise WrongValue("status", None, "names no RayCluster yet; Ray's operator has to create it")
    cluster = case.find(owner.api_version, "RayCluster", name, owner.namespace)
    if cluster is None:
        raise WrongValue("status", name, "is a RayCluster that does not exist")
    return cluster


def _group(case: KaiCase, cluster: RawObject) -> KaiGroup:
    group = usual_group(case)
    sub_groups = _sub_groups(cluster)
    least = sum(sub_group.min_available for sub_group in sub_groups)
    existing = case.find(KAI_API, "PodGroup", group.name, group.namespace)
    if existing is not None and not list_at(existing, ("spec", "subGroups")):
        sub_groups = []
    own = labels_of(case.pod).get(NODE_GROUP)
    named = Reference.of(case.pod).name
    placed = next((number for number, sub_group in enumerate(sub_groups) if sub_group.name == own), None)
    if placed is not None:
        sub_groups[placed] = replace(sub_groups[placed], pods=(named,))
    priority = labels_of(case.owner).get(PRIORITY_CLASS, group.priority_class)
    return replace(group, min_available=least, priority_class=priority, sub_groups=tuple(sub_groups))


def _sub_groups(cluster: RawObject) -> list[KaiSubGroup]:
    head = map_at(cluster, ("spec", "headGroupSpec"))
    found = [KaiSubGroup(HEAD, 1, constraint=_constraint(head, "headGroupSpec"))]
    for number, workers in enumerate(list_at(cluster, ("spec", "workerGroupSpecs"))):
        if not isinstance(workers, dict):
            raise WrongValue(f"spec.workerGroupSpecs[{number}]", workers, "must be a map")
        pods = _pods(workers, number)
        if pods is not None:
            name = text_at(workers, ("groupName",)) or f"worker-group-{number}"
            found.append(KaiSubGroup(name, pods, constraint=_constraint(workers, f"workerGroupSpecs.{name}")))
    return found


def _pods(workers: RawObject, number: int) -> int | None:
    """The pods that a worker group needs; None if it has none at all."""
    if workers.get("suspended") is True:
        return None
    replicas = number_at(workers, ("replicas",)) or 0
    least = number_at(workers, ("minReplicas",)) or 0
    if least > replicas:
        raise WrongValue(f"spec.workerGroupSpecs[{number}].minReplicas", least, f"is more than the {replicas} replicas")
    if not least and not replicas:
        return None
    hosts = number_at(workers, ("numOfHosts",))
    return (least if least > 0 else replicas) * (1 if hosts is None else hosts)


def _constraint(group: RawObject, field: str) -> KaiConstraint:
    """What a group's template asks for; a tree's name alone asks for nothing."""
    constraint = constraint_of(map_at(group, ("template",)))
    if not constraint.required and not constraint.preferred:
        return NO_CONSTRAINT
    if not constraint.topology:
        raise WrongValue(f"{field}.template.metadata.annotations", None, "names a level, but no kai.scheduler/topology")
    return constraint
