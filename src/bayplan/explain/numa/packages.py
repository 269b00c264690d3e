"""Which zones are in one package (socket): reported by the node, or derived from distances.

A NodeResourceTopology can name a zone's parent; most do not. Then zones of one package are closer to each other than
the farthest zones. If all distances are equal, packages are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.cluster.reports.topology_report import UNKNOWN_DISTANCE

Packages = list[tuple[str, list[int]]]


def packages_of(distances: Mapping[int, Mapping[int, int]], parents: Mapping[int, str]) -> Packages:
    """Packages with a name and their zones; one nameless package if they are unknown."""
    zones = sorted(distances)
    if zones and all(zone in parents for zone in zones):
        by_parent: dict[str, list[int]] = {}
        for zone in zones:
            by_parent.setdefault(parents[zone], []).append(zone)
        return list(by_parent.items())
    clusters = _clusters(zones, distances)
    if len(clusters) in (1, len(zones)):
        return [("", zones)]
    return [(f"package {number}", members) for number, members in enumerate(clusters)]


def _clusters(zones: list[int], distances: Mapping[int, Mapping[int, int]]) -> list[list[int]]:
    """Zones connected by less than the largest distance, in ascending order."""
    others = [distances[zone][other] for zone in zones for other in zones if other != zone]
    if not others or UNKNOWN_DISTANCE in others:
        return [zones]
    farthest = max(others)
    clusters: list[list[int]] = []
    for zone in zones:
        near = [cluster for cluster in clusters if any(distances[zone][other] < farthest for other in cluster)]
        joined = sorted([zone, *(member for cluster in near for member in cluster)])
        clusters = [cluster for cluster in clusters if cluster not in near] + [joined]
    return sorted(clusters)
