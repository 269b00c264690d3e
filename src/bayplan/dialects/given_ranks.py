"""Invalid ranks in labels of gang members: not a number, or the rank of another member.

Users write `bayplan.io/rank`, and the index of plain pods in Kueue's groups. Such a pod is placed in the order of its
index or name (`gangs/ranks/ranks.py`). The remarks made here explain that in events and in warnings of commands.
"""

from __future__ import annotations

from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.state import pod_key
from bayplan.dialects.kueue import pod_set as kueue
from bayplan.dialects.own.members import GROUP
from bayplan.gangs.model import Gang
from bayplan.gangs.ranks.ranks import RANK
from bayplan.kube.errors import ObjectPath
from bayplan.kube.whole_number import whole_number
from bayplan.kube.wire.core_v1 import Pod

_Rank = tuple[str, str, int]
"""A gang, a group in it and a number."""


def rank_remarks(gang: Gang) -> list[ObjectRemark]:
    """Return remarks about the ranks that members of a gang were given."""
    ranks = GivenRanks()
    return [
        remark
        for group in gang.root.every_group()
        for pod in (*group.running, *group.pods)
        for remark in ranks.came(pod_key(pod), f"{gang.name} {group.name}", pod)
    ]


class GivenRanks:
    """The ranks given to pods that wait or have waited."""

    def __init__(self) -> None:
        self._holders: dict[_Rank, str] = {}
        self._ranks: dict[str, _Rank] = {}
        self._problems: dict[str, ObjectRemark] = {}

    def came(self, key: str, gang: str, pod: Pod) -> list[ObjectRemark]:
        """Take in a waiting member, and return remarks about its rank."""
        labels = pod.metadata.labels or {}
        label = next((each for each in (RANK, kueue.POD_INDEX) if each in labels), None)
        if not gang or label is None:
            return []
        what, group = ("rank", labels.get(GROUP, "")) if label == RANK else ("index", kueue.pod_set_of(pod))
        at = ObjectPath.of(pod).child("metadata").child("labels").key(label)
        number = whole_number(labels[label])
        if number is None:
            text = f'"{labels[label]}" is no {what} (expected a number such as 0): the pod follows those that have one'
            return self._noted(key, ObjectRemark(at, text))
        rank = gang, group, number
        holder = self._holders.setdefault(rank, key)
        if holder == key:
            self._ranks[key] = rank
            return []
        text = f'"{number}" is the {what} of pod {holder}, too: their names decide'
        return self._noted(key, ObjectRemark(at, text))

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
