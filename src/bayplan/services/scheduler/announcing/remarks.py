"""Report what is wrong or unsupported in users' objects: one event per problem, on the object or on its owner."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from bayplan.cluster.remarks import ObjectRemark, Remarks
from bayplan.dialects.own.pod_group import redundant_levels
from bayplan.dialects.registry import AnyPodGroup, dialect_of, key_of, remarks_on, resource_of
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.extensions import BrokenExtension
from bayplan.gangs.checks import Naming, naming_in
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, NUMATOPOLOGIES, PODS
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import OwnerReference
from bayplan.kube.wire.k8s_scheduling_v1beta1 import PodGroup as KubernetesPodGroup
from bayplan.services.edges.bounded_dict import BoundedDict
from bayplan.services.edges.events import EventRecorder, Subject

logger = logging.getLogger(__name__)

# A node's reports, by resource and by kind.
NODE_REPORTS = {name for each in (NODE_RESOURCE_TOPOLOGIES, NUMATOPOLOGIES, NODES) for name in (str(each), each.kind)}
MAX_REMEMBERED = 50_000
# A tenant can make thousands of invalid objects: at most this many are reported in one iteration of the loop.
PROBLEMS_PER_ITERATION = 64


class ObjectProblems(Mapping[str, str]):
    """Sentences about invalid objects, by resource and key, and which of them are news."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        self._news: dict[str, None] = {}

    def __getitem__(self, where: str) -> str:
        return self._told[where]

    def __iter__(self) -> Iterator[str]:
        return iter(self._told)

    def __len__(self) -> int:
        return len(self._told)

    def set(self, where: str, problem: str) -> None:
        """An object is invalid."""
        if self._told.get(where) != problem:
            self._told[where] = problem
            self._news[where] = None

    def withdraw(self, where: str) -> None:
        """An object is valid, or gone."""
        self._told.pop(where, None)
        self._news.pop(where, None)

    @property
    def has_news(self) -> bool:
        """Whether something is new since `news` was asked for."""
        return bool(self._news)

    def news(self, most: int) -> Iterator[tuple[str, str]]:
        """New problems, each once."""
        for where in list(islice(self._news, most)):
            del self._news[where]
            yield where, self._told[where]


