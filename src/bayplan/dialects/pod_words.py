"""Labels and annotations that fail to name a gang: misspelt keys, and labels written as annotations or the reverse.

A pod with a misspelt key stands alone, and its gang waits for it. So each key that resembles a known one becomes an
`ObjectRemark`: an event on a cluster, a warning in commands. Keys that other systems know and bayplan does not read are
listed, so that they are not called misspelt.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from bayplan.cluster.pods.pod_class import MOST_ZONES
from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.reports.pod_zones import NUMA_ZONES
from bayplan.dialects.coscheduling import pod_group as coscheduling
from bayplan.dialects.dialect import TOPOLOGY
from bayplan.dialects.kai import pod_group as kai
from bayplan.dialects.kueue import pod_set as kueue
from bayplan.dialects.misspelt import MOST_JUDGED, KeyFamily, complaint_about, judged
from bayplan.dialects.own.members import GROUP, POD_GROUP
from bayplan.dialects.own.pod_group import EXCLUSIVE_TOPOLOGY, KUBERNETES_WORKLOAD, TOPOLOGY_KIND
from bayplan.dialects.volcano import pod_group as volcano
from bayplan.gangs.ranks.ranks import RANK, SEGMENT
from bayplan.kube.errors import ObjectPath
from bayplan.kube.volcano_annotations import DECISION, POLICY
from bayplan.kube.wire.core_v1 import Pod

OWN_PREFIX = "bayplan.io/"
# All keys of bayplan's own on pods, owners and PodGroups.
OWN_FAMILY = KeyFamily(
    OWN_PREFIX,
    (
        POD_GROUP,
        GROUP,
        RANK,
        SEGMENT,
        TOPOLOGY,
        KUBERNETES_WORKLOAD,
        EXCLUSIVE_TOPOLOGY,
        TOPOLOGY_KIND,
        NUMA_ZONES,
        MOST_ZONES,
        *(OWN_PREFIX + name for name in ("gang", "grouped", "parallelism", "path", "numa-amounts", "runs-for")),
        *(OWN_PREFIX + name for name in ("objective", "patience", "placement", "domain-placement")),
    ),
    re.compile(""),
)
_OF_PODS = (POD_GROUP, GROUP, RANK, SEGMENT, TOPOLOGY, MOST_ZONES, OWN_PREFIX + "gang")
_FAMILIES = (
    replace(OWN_FAMILY, told=_OF_PODS),
    KeyFamily("scheduling.x-k8s.io/", (coscheduling.POD_GROUP,)),
    KeyFamily(
        "scheduling.volcano.sh/",
        (volcano.GROUP_NAMES[0], *(f"scheduling.volcano.sh/{name}" for name in ("group-min-member", "queue-name"))),
    ),
    KeyFamily(
        "volcano.sh/",
        (
            POLICY,
            DECISION,
            volcano.TASK,
            *(
                f"volcano.sh/{name}"
                for name in (
                    "job-name",
                    "job-namespace",
                    "job-version",
                    "job-retry-count",
                    "task-index",
                    "partition-id",
                    "queue-name",
                    "template-uid",
                    "preemptable",
                    "qos-level",
                    "network-topology-mode",
                    "network-topology-highest-tier",
                )
            ),
        ),
    ),
    KeyFamily(
        kai.SUB_GROUP.partition("/")[0] + "/",
        (
            kai.SUB_GROUP,
            *(f"kai.scheduler/{name}" for name in ("queue", "node-pool", "preemptibility", "top-owner-metadata")),
        ),
        never_meant="kai.scheduler/topology",
    ),
    KeyFamily(
        kueue.PREFIX + "pod-group-",
        (
            kueue.POD_GROUP,
            kueue.TOTAL_COUNT,
            kueue.FAST_ADMISSION,
            *(kueue.PREFIX + f"pod-group-{name}" for name in ("pod-index", "pod-index-label", "serving")),
        ),
    ),
)
READ_FROM_LABELS = (POD_GROUP, GROUP, coscheduling.POD_GROUP, kai.SUB_GROUP, kueue.POD_GROUP)
PLACEMENT_WORDS = (*kai.TOPOLOGY_KEYS, *kueue.TOPOLOGY_KEYS.known)
READ_FROM_ANNOTATIONS = (
    *volcano.GROUP_NAMES,
    kai.POD_GROUP,
    kueue.TOTAL_COUNT,
    POLICY,
    TOPOLOGY,
    *PLACEMENT_WORDS,
)


def word_remarks(pod: Pod) -> list[ObjectRemark]:
    """Remarks about keys of labels and annotations that seem meant to have an effect, but have none."""
    metadata = pod.metadata
    labels, annotations = metadata.labels or {}, metadata.annotations or {}
    found: list[ObjectRemark] = []
    for field, here, there in (("labels", labels, annotations), ("annotations", annotations, labels)):
        keys = tuple(here)
        # Not cached: too large.
        complaints = _complaints if len(keys) <= MOST_JUDGED else _complaints.__wrapped__
        for key, complaint in complaints(field, keys):
            if key not in there:
                at = ObjectPath.of(pod).child("metadata").child(field).key(key)
                found.append(ObjectRemark(at, f'"{here[key]}" {complaint}'))
    for key in PLACEMENT_WORDS if coscheduling.POD_GROUP in labels else ():
        if key in annotations:
            at = ObjectPath.of(pod).child("metadata").child("annotations").key(key)
            found.append(
                ObjectRemark(at, f'"{annotations[key]}" has no effect: coscheduling\'s PodGroups know no levels')
            )
    return found


@lru_cache(maxsize=4096)
def _complaints(field: str, keys: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Keys and what is wrong with them; pods of one template share the answer."""
    misplaced, other = (READ_FROM_ANNOTATIONS, "annotation") if field == "labels" else (READ_FROM_LABELS, "label")
    found = []
    meant = set(judged(keys, *_FAMILIES))
    for key in keys:
        if key in misplaced:
            found.append((key, f"has no effect: it is read from the {other} of this name"))
        elif key in meant:
            found += [(key, text) for text in (complaint_about(key, family) for family in _FAMILIES) if text]
    return tuple(found)
