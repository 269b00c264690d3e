"""KAI's groups of a LeaderWorkerSet: one per replica of it, with the leader and the workers, or segments of them, as
sub-groups.

A worker's segment follows from its index. Where the workers without the leader divide evenly, the leader is one more
pod in the first segment; else it counts as the first pod of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bayplan.compat.kai.grouping.metadata import (
    NO_CONSTRAINT,
    SEGMENT_SIZE,
    KaiCase,
    KaiConstraint,
    KaiGroup,
    KaiSubGroup,
    check_number,
    segment_constraint,
    usual_group,
    wrong_pod,
)
from bayplan.gangs.ranks.ranks import WORKER_INDEX
from bayplan.grouping.raw import (
    RawObject,
    Reference,
    WrongValue,
    annotations_of,
    labels_of,
    look_up,
    map_at,
    number_at,
    text_at,
)

SIZE = "leaderworkerset.sigs.k8s.io/size"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
TEMPLATE = ("spec", "leaderWorkerTemplate")
LEADER_WORKER, LEADER_EXCLUDED = "LeaderWorker", "LeaderExcluded"


def leader_worker_set(case: KaiCase) -> KaiGroup:
    """The group of one leader and its workers."""
    group = usual_group(case)
    size = number_at(case.owner, (*TEMPLATE, "size"))
    if size is None or size <= 0:
        raise WrongValue("spec.leaderWorkerTemplate.size", size, "must be written, and 1 or more")
    policy = text_at(case.owner, ("spec", "startupPolicy"))
    if policy == "LeaderReady":
        size = _size_once_leader_is_ready(case.pod, size)
    elif policy not in (None, "LeaderCreated"):
        raise WrongValue("spec.startupPolicy", policy, "must be LeaderCreated or LeaderReady")
    index = labels_of(case.pod).get(GROUP_INDEX, "")
    name = f"{group.name}-group-{int(index)}" if index.isdecimal() else group.name
    return replace(group, name=name, min_available=size, sub_groups=tuple(_sub_groups(case, size)))


def _size_once_leader_is_ready(pod: RawObject, size: int) -> int:
    """Only the leader until it has a node, because the workers are created after that."""
    if _is_leader(pod) and not look_up(pod, ("spec", "nodeName")):
        return 1
    written = annotations_of(pod).get(SIZE, "")
    return int(written) if written.removeprefix("-").isdecimal() else size


def _is_leader(pod: RawObject) -> bool:
    return labels_of(pod).get(WORKER_INDEX) == "0"


def _sub_groups(case: KaiCase, size: int) -> list[KaiSubGroup]:
    segment = _segment_size(case.owner, size)
    if segment is not None:
        return _segmented(case, size, segment)
    name, leads = Reference.of(case.pod).name, _is_leader(case.pod)
    leader = KaiSubGroup("leader", 1, pods=(name,) if leads else ())
    if size < 2:
        return [leader]
    return [leader, KaiSubGroup("workers", size - 1, pods=() if leads else (name,))]


def _segment_size(owner: RawObject, size: int) -> int | None:
    """From the set's own sub-group policy, else from an annotation on it, else from one on its worker template."""
    segment = number_at(owner, (*TEMPLATE, "subGroupPolicy", "subGroupSize"))
    if segment is None:
        template = annotations_of(map_at(owner, (*TEMPLATE, "workerTemplate")))
        text = annotations_of(owner).get(SEGMENT_SIZE, template.get(SEGMENT_SIZE))
        if text is None:
            return None
        try:
            segment = int(text)
        except ValueError:
            raise WrongValue(SEGMENT_SIZE, text, "must be a whole number") from None
    if not 1 < segment <= size:
        raise WrongValue("the size of segments", segment, f"must be from 2 to the {size} pods of the group")
    return segment


@dataclass(frozen=True, slots=True)
class _Cut:
    """A group cut into segments."""

    size: int
    segment: int

    @property
    def leader_is_extra(self) -> bool:
        """Whether the workers divide evenly without the leader."""
        return (self.size - 1) % self.segment == 0

    def number_of(self, worker: int) -> int:
        """The segment of a worker; the leader's is the first."""
        if worker == 0:
            return 0
        return (worker - 1 if self.leader_is_extra else worker) // self.segment

    def sizes(self) -> list[int]:
        """Pods in each segment, without an extra leader (which KAI counts as one more pod if there is only one
        segment).
        """
        segments = self.number_of(self.size - 1) + 1
        last = sum(self.number_of(worker) == segments - 1 for worker in range(self.size))
        return [self.segment] * (segments - 1) + [last]


def _segmented(case: KaiCase, size: int, segment: int) -> list[KaiSubGroup]:
    check_number(size)
    cut = _Cut(size, segment)
    worker = labels_of(case.pod).get(WORKER_INDEX, "")
    if not worker.isdecimal():
        raise wrong_pod(
            case.pod, f'metadata.labels["{WORKER_INDEX}"]', worker, "must be a number: which segment is the pod in?"
        )
    described = look_up(case.owner, (*TEMPLATE, "workerTemplate")) is not None
    template = map_at(case.owner, (*TEMPLATE, "workerTemplate"))
    constraint = segment_constraint(case.pod, template, case.owner) if described else NO_CONSTRAINT
    policy = text_at(case.owner, (*TEMPLATE, "subGroupPolicy", "subGroupPolicyType")) or LEADER_WORKER
    own = cut.number_of(int(worker))
    name, leads = Reference.of(case.pod).name, _is_leader(case.pod)
    if policy == LEADER_EXCLUDED:
        return _leader_apart(cut, constraint, name, None if leads else own)
    return _leader_in_first(cut, constraint, name, own, leads=leads)


def _leader_apart(cut: _Cut, constraint: KaiConstraint, name: str, own: int | None) -> list[KaiSubGroup]:
    """The leader in a sub-group of its own; KAI asks that the workers divide evenly."""
    if not cut.leader_is_extra:
        problem = f"must divide the {cut.size - 1} workers if the leader is excluded"
        raise WrongValue("the size of segments", cut.segment, problem)
    leader = KaiSubGroup("leader", 1, pods=(name,) if own is None else ())
    return [leader, *_segments(cut.sizes(), constraint, name, own)]


def _leader_in_first(cut: _Cut, constraint: KaiConstraint, name: str, own: int, *, leads: bool) -> list[KaiSubGroup]:
    """The first segment holds the leader and its workers as sub-groups."""
    sizes = cut.sizes()
    if cut.leader_is_extra:
        sizes[0] += 1
    segments = _segments(sizes, constraint, name, own or None)
    leader = KaiSubGroup("leader", 1, segments[0].name, (name,) if leads else ())
    workers = KaiSubGroup("workers", sizes[0] - 1, segments[0].name, (name,) if own == 0 and not leads else ())
    return [*segments, leader, workers]


def _segments(sizes: list[int], constraint: KaiConstraint, name: str, own: int | None) -> list[KaiSubGroup]:
    return [
        KaiSubGroup(f"segment-{number}", size, pods=(name,) if number == own else (), constraint=constraint)
        for number, size in enumerate(sizes)
    ]
