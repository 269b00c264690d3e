"""Invalid ranks in labels of gang members: not a number, or the rank of another member.

Such a pod is placed in the order of its index or name (`gangs/ranks/ranks.py`). The remarks made here explain that in
events.
"""

from __future__ import annotations

from bayplan.cluster.remarks import ObjectRemark
from bayplan.dialects.own.members import GROUP
from bayplan.gangs.ranks.ranks import RANK, given_rank
from bayplan.kube.errors import ObjectPath
from bayplan.kube.wire.core_v1 import Pod

_Rank = tuple[str, str, int]
"""A gang, a group in it and a number."""


class GivenRanks:
    """The ranks given to pods that wait or have waited."""

    def __init__(self) -> None:
        self._holders: dict[_Rank, str] = {}
        self._ranks: dict[str, _Rank] = {}
        self._problems: dict[str, ObjectRemark] = {}

    def came(self, key: str, gang: str, pod: Pod) -> list[ObjectRemark]:
        """Take in a waiting member, and return remarks about its rank."""
        labels = pod.metadata.labels or {}
        if not gang or RANK not in labels:
            return []
        at = ObjectPath.of(pod).child("metadata").child("labels").key(RANK)
        number = given_rank(pod)
        if number is None:
            text = f'"{labels[RANK]}" is no rank (expected a number such as 0): the pod follows those that have one'
            return self._noted(key, ObjectRemark(at, text))
        rank = gang, labels.get(GROUP, ""), number
        holder = self._holders.setdefault(rank, key)
        if holder == key:
            self._ranks[key] = rank
            return []
        return self._noted(key, ObjectRemark(at, f'"{number}" is the rank of pod {holder}, too: their names decide'))

    def went(self, key: str) -> list[ObjectRemark]:
        """Forget a pod, and return the remarks about its rank."""
        rank = self._ranks.pop(key, None)
        if rank is not None:
            del self._holders[rank]
        problem = self._problems.pop(key, None)
        return [] if problem is None else [problem]

    def _noted(self, key: str, problem: ObjectRemark) -> list[ObjectRemark]:
        self._problems[key] = problem
        return [problem]
