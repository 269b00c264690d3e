"""Planted gangs: drawn from a packing that exists, so a place certainly exists. Everything follows from one seed.

Nodes have 0 to 8 free GPUs. Groups of equal pods are put onto the nodes of one rack until it is as full as the form
says, and each group requires one rack. The form of a case is the same as that of the recordings in
`adversarial/planted_gangs`.
"""

from __future__ import annotations

from random import Random
from typing import Any

GPU = "nvidia.com/gpu"
FULL = {"mixed": 0.7, "tight": 0.94, "full": 1.0, "leaders": 0.72}
SIZES = (1, 1, 2, 2, 3, 3, 4, 4, 8)
BLOCK = 4


def planted(seed: int, form: str, racks: int, nodes: int) -> dict[str, Any]:
    """A case with so many racks of so many nodes; `form` is one of `FULL`."""
    random = Random(f"{seed}/{form}/{racks}/{nodes}")
    cluster: list[dict[str, Any]] = []
    groups: list[list[int]] = []
    for rack in range(racks):
        free = [random.randint(0, 8) for _ in range(nodes)]
        groups += _leader_and_workers(random, free) if form == "leaders" else _groups(random, free, FULL[form])
        labels = {"block": f"b{rack // BLOCK}", "rack": f"r{rack % BLOCK}"}
        cluster += [
            {"name": f"n{rack}-{number}", "labels": labels, "free": {GPU: gpus}} for number, gpus in enumerate(free)
        ]
    random.shuffle(groups)
    return {
        "id": f"planted-{seed}-{form}-{racks}x{nodes}",
        "levels": ["block", "rack"],
        "nodes": cluster,
        "gang": {
            "subGroups": [
                {"name": f"g{number}", "required": "rack", "gpusPerPod": gpus} for number, gpus in enumerate(groups)
            ]
        },
        "expected": {"feasible": True},
    }


def any_size(seed: int, form: str) -> dict[str, Any]:
    """A case of 16 to 256 nodes."""
    random = Random(seed)
    return planted(seed, form, random.choice((4, 6, 8, 12, 16)), random.choice((4, 8, 16)))


def _groups(random: Random, free: list[int], share: float) -> list[list[int]]:
    left, wanted = list(free), share * sum(free)
    groups: list[list[int]] = []
    while sum(free) - sum(left) < wanted:
        size = random.choice([each for each in SIZES if each <= max(left)])
        number = _put(random, left, size, random.randint(1, len(free)))
        groups.append([size] * number)
    return groups


def _leader_and_workers(random: Random, free: list[int]) -> list[list[int]]:
    left, wanted = list(free), FULL["leaders"] * sum(free)
    if not wanted:
        return []
    group = [random.choice([each for each in SIZES if each <= max(left)])]
    _put(random, left, group[0], 1)
    worker = random.choice((1, 2, 2))
    while sum(free) - sum(left) < wanted and _put(random, left, worker, 1):
        group.append(worker)
    return [group]


def _put(random: Random, left: list[int], size: int, most: int) -> int:
    """Pods of a size onto nodes that have room, any of them; how many there were."""
    for number in range(most):
        fitting = [node for node, free in enumerate(left) if free >= size]
        if not fitting:
            return number
        left[random.choice(fitting)] -= size
    return most
