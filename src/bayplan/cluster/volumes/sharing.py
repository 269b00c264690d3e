"""Claims that several pods of a gang use: one volume serves them all, so all of them go where it is.

`places_for` says where the volume of such a claim can be, `plan_together` gives each claim its volume once the nodes of
its pods are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.labels import LabelColumns
from bayplan.cluster.volumes.catalogue import Volumes
from bayplan.cluster.volumes.needs import UnboundClaim, VolumePlan

_Claim = TypeVar("_Claim")


class Place(msgspec.Struct, frozen=True, eq=False):
    """Rows that one volume serves: any of the free `volumes`, or one that is provisioned there if there are none."""

    rows: NDArray[np.intp]
    volumes: frozenset[int] = frozenset()


def places_for(volumes: Volumes, labels: LabelColumns, claim: UnboundClaim) -> list[Place]:
    """Where the one volume of a claim can be, each place once."""
    return [*_static_places(volumes, claim), *_provisioned_places(volumes, labels, claim)]


def _static_places(volumes: Volumes, claim: UnboundClaim) -> Iterator[Place]:
    """The nodes that free volumes reach. Volumes that the same nodes reach are one place."""
    numbers_by_reach: dict[bytes, tuple[NDArray[np.intp], set[int]]] = {}
    for number, rows in volumes.static.usable_for(claim) if not claim.selected else ():
        numbers_by_reach.setdefault(rows.tobytes(), (rows, set()))[1].add(number)
    return (Place(rows, frozenset(numbers)) for rows, numbers in numbers_by_reach.values())


def _provisioned_places(volumes: Volumes, labels: LabelColumns, claim: UnboundClaim) -> Iterator[Place]:
    """The segments in which a provisioner can make the volume: nodes with equal values of its driver's labels."""
    allowed, room = volumes.provisioned_on(claim)
    rows = np.flatnonzero(allowed & (room >= claim.size))
    if not len(rows):
        return
    keys = volumes.topology_keys(claim.storage_class)
    codes = np.array([labels.codes(key)[rows] for key in keys]).reshape(len(keys), len(rows))
    _, segment_of = np.unique(codes, axis=1, return_inverse=True) if keys else (None, np.zeros(len(rows), np.intp))
    segment_of = segment_of.reshape(-1)
    order = np.argsort(segment_of, kind="stable")
    for segment in np.split(rows[order], np.flatnonzero(np.diff(segment_of[order])) + 1):
        yield Place(segment)


def plan_together(
    volumes: Volumes, labels: LabelColumns, rows_of: Mapping[str, Collection[int]]
) -> dict[str, VolumePlan] | None:
    """Give each claim a volume that reaches all rows of its pods, or have it provisioned for them.

    None if a claim finds neither.
    """
    waiting = sorted((unbound, key) for key in rows_of if (unbound := volumes.unbound(key)) is not None)
    usable = {key: _reaching(volumes, unbound, rows_of[key]) for unbound, key in waiting}
    chosen = distinct(usable)
    plans: dict[str, VolumePlan] = {}
    for unbound, key in waiting:
        if key in chosen:
            plans[key] = VolumePlan(bindings=((key, volumes.static.name(chosen[key])),))
        elif unbound.selected or any(
            np.isin(list(rows_of[key]), place.rows).all() for place in _provisioned_places(volumes, labels, unbound)
        ):
            plans[key] = VolumePlan(provisions=(key,))
        else:
            return None
    return plans


def _reaching(volumes: Volumes, claim: UnboundClaim, wanted: Collection[int]) -> list[int]:
    """The volumes for a claim that all wanted rows reach, smallest first."""
    if claim.selected:
        return []
    return [number for number, rows in volumes.static.usable_for(claim) if np.isin(list(wanted), rows).all()]


def distinct(usable: Mapping[_Claim, Sequence[int]]) -> dict[_Claim, int]:
    """Give as many claims as possible a volume of their own, earlier claims and earlier volumes first."""
    claim_of: dict[int, _Claim] = {}

    def found(claim: _Claim, seen: set[int]) -> bool:
        for number in usable[claim]:
            if number in seen:
                continue
            seen.add(number)
            if number not in claim_of or found(claim_of[number], seen):
                claim_of[number] = claim
                return True
        return False

    for claim in usable:
        found(claim, set())
    return {claim: number for number, claim in claim_of.items()}
