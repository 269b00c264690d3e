"""A gang's pods as a picture shows them: pods of one group and one segment are a party."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayplan.explain.topology.levels import ranks_text
from bayplan.gangs.model import Seat


@dataclass(frozen=True, slots=True)
class Party:
    """Pods of one group and segment, with the ranks on each node; nameless if the gang has neither."""

    name: str
    ranks: Mapping[str, tuple[int, ...]]

    def words(self, ranks: Sequence[int]) -> str:
        """Some of its ranks: `ranks 4-7 · workers, segment 1`."""
        numbers = f"rank{'s' if len(ranks) > 1 else ''} {ranks_text(ranks)}"
        return f"{numbers} · {self.name}" if self.name else numbers


def parties_of(seats: Sequence[Seat]) -> tuple[Party, ...]:
    """The parties of a gang, in the order of their first rank."""
    found: dict[tuple[str, int | None], dict[str, list[int]]] = {}
    for seat in sorted(seats, key=lambda each: each.rank):
        found.setdefault((seat.group, seat.segment), {}).setdefault(seat.node, []).append(seat.rank)
    return tuple(
        Party(
            ", ".join([*([group] if group else []), *([] if segment is None else [f"segment {segment}"])]),
            {node: tuple(ranks) for node, ranks in by_node.items()},
        )
        for (group, segment), by_node in found.items()
    )
