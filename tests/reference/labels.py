"""docs/labels.md: every `bayplan.io/*` label, annotation and attribute, where it stands, which program writes it, and
what it means.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "bayplan"
# Names that are API versions.
_KEY = re.compile(r"bayplan\.io/(?!v[0-9])[a-z][a-z-]*")

USER, GROUPER, SCHEDULER, AGENT = "user", "pod grouper", "scheduler", "agent"
TABLE: dict[str, dict[str, tuple[str, str, str]]] = {
    "Pods": {
        "bayplan.io/pod-group": ("label", f"{USER} or {GROUPER}", "the PodGroup that the pod belongs to"),
        "bayplan.io/group": ("label", f"{USER} or {GROUPER}", "the group inside the PodGroup"),
        "bayplan.io/rank": ("label; annotation", f"{USER} or {GROUPER}; {SCHEDULER}",
                            "its number in the gang, as asked for and as decided"),
        "bayplan.io/max-numa-zones": ("annotation", USER, "the most NUMA zones over which the pod may spread"),
        "bayplan.io/runs-for": ("annotation", USER, "how long the pod runs on virtual nodes of `bayplan kubelets`"),
        "bayplan.io/grouped": ("annotation", GROUPER, "`alone`: the pod is in no gang"),
        "bayplan.io/segment": ("annotation", SCHEDULER, "the number of its segment in the gang"),
        "bayplan.io/path": ("annotation", SCHEDULER, "its place in the tree, widest level first"),
        "bayplan.io/numa-zones": ("annotation", SCHEDULER, "the NUMA zones of each container, where they are certain"),
        "bayplan.io/numa-amounts": ("annotation", SCHEDULER, "what each container takes in its zones"),
    },
    "Workloads and PodGroups": {
        "bayplan.io/topology": ("annotation", USER,
                                "the Topology by which the gang is placed, `kueue/NAME` or `kai/NAME` of two"),
        "bayplan.io/gang": ("annotation", USER, '`"true"`: a gang; `"false"`: none, whatever the kind'),
        "bayplan.io/parallelism": ("annotation", USER,
                                   "parallel groups by rank, innermost first: `tensor=8,pipeline=4`"),
        "bayplan.io/objective": ("annotation", USER, "goals of the gang search that come first"),
        "bayplan.io/patience": ("annotation", USER, "how long to wait for few domains: `domains=2,seconds=300`"),
        "bayplan.io/placement": ("annotation", USER, "`spread` or `binpack` over nodes"),
        "bayplan.io/domain-placement": ("annotation", USER, "`spread` or `binpack` over domains"),
        "bayplan.io/exclusive-topology": ("annotation", GROUPER,
                                          "no two replicas of the workload share a domain of this level"),
        "bayplan.io/topology-kind": ("annotation", GROUPER,
                                     "the system in whose words a PodGroup's levels are: `kueue` or `kai`"),
        "bayplan.io/workload": ("annotation", GROUPER, "the Workload of Kubernetes that a PodGroup was made from"),
    },
    "Node reports": {
        "bayplan.io/cpus": ("attribute", AGENT, "core, socket, zone and cache of each CPU"),
        "bayplan.io/free-cpus": ("attribute", AGENT, "CPUs that can be handed out exclusively"),
        "bayplan.io/reserved-cpus": ("attribute", AGENT, "CPUs kept for the system"),
        "bayplan.io/devices": ("attribute", AGENT, "devices by id, with zones and state"),
        "bayplan.io/pods": ("attribute", AGENT, "what each pod holds, by resource and zone"),
        "bayplan.io/left-out": ("attribute", AGENT, "which of these are missing because the report would be too large"),
        "bayplan.io/made-at": ("attribute", AGENT, "when the report was true, in seconds since 1970"),
        "bayplan.io/agent-version": ("attribute", AGENT, "the version of the agent"),
        "bayplan.io/threads-per-core": ("attribute", AGENT, "hardware threads of a core, where cores are alike"),
        "bayplan.io/memory-group": ("attribute of a zone", AGENT,
                                    "zones whose memory is used together with this one's"),
        "bayplan.io/stale-since": ("annotation", "agent-gc", "its agent has not renewed the report since"),
    },
    "Other objects": {
        "bayplan.io/virtual-kubelet": ("label", "kubelets", "an object that `bayplan kubelets` created and may remove"),
    },
}  # fmt: skip

HEAD = """# Labels and annotations

Written from the code by `make reference`; do not edit.

Keys of other systems that bayplan reads (Kueue, KAI, Volcano, coscheduling, JobSet, LeaderWorkerSet) are
in [gangs.md](gangs.md) and [pod-grouper.md](pod-grouper.md).
The fields of node reports are in [kubelet.md](kubelet.md).
"""


def keys_in_source() -> set[str]:
    """Every key of bayplan's own that stands in the code as text."""
    found: set[str] = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _KEY.fullmatch(node.value):
                found.add(node.value)
    return found


def labels_page() -> str:
    """The page."""
    parts = [HEAD]
    for title, keys in TABLE.items():
        rows = [f"| `{key}` | {kind} | {writer} | {meaning} |" for key, (kind, writer, meaning) in keys.items()]
        parts.append(
            "\n".join([f"## {title}\n", "| key | is a | written by | meaning |", "|---|---|---|---|", *rows]) + "\n"
        )
    return "\n".join(parts)
