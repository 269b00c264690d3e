"""Pods of one shape on a few nodes, without NumPy, whose calls would take longer than the work: 5 us instead of 30.

In come the nodes' slots and what they have free, as lists, out goes how many pods each node takes (`Put`), in the order
of nodes; None if there is not enough room. The results are those of `nodes.py` for many nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

Put = list[tuple[int, int]]
"""Nodes by number with the pods that they take, ascending."""
Takes = Sequence[tuple[int, float]]
"""The resources that one pod takes, by number."""
Free = Sequence[Sequence[float]]
"""What nodes have, by resource."""


def on_the_tightest(number: int, slots: Sequence[int], free: Free, takes: Takes, left: Sequence[float]) -> Put | None:
    """Pods on the nodes with the least `left` that have room."""
    amounts = [(free[resource], amount) for resource, amount in takes]
    found: Put = []
    for at in sorted(range(len(slots)), key=left.__getitem__):
        room = min(slots[at], number)
        for here, amount in amounts:
            if room * amount > here[at]:
                room = int(here[at] // amount)
        if room > 0:
            found.append((at, room))
            number -= room
            if not number:
                found.sort()
                return found
    return None


def on_the_roomiest(number: int, slots: Sequence[int], free: Free, takes: Takes) -> Put | None:
    """Pods on few nodes: the roomiest are filled, and the tightest that holds them takes the rest."""
    rooms = list(slots)
    for resource, amount in takes:
        here = free[resource]
        rooms = [room if room * amount <= has else int(has // amount) for room, has in zip(rooms, here, strict=True)]
    if sum(room for room in rooms if room > 0) < number:
        return None
    found: Put = []
    order = sorted(range(len(rooms)), key=rooms.__getitem__, reverse=True)
    for place, at in enumerate(order):
        if rooms[at] > number:
            rest = min((each for each in order[place:] if rooms[each] >= number), key=lambda each: (rooms[each], each))
            found.append((rest, number))
            number = 0
        elif rooms[at] > 0:
            found.append((at, rooms[at]))
            number -= rooms[at]
        if not number:
            break
    found.sort()
    return found
