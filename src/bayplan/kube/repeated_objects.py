"""Objects of a dump whose kind, namespace and name another one has already: only the first of them counts.

In comes an `ObjectSet` of a cluster; what is left out of it is in `left_out`. Of node reports (with a remark of
`cluster/loading.py`) and Topologies the last one counts instead.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from bayplan.kube.errors import TWICE, InvalidObject, ObjectPath
from bayplan.kube.object_set import MOST_SEARCHES, ObjectSet, OtherObject
from bayplan.kube.wire.meta_v1 import WireObject

_Thing = WireObject | OtherObject


def leave_out_repeated(objects: ObjectSet) -> None:
    """Keep the first object of each kind and name."""
    repeated: list[_Thing] = []
    for group in _groups(objects):
        known: dict[Hashable, _Thing] = {}
        again = [each for each in group if known.setdefault(_identity(each), each) is not each]
        if again:
            repeated += again
            group[:] = known.values()
    # The file of an object takes a search: those of thousands are not named.
    named = [_with_the_file(objects, each) for each in repeated[:MOST_SEARCHES]]
    objects.left_out += [*named, *map(_twice, repeated[MOST_SEARCHES:])]


def _groups(objects: ObjectSet) -> tuple[list[Any], ...]:
    of_cluster = (objects.nodes, objects.namespaces, objects.hyper_nodes, objects.storage, objects.priority_classes)
    gangs = (objects.gangs, objects.other_gangs, objects.volcano_jobs, objects.kubernetes_workloads)
    return (*of_cluster, objects.pods, *gangs, objects.others)


def _identity(thing: _Thing) -> Hashable:
    kind = (thing.api_version.rpartition("/")[0], thing.kind) if isinstance(thing, OtherObject) else type(thing)
    return kind, thing.metadata.namespace or "default", thing.metadata.name


def _twice(thing: _Thing) -> InvalidObject:
    at = ObjectPath.of(thing)
    if isinstance(thing, OtherObject):
        at = ObjectPath(f"{thing.kind} {at.subject.partition(' ')[2]}")
    return InvalidObject(at, TWICE)


def _with_the_file(objects: ObjectSet, thing: _Thing) -> InvalidObject:
    if isinstance(thing, OtherObject):
        return objects.naming_the_file_of(_twice(thing), thing)
    return objects.naming_the_file(_twice(thing), thing)
