"""The Memory Manager's static policy: which zones, or groups of zones, hold a container's memory and huge pages.

All memory types of a container go to the same zones. A zone serves either allocations of its own or those of exactly
one group of zones, until nothing is allocated in it any more. `MemoryLedger` holds what one admission changes. What
makes this manager special: if no zones fit, it tells the Topology Manager nothing at all, and the pod fails only when
memory is handed out, whatever the policy. `replay.py` is the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bayplan.cluster.pods.request import Amounts, ContainerRequest, PodRequest, Role, is_memory, sidecar_aware_sum
from bayplan.engine.kubelet.cpu import is_guaranteed_alone
from bayplan.engine.kubelet.masks import bits, subsets, sums_over, zones_in
from bayplan.engine.kubelet.merge import Hint
from bayplan.engine.kubelet.node import NodeKnowledge
from bayplan.engine.kubelet.verdict import MemoryBlock, NearestMiss, undecided, unexpected
from bayplan.engine.kubelet.versions import RULES

GROUP_VIOLATED = "[memorymanager] preferred hint violates NUMA node allocation"


class _Problems(NamedTuple):
    """The kubelet's words for having no zones at all and for having only worse ones than promised."""

    none_found: str
    none_preferred: str


_WITHOUT_AFFINITY = _Problems(
    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available",
    "[memorymanager] failed to find the default preferred hint",
)
_WIDENING = _Problems(
    "[memorymanager] failed to find NUMA nodes to extend the current topology hint",
    "[memorymanager] failed to find the extended preferred hint",
)


@dataclass(slots=True)
class MemoryLedger:
    """Memory during one admission: free bytes by (zone, type), groups and assignment counts by zone.

    `reusable` counts what finished init containers left, by (zones, type): only identical zones can re-use it.
    """

    free: dict[tuple[int, str], int]
    group: dict[int, int]
    assignments: dict[int, int]
    reusable: dict[tuple[int, str], int] = field(default_factory=dict)
    owned: dict[str, list[MemoryBlock]] = field(default_factory=dict)

    @classmethod
    def of(cls, node: NodeKnowledge) -> MemoryLedger:
        """The state of the node before the pod."""
        return cls(
            free={(zone, name): amount for zone, memory in node.memory.items() for name, amount in memory.free.items()},
            group={zone: 1 << zone for zone in node.zone_ids} | {zone: at.group for zone, at in node.memory.items()},
            assignments=dict.fromkeys(node.zone_ids, 0) | {zone: at.assignments for zone, at in node.memory.items()},
        )

    def free_in(self, mask: int, memory_type: str) -> int:
        """Free bytes of one type in these zones."""
        return sum(self.free.get((zone, memory_type), 0) for zone in bits(mask))


def manages(node: NodeKnowledge, pod: PodRequest) -> bool:
    """Whether the Memory Manager has anything to do with this pod."""
    if not node.settings.memory_static or not pod.guaranteed:
        return False
    return pod.pod_level is None or node.settings.pod_level_managers


def memory_requests(node: NodeKnowledge, pod: PodRequest, container: ContainerRequest) -> dict[str, int]:
    """Bytes by memory type that a container of a managed pod requests. Types that no zone knows do not matter."""
    if pod.pod_level is not None and not is_guaranteed_alone(container):
        return {}
    return known_memory(node, container.requests)


def memory_requests_of_pod(node: NodeKnowledge, pod: PodRequest) -> dict[str, int]:
    """The most at any one time, of the types that application containers request."""
    by_application = {name for container in pod.containers if container.role is Role.APP for name in container.requests}
    totals = sidecar_aware_sum(pod.containers)
    return known_memory(node, {name: amount for name, amount in totals.items() if name in by_application})


def known_memory(node: NodeKnowledge, amounts: Amounts) -> dict[str, int]:
    """The amounts that are memory of a type which some zone has."""
    return {
        name: amount
        for name, amount in amounts.items()
        if is_memory(name) and any(name in memory.allocatable for memory in node.memory.values())
    }


def memory_hints(node: NodeKnowledge, ledger: MemoryLedger, requests: Mapping[str, int]) -> list[Hint]:
    """Zones that could hold all the memory types together, in the kubelet's order."""
    zone_ids = tuple(sorted(node.memory))
    masks = subsets(zone_ids).masks
    could_hold = [
        (amount, sums_over(masks, {zone: memory.allocatable.get(name, 0) for zone, memory in node.memory.items()}))
        for name, amount in requests.items()
    ]
    holds_now = [
        (name, amount, sums_over(masks, {zone: ledger.free.get((zone, name), 0) for zone in zone_ids}))
        for name, amount in requests.items()
    ]
    large_enough = [mask for mask in masks if all(total[mask] >= amount for amount, total in could_hold)]
    fewest = large_enough[0].bit_count() if large_enough else len(zone_ids)
    return [
        Hint(mask, mask.bit_count() == fewest)
        for mask in large_enough
        if not closed(ledger, mask)
        and all(free[mask] + ledger.reusable.get((mask, name), 0) >= amount for name, amount, free in holds_now)
    ]


