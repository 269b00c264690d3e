"""A cluster as the page shows it: one session to look at, and a session of its own for every question that decides.

A decision assumes pods while it thinks, so it gets a copy of the state (0.1 s at 5,000 nodes; building it anew takes
4 s). Looking and applying news exclude each other by a lock; deciding happens outside of it.
"""

from __future__ import annotations

from dataclasses import fields
from threading import RLock
from typing import Any, Protocol

from bayplan.cli.options.what_if import is_assumed
from bayplan.cli.shared.gang_objects import pod_groups
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.shared.workloads import group_by_owners
from bayplan.cli.web_answers.catalogue import GROUP, NAMESPACE, OTHER, POD, Catalogue
from bayplan.cli.web_answers.map_columns import MapColumns
from bayplan.cluster.pods.pod_class import PodClasses
from bayplan.cluster.state import ClusterState
from bayplan.kube.object_set import ObjectSet


class Opener(Protocol):
    """Makes a session of objects, with the owners of their pods if asked to."""

    def __call__(self, objects: ObjectSet, *, owners: bool, state: ClusterState | None = None) -> ClusterSession:
        """Open it."""


class Scene:
    """A cluster that stays as it is: a dump, or one moment of a simulation."""

    def __init__(self, objects: ObjectSet, open_session: Opener) -> None:
        self.lock = RLock()
        self._open = open_session
        self.session = open_session(objects, owners=False)
        # What decisions start from; to look at, pods are in the gangs that their owners mean.
        self._read = self.session.objects
        objects = self.session.objects = _copied(self._read)
        group_by_owners(objects, self.session.grouping)
        self.columns = MapColumns(self.session.state)
        self.catalogue = Catalogue(self.session.state.rows)
        groups: tuple[tuple[str, list[Any]], ...] = (
            (NAMESPACE, objects.namespaces),
            (POD, objects.pods),
            (GROUP, pod_groups(objects)),
            (OTHER, [*(each for each in objects.others if each.metadata.namespace), *objects.volcano_jobs]),
        )
        for kind, things in groups:
            for thing in things:
                self.catalogue.put(kind, thing)

    def problems(self) -> list[str]:
        """What users should know about the cluster's objects."""
        return self.session.problems()

    def deciding(self) -> ClusterSession:
        """A session that may be changed; of the cluster that the question assumes."""
        with self.lock:
            state = None if is_assumed() else self.session.state.copy()
            objects = _copied(self._read)
        if state is not None:
            # Classes are interned without a lock.
            state.classes = PodClasses(state.volumes.needs_of)
        return self._open(objects, owners=True, state=state)


def _copied(objects: ObjectSet) -> ObjectSet:
    """The same objects in lists and maps of their own, which a session may extend."""
    found = ObjectSet()
    for each in fields(ObjectSet):
        value = getattr(objects, each.name)
        setattr(found, each.name, value.copy() if isinstance(value, list | dict) else value)
    return found
