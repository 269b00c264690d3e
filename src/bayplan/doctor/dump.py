"""An installation as a dump shows it. Its time is the newest moment that an object names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.cluster.loading import newest_moment
from bayplan.doctor.installation import Installation, InstalledNames
from bayplan.doctor.reading import LABEL, program_of, topologies_of_flavors
from bayplan.kube.client.versions import Served
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES

_PROGRAMS = ("Deployment", "DaemonSet")


def installation_in(
    objects: ObjectSet, names: InstalledNames, profiles: tuple[str, ...], *, read_at: float
) -> Installation:
    """What the objects tell; they were read at a moment, which counts where none of them names any."""
    own, namespaces = LABEL.partition("="), (names.namespace, names.agent_namespace)
    reports = Installation(read_at, objects=objects).reports
    return Installation(
        now=newest_moment(objects.pods, reports.values()) or read_at,
        names=names,
        served={NODE_RESOURCE_TOPOLOGIES: Served(NODE_RESOURCE_TOPOLOGIES)} if reports else {},
        objects=objects,
        programs=tuple(
            program_of(each, each["kind"], each["metadata"]["namespace"])
            for each in _of_kinds(objects, "apps", *_PROGRAMS)
            if each["metadata"].get("namespace") in namespaces
            and each["metadata"].get("labels", {}).get(own[0]) == own[2]
        ),
        profiles=profiles or Installation(read_at).profiles,
        flavors=topologies_of_flavors(_of_kinds(objects, "kueue.x-k8s.io", "ResourceFlavor")),
        is_dump=True,
    )


def _of_kinds(objects: ObjectSet, group: str, *kinds: str) -> Iterator[dict[str, Any]]:
    for each in objects.others:
        if each.kind in kinds and each.api_version.partition("/")[0] == group:
            yield each.decoded()