class ObjectRemarks:
    """Each problem is reported once, when it appears."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        events: EventRecorder,
        where_asked: Callable[[AnyPodGroup, str, str], str],
        unlike_template: Callable[[KubernetesPodGroup], tuple[str, ...]],
    ) -> None:
        self._dispatcher = dispatcher
        self._events = events
        self._where_asked = where_asked
        self._unlike_template = unlike_template
        self._reported: dict[str, str] = {}
        self._changes_seen = 0
        # The last problem on the owner of each PodGroup, by the group's uid.
        self._reported_on_owner: BoundedDict[str, str] = BoundedDict(MAX_REMEMBERED)
        # The last remarks on each PodGroup, by its uid and their reason.
        self._remarked: BoundedDict[tuple[str, str], tuple[object, ...]] = BoundedDict(MAX_REMEMBERED)

    def report(self, problems: ObjectProblems, remarks: Remarks) -> None:
        """Report new problems in the log, on the node that a report is about, and on waiting pods."""
        for where, text in problems.news(PROBLEMS_PER_ITERATION):
            logger.warning("object has invalid content", extra={"object": where, "problem": text})
            resource, _, name = where.partition(" ")
            if resource in NODE_REPORTS:
                self._on_node(name, text)
        if remarks.changes != self._changes_seen:
            self._changes_seen = remarks.changes
            self._report_remarks(remarks)

    def _report_remarks(self, remarks: Remarks) -> None:
        current = {str(remark.at): remark.text for remark in remarks}
        new = {where: text for where, text in current.items() if self._reported.get(where) != text}
        for where, text in new.items():
            logger.warning("object has invalid content", extra={"object": where, "problem": text})
        for remark in remarks:
            if str(remark.at) in new:
                kind, _, name = remark.at.subject.partition(" ")
                if kind in NODE_REPORTS:
                    self._on_node(name, str(remark))
                elif kind == PODS.kind:
                    self._on_pod(name, remark)
        self._reported = current

    def _on_node(self, name: str, text: str) -> None:
        row = self._dispatcher.state.rows.get(name)
        node = None if row is None else self._dispatcher.state.nodes[row]
        if node is not None:
            subject = Subject(NODES.api_version, NODES.kind, "default", name, node.metadata.uid)
            self._events.record(subject, "Warning", "InvalidTopology", "Reading", text)

    def _on_pod(self, key: str, remark: ObjectRemark) -> None:
        pod = self._dispatcher.waiting.get(key)
        if pod is not None:
            text = f"{remark.at.field}: {remark.text}"
            self._events.record(Subject.pod(pod), "Warning", "NotSupported", "Reading", text)

    def on_group(self, group: AnyPodGroup | None) -> None:
        """Report fields of a PodGroup that bayplan does not support, and levels without effect."""
        if group is not None:
            self._remark_once(group, "NotSupported", _remarks_on(group))
        if isinstance(group, PodGroup):
            self._on_levels(group)

    def on_template(self, group: AnyPodGroup) -> None:
        """Report how a PodGroup differs from its template.

        Not as soon as it is placed: the Workload comes by another watch, perhaps after the PodGroup.
        """
        if isinstance(group, KubernetesPodGroup):
            self._remark_once(group, "UnlikeTemplate", self._unlike_template(group))

    def on_owner(self, group: AnyPodGroup, problem: str) -> None:
        """Report an unknown level on the workload that asks for it: its users do not see the generated PodGroup."""
        names = dialect_of(group).field_names.written
        owner, naming, uid = _owner_of(group), naming_in(problem, names), group.metadata.uid
        if owner is None or naming is None:
            self._reported_on_owner.pop(uid, None)
        elif self._reported_on_owner.get(uid) != problem:
            self._reported_on_owner[uid] = problem
            on_group = f"its {resource_of(group).kind} {group.metadata.name} cannot be placed: {problem}"
            self._record_on_owner(group, owner, "InvalidGroup", self._by_annotation(group, naming) or on_group)

    def _on_levels(self, group: PodGroup) -> None:
        """On the owner, if an annotation names the level; else on the PodGroup."""
        # Segments that are groups all name the same level.
        found = tuple(dict.fromkeys(redundant_levels(group.spec, self._dispatcher.trees.topologies)))
        owner = _owner_of(group)
        for naming in found if self._is_new(group, "levels", found) else ():
            text = self._by_annotation(group, naming)
            if owner is not None and text:
                self._record_on_owner(group, owner, "NotSupported", text)
            else:
                self._record_on_group(group, "NotSupported", f"{naming.field}: {naming.problem}")

    def _record_on_owner(self, group: AnyPodGroup, owner: OwnerReference, reason: str, text: str) -> None:
        namespace = group.metadata.namespace or "default"
        subject = Subject(owner.api_version, owner.kind, namespace, owner.name, owner.uid)
        self._events.record(subject, "Warning", reason, "Grouping", f"{owner.kind} {namespace}/{owner.name}: {text}")

    def _record_on_group(self, group: AnyPodGroup, reason: str, text: str) -> None:
        self._events.record(subject_of(group), "Warning", reason, "Reading", text)

    def _by_annotation(self, group: AnyPodGroup, naming: Naming) -> str:
        """The problem with a field, by the annotation that the field comes from; empty if unknown."""
        key = self._where_asked(group, naming.field, naming.name) if naming.name else ""
        return f"{key}: {naming.problem}" if key else ""

    def _remark_once(self, group: AnyPodGroup, reason: str, remarks: tuple[str, ...]) -> None:
        for remark in remarks if self._is_new(group, reason, remarks) else ():
            self._record_on_group(group, reason, remark)

    def _is_new(self, group: AnyPodGroup, about: str, remarks: tuple[object, ...]) -> bool:
        key = (group.metadata.uid, about)
        if self._remarked.get(key, ()) == remarks:
            return False
        self._remarked[key] = remarks
        return True


def subject_of(group: AnyPodGroup) -> Subject:
    """A PodGroup as the subject of an event."""
    resource, metadata = resource_of(group), group.metadata
    return Subject(resource.api_version, resource.kind, metadata.namespace or "default", metadata.name, metadata.uid)


def _remarks_on(group: AnyPodGroup) -> tuple[str, ...]:
    try:
        return remarks_on(group)
    except BrokenExtension as error:
        logger.exception("failed to read object", extra={"object": key_of(group), "problem": str(error)})
        return (str(error),)


def _owner_of(group: AnyPodGroup) -> OwnerReference | None:
    return next(iter(group.metadata.owner_references or ()), None)
