"""The annotation that says which NUMA zones a running pod was given, and how to read it.

`bayplan.io/numa-zones` on a bound pod holds JSON: container name to list of NUMA ids, `{"upf": [1]}`. Whoever
knows where the kubelet put a pod may write it. A pod without it may still be pinned; then its zone is "not reported".
"""

from __future__ import annotations

import msgspec

from bayplan.cluster.topology_report import Problem
from bayplan.kube.core_v1 import Pod
from bayplan.kube.errors import ObjectPath

NUMA_ZONES = "bayplan.io/numa-zones"

ZonesByContainer = dict[str, tuple[int, ...]]

_DECODER = msgspec.json.Decoder(dict[str, list[int]])


def zones_of_pod(pod: Pod, problems: list[Problem] | None = None) -> ZonesByContainer:
    """Zones by container; empty if the pod does not say. What cannot be read is added to `problems`."""
    text = (pod.metadata.annotations or {}).get(NUMA_ZONES)
    if text is None:
        return {}
    try:
        return {container: tuple(sorted(set(zones))) for container, zones in _DECODER.decode(text).items() if zones}
    except msgspec.DecodeError:
        if problems is not None:
            at = ObjectPath.of(pod).child("metadata").child("annotations").key(NUMA_ZONES)
            problems.append(Problem(at, f'{text!r} is ignored: expected JSON such as {{"container": [0]}}'))
        return {}
