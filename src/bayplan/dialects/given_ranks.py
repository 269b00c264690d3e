"""Invalid ranks that users give to members of gangs by label: not a number, or the number of another member.

Such a pod is still placed, in the order of its index or its name (`gangs/ranks/ranks.py`). To explain the unexpected rank, this module
turns waiting pods into problems, which the announcer publishes as events.
"""

from __future__ import annotations

from bayplan.cluster.reports.topology_report import Problem
from bayplan.dialects.own.members import GROUP
from bayplan.gangs.ranks.ranks import RANK, given_rank
from bayplan.kube.errors import ObjectPath
from bayplan.kube.wire.core_v1 import Pod

_Rank = tuple[str, str, int]
"""A gang, a group in it and a number."""


class GivenRanks:
    """Who was given which rank, among pods that wait or waited here."""

    def __init__(self) -> None:
        self._holders: dict[_Rank, str] = {}
        self._ranks: dict[str, _Rank] = {}
        self._problems: dict[str, Problem] = {}

    def came(self, key: str, gang: str, pod: Pod) -> list[Problem]:
        """A pod that names a gang waits; what is wrong with the rank that it is given."""
        labels = pod.metadata.labels or {}
        if not gang or RANK not in labels:
            return []
        at = ObjectPath.of(pod).child("metadata").child("labels").key(RANK)
        number = given_rank(pod)
        if number is None:
            text = f'"{labels[RANK]}" is no rank (expected a number such as 0): the pod follows those that have one'
            return self._noted(key, Problem(at, text))
        rank = gang, labels.get(GROUP, ""), number
        holder = self._holders.setdefault(rank, key)
        if holder == key:
            self._ranks[key] = rank
            return []
        return self._noted(key, Problem(at, f'"{number}" is the rank of pod {holder}, too: their names decide'))

    def went(self, key: str) -> list[Problem]:
        """A pod is gone; what was wrong with its rank."""
        rank = self._ranks.pop(key, None)
        if rank is not None:
            del self._holders[rank]
        problem = self._problems.pop(key, None)
        return [] if problem is None else [problem]

    def _noted(self, key: str, problem: Problem) -> list[Problem]:
        self._problems[key] = problem
        return [problem]