def closed(ledger: MemoryLedger, mask: int) -> bool:
    """Whether groups keep new memory out of these zones, however much is free: a zone in a group cannot serve alone."""
    alone = mask.bit_count() == 1
    return ledger.group[mask.bit_length() - 1] != mask if alone else breaks_groups(ledger, mask)


def breaks_groups(ledger: MemoryLedger, mask: int) -> bool:
    """Whether several zones would be used together although one of them is in use in another constellation."""
    if mask.bit_count() == 1:
        return False
    return any(ledger.assignments[zone] > 0 and ledger.group[zone] != mask for zone in bits(mask))


def zones_for_memory(node: NodeKnowledge, ledger: MemoryLedger, requests: Mapping[str, int], hint: Hint) -> int:
    """The zones that really get the memory: the merged ones, or wider ones around them if those are too full."""
    chosen = hint
    if chosen.mask is None:
        candidates = memory_hints(node, ledger, requests) if requests else []
        chosen = _best(node, candidates, hint, nearest_memory(ledger, requests, 0), _WITHOUT_AFFINITY)
    mask = chosen.mask or 0
    if any(ledger.free_in(mask, name) < amount for name, amount in requests.items()):
        wider = [one for one in memory_hints(node, ledger, requests) if mask & ~(one.mask or 0) == 0]
        mask = _best(node, wider, chosen, nearest_memory(ledger, requests, mask), _WIDENING).mask or 0
    if breaks_groups(ledger, mask):
        raise unexpected(GROUP_VIOLATED, nearest_memory(ledger, requests, mask))
    return mask


def allocate_memory(
    node: NodeKnowledge, ledger: MemoryLedger, pod: PodRequest, container: ContainerRequest, hint: Hint
) -> None:
    """Charge a container's memory to its zones, after what earlier init containers left in the same zones."""
    requests = memory_requests(node, pod, container)
    serves_nothing = pod.pod_level is not None and RULES[node.settings.version].serves_containers_without_memory
    if not requests and not serves_nothing:
        return  # else a report that leaves out memory: nothing here is the Memory Manager's
    mask = zones_for_memory(node, ledger, requests, hint)
    blocks = [MemoryBlock(name, amount, zones_in(mask)) for name, amount in requests.items()]
    for name, amount in requests.items():
        left = ledger.reusable.get((mask, name), 0)
        charge(ledger, mask, name, max(0, amount - left))
        if container.role is Role.INIT:
            ledger.reusable[mask, name] = max(left, amount)
        elif left:
            ledger.reusable[mask, name] = max(0, left - amount)
    _shrink_init_blocks(ledger, pod, container, blocks)
    if blocks:
        ledger.owned[container.name] = blocks


def charge(ledger: MemoryLedger, mask: int, memory_type: str, amount: int) -> None:
    """Charge memory to a group of zones, lowest zone first; every zone counts one more assignment."""
    for zone in bits(mask):
        ledger.assignments[zone] += 1
        ledger.group[zone] = mask
        here = min(amount, ledger.free.get((zone, memory_type), 0))
        if here:
            ledger.free[zone, memory_type] -= here
            amount -= here


def nearest_memory(ledger: MemoryLedger, requests: Mapping[str, int], mask: int) -> NearestMiss | None:
    """The type that lacks the largest share, in these zones or, without any, in the whole node."""
    mask = mask or sum(1 << zone for zone in ledger.group)
    worst: tuple[float, NearestMiss] | None = None
    for name, want in requests.items():
        have = ledger.free_in(mask, name)
        share = (want - have) / want if want else 0.0
        if worst is None or share > worst[0]:
            zone = mask.bit_length() - 1 if mask.bit_count() == 1 else None
            worst = (share, NearestMiss(name, zone, have, want))
    return worst[1] if worst else None


def _best(
    node: NodeKnowledge, candidates: list[Hint], asked: Hint, nearest_miss: NearestMiss | None, problems: _Problems
) -> Hint:
    """Preferred before others, then narrower, then lower zones; what was preferred must not become less than that."""
    if not candidates:
        if not subsets(tuple(sorted(node.memory))).complete:
            raise undecided(len(node.memory), nearest_miss)
        raise unexpected(problems.none_found, nearest_miss)
    best = min(candidates, key=lambda hint: (not hint.preferred, (hint.mask or 0).bit_count(), hint.mask))
    if asked.preferred and not best.preferred:
        raise unexpected(problems.none_preferred, nearest_miss)
    return best


def _shrink_init_blocks(
    ledger: MemoryLedger, pod: PodRequest, container: ContainerRequest, blocks: list[MemoryBlock]
) -> None:
    """Deduct what a container reuses from the blocks of the init containers before it."""
    for block in blocks:
        to_cover = block.size
        for earlier in pod.containers:
            if earlier.name == container.name or earlier.role is Role.APP:
                break
            if earlier.role is Role.SIDECAR:
                continue
            own = ledger.owned.get(earlier.name, [])
            for index, candidate in enumerate(own):
                if (candidate.type, candidate.zones) == (block.type, block.zones):
                    covered = min(candidate.size, to_cover)
                    own[index] = MemoryBlock(block.type, candidate.size - covered, block.zones)
                    to_cover -= covered
