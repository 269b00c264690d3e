"""Room for members that are still to come, on random clusters: it is had wherever it can be had, and costs no other
pod anything.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group, Segments
from tests.builders.gangs import gpu_pods
from tests.builders.objects import GPU, simple_pod
from tests.unit.gangs.test_cycle import racks

CASES = 60


def cluster_of(random: Random) -> dict[str, list[int]]:
    """GPUs of the nodes of each rack, two or three racks in a block."""
    names = [f"b{block}/r{block}{rack}" for block in range(3) for rack in range(random.randint(2, 3))]
    return {name: [random.randint(0, 3) for _ in range(random.randint(1, 3))] for name in names}


def gang_of(random: Random) -> Group:
    here, coming = random.randint(1, 4), random.randint(1, 4)
    like = simple_pod({GPU: 1}, "p-0")
    segments = here % 2 == 0 and coming % 2 == 0 and random.random() < 0.5
    return Group(
        pods=gpu_pods(here),
        minimum=None if segments else random.randint(1, here),
        required=random.choice(["rack", "block"]),
        preferred=random.choice([None, None if segments else "rack"]),
        segments=(Segments(2, "rack"),) if segments else (),
        coming=(like,) * coming,
    )


def room_of(cluster: dict[str, list[int]], root: Group, domain: str) -> int:
    """How many pods of such a gang a rack or a block holds: whole segments of each rack, if it has any."""
    inside = [sum(gpus) for name, gpus in cluster.items() if domain in name.split("/")]
    return sum(gpus - gpus % 2 if root.segments else gpus for gpus in inside)


def placed(cluster: dict[str, list[int]], root: Group) -> GangDecision:
    scheduler = racks(*(f"{name}: {' '.join(map(str, gpus))}" for name, gpus in cluster.items()))
    return schedule_gang(scheduler, Gang("ml/gang", root, "network"))


@pytest.mark.parametrize("chunk", range(4))
def test_room_is_had_where_it_can_be_had_and_costs_nothing(chunk: int) -> None:
    for number in range(chunk * CASES, (chunk + 1) * CASES):
        random = Random(number)
        cluster, root = cluster_of(random), gang_of(random)
        alone, found = placed(cluster, replace(root, coming=())), placed(cluster, root)
        assert {seat.pod for seat in found.seats} == {seat.pod for seat in alone.seats}, number
        assert found.status is alone.status, number
        assert found.preferred_domains == alone.preferred_domains, number
        if not found.seats:
            continue
        level = 0 if root.required == "block" else 1
        (domain,) = {seat.path[level] for seat in found.seats}
        size = len(found.seats) + len(root.coming)
        most = max(room_of(cluster, root, name.split("/")[level]) for name in cluster)
        if root.preferred is None or root.required == "rack":
            assert room_of(cluster, root, domain) >= min(size, most), number
