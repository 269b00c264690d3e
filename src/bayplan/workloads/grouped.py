"""Existing pods in the gangs of their owners, labelled as the pod grouper would label them.

    grouped = group_pods(beside, settings, written)

A dump can be older than the pod grouper's work, or come from a cluster without one. With these labels, commands always
judge a pod together with its gang.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from bayplan.cluster.state import pod_key
from bayplan.dialects.dialect import full_name
from bayplan.dialects.own.members import POD_GROUP
from bayplan.grouping.annotations import asks
from bayplan.grouping.group import (
    ALONE,
    GROUPED,
    GroupingSettings,
    KnownRequests,
    asks_by_itself,
    may_have_group,
    settled_by_others,
)
from bayplan.grouping.grouping import Grouping, InvalidValue, Lookup
from bayplan.grouping.raw import RawObject, Reference
from bayplan.kube.object_set import MadeFrom
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod
from bayplan.workloads.existing import controller_of, is_active, owner_of
from bayplan.workloads.kinds import kind_of
from bayplan.workloads.plan import Beside, grouping_of, labelled

# There are many of these, dumps rarely contain them, and few request a topology, unless the pod itself does.
_RARELY_ASK = {("apps", "ReplicaSet"), ("apps", "DaemonSet")}


@dataclass(frozen=True, slots=True)
class Grouped:
    """Pods with the labels of their gangs, missing PodGroups, and problems and unknowns by pod.

    `missing` is the nearest unknown owner of a waiting pod, if it could request a topology; `origins` are what the
    PodGroups were made of.
    """

    pods: list[Pod] = field(default_factory=list)
    gangs: list[PodGroup] = field(default_factory=list)
    problems: dict[str, tuple[InvalidValue, ...]] = field(default_factory=dict)
    missing: dict[str, Reference] = field(default_factory=dict)
    origins: dict[str, MadeFrom] = field(default_factory=dict)

    def held_back(self, pod: Pod) -> str:
        """Why a pod must not be placed until its owner is corrected; empty if it can."""
        return next((str(problem) for problem in self.problems.get(pod_key(pod), ()) if problem.holds), "")

    @property
    def names(self) -> set[str]:
        """The gangs as `namespace/name`."""
        return {full_name(gang.metadata) for gang in self.gangs}


def group_pods(beside: Beside, settings: GroupingSettings, written: Collection[str]) -> Grouped:
    """Group the pods of `beside` by their owners; `written` are the existing PodGroups, as `namespace/name`."""
    grouper = _Grouper(beside, settings, written)
    pods = [grouper.take(pod) for pod in beside.pods]
    return Grouped(pods, grouper.gangs, grouper.problems, grouper.missing, grouper.origins)


class _Grouper:
    """Takes one pod after another."""

    def __init__(self, beside: Beside, settings: GroupingSettings, written: Collection[str]) -> None:
        self.gangs: list[PodGroup] = []
        self.origins: dict[str, MadeFrom] = {}
        self.problems: dict[str, tuple[InvalidValue, ...]] = {}
        self.missing: dict[str, Reference] = {}
        self._beside = beside
        self._settings = settings
        self._known = set(written)
        self._answers: dict[Lookup, list[RawObject]] = {}
        self._requests: KnownRequests = {}
        self._chains: dict[Reference, tuple[tuple[RawObject, ...], Reference | None]] = {}
        # Owners whose pods stand alone unless a pod requests a gang: most pods of a cluster, so they are checked once.
        self._of_loners: set[Reference] = set()

    def take(self, pod: Pod) -> Pod:
        """The pod as the grouper would label it."""
        if not is_active(pod) or self._is_settled(pod):
            return pod
        reference = controller_of(pod)
        home = pod.metadata.namespace or "default"
        owner = None
        if reference is not None:
            owner = Reference(reference.api_version, reference.kind, home, reference.name, reference.uid)
        owners, absent = self._chain(owner)
        asked = asks(pod.metadata.annotations or {})
        if absent is not None and not pod.spec.node_name and (asked or self._may_ask(absent)):
            self.missing[pod_key(pod)] = absent
        if owner in self._of_loners and not asked:
            return pod
        grouping = grouping_of(pod, owners, self._settings, self._answers, self._beside, self._requests)
        if grouping.problems:
            self.problems[pod_key(pod)] = grouping.problems
        if grouping.manifest is None:
            if owner is not None and not asked and not grouping.problems:
                self._of_loners.add(owner)
            return pod
        self._note(grouping)
        return labelled(pod, grouping)

    def _is_settled(self, pod: Pod) -> bool:
        """True if a pod's gang is known, or that it has none, or if nothing can be determined."""
        metadata = pod.metadata
        if (metadata.annotations or {}).get(GROUPED) == ALONE:
            return True
        name = (metadata.labels or {}).get(POD_GROUP)
        if name is not None:
            return f"{metadata.namespace or 'default'}/{name}" in self._known
        if metadata.owner_references:
            return settled_by_others(pod)
        return not may_have_group(pod) and not asks_by_itself(pod)

    def _chain(self, owner: Reference | None) -> tuple[tuple[RawObject, ...], Reference | None]:
        """The owners above a pod, and the first missing one."""
        if owner is None:
            return (), None
        if owner not in self._chains:
            found = self._beside.owners.above(owner)
            self._chains[owner] = found, owner_of(found[-1]) if found else owner
        return self._chains[owner]

    def _may_ask(self, absent: Reference) -> bool:
        known = kind_of(absent, self._settings.rules) is not None
        return known and (absent.group, absent.kind) not in _RARELY_ASK

    def _note(self, grouping: Grouping) -> None:
        """Keep the PodGroup of a gang unless it exists."""
        assert grouping.manifest is not None
        metadata = grouping.manifest["metadata"]
        name = f"{metadata.get('namespace') or 'default'}/{grouping.name}"
        if name not in self._known:
            self._known.add(name)
            self.gangs.append(msgspec.convert(grouping.manifest, PodGroup))
            if grouping.owner is not None:
                self.origins[name] = MadeFrom(str(grouping.owner), grouping.asked_in)
