"""Nodes on which amounts alone decided about a class of pods: no second exact placement is needed until they change."""

from __future__ import annotations

from dataclasses import dataclass, field

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.scheduling.profile import Profile
from bayplan.services.edges.bounded_dict import BoundedDict

MOST_CLASSES = 1000
MOST_ROWS = 1000


@dataclass(slots=True)
class _Counted:
    cursors: tuple[int, int]
    rows: set[int] = field(default_factory=set)


class CountedRows:
    """Rows by profile and class."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._found: BoundedDict[tuple[str, PodClass], _Counted] = BoundedDict(MOST_CLASSES)

    def of(self, pod: PodClass, profile: Profile) -> set[int]:
        """The unchanged rows of a class; the caller adds those that it finds out about."""
        logs = self._state.node_log, self._state.usage_log
        key, ends = (profile.name, pod), (logs[0].end, logs[1].end)
        found = self._found.get(key)
        if found is None or len(found.rows) > MOST_ROWS:
            found = self._found[key] = _Counted(ends)
        elif found.cursors != ends:
            for log, cursor in zip(logs, found.cursors, strict=True):
                changed = log.since(cursor)
                found.rows = set() if changed is None else found.rows.difference(changed.tolist())
            found.cursors = ends
        return found.rows
