"""A node has failed: its pods get a new place, all others stay (Kueue's gate TASFailedNodeReplacement).

The new place must keep what the workload was promised: within the required domain, and where a slice was torn apart, within
the domain of the innermost slice that is incomplete now. Only the first unhealthy node is looked at, as in Kueue.
"""

from __future__ import annotations

from dataclasses import replace

from bayplan.compat.kueue.tas.model import Assignment, PodSet, Settings, SliceLayer, TopologyRequest
from bayplan.compat.kueue.tas.request import wanted_level
from bayplan.compat.kueue.tas.result import Placed, merged
from bayplan.compat.kueue.tas.search import Within, search
from bayplan.compat.kueue.tas.snapshot import Snapshot


def replace_node(
    snapshot: Snapshot, settings: Settings, pod_set: PodSet, existing: Assignment, node: str
) -> Placed | str:
    """The assignment with a new place for the pods of `node`, or the reason why there is none."""
    kept = replace(existing, domains=tuple(domain for domain in existing.domains if domain[0][-1:] != (node,)))
    stale = snapshot.stale_domain(kept)
    if stale is not None:
        return (
            "Cannot replace the node, because the existing topologyAssignment is invalid, "
            f"as it contains the stale domain {stale}"
        )
    request = pod_set.topology or TopologyRequest()
    lost = replace(pod_set, count=existing.pods - kept.pods)
    sensible = all(layer.size > 0 for layer in request.slices)
    within = _where_to_stay(snapshot, lost, kept) if sensible else None
    if within is not None and request.slices and lost.count % request.slices[0].size:
        lost = replace(lost, topology=replace(request, slices=_innermost_dividing(request.slices, lost.count)))
    found = search(snapshot, settings, lost, within=within)
    if isinstance(found, str):
        return found
    if not found.pods.any():
        return f"cannot find replacement assignment for unhealthy node: {node}"
    after = snapshot.minus(lost.amounts_per_pod, found.leaves, found.pods)
    return Placed(after, {pod_set.name: merged(snapshot, kept, found)})


def _where_to_stay(snapshot: Snapshot, lost: PodSet, kept: Assignment) -> Within | None:
    """The domain that the new place must be in; None if it may be anywhere."""
    label = wanted_level(lost, snapshot.levels)
    level = snapshot.level_of(label) if label is not None else None
    if level is None or not kept.domains:
        return None
    request = lost.topology or TopologyRequest()
    layers = request.slices
    if layers and lost.count % layers[0].size:
        torn = next(layer for layer in reversed(layers) if lost.count % layer.size)
        return _incomplete_domain(snapshot, lost.count, kept, torn)
    if request.required is None:
        return None
    leaf = snapshot.leaf_of[kept.domains[0][0]]
    return Within(level, snapshot.tree.ancestor(leaf, level))


def _incomplete_domain(snapshot: Snapshot, lost: int, kept: Assignment, layer: SliceLayer) -> Within | None:
    """The first domain, by name, in which the lost pods make its slices whole again."""
    level = snapshot.level_of(layer.level)
    if level is None:
        return None
    pods: dict[int, int] = {}
    for values, count in kept.domains:
        domain = snapshot.tree.ancestor(snapshot.leaf_of[values], level)
        pods[domain] = pods.get(domain, 0) + count
    whole_again = [domain for domain, count in sorted(pods.items()) if (count + lost) % layer.size == 0]
    return Within(level, whole_again[0]) if whole_again else None


def _innermost_dividing(layers: tuple[SliceLayer, ...], pods: int) -> tuple[SliceLayer, ...]:
    """The finest layer that the lost pods still fill: with it, pods that were together on a host stay together."""
    return next(((layer,) for layer in reversed(layers) if pods % layer.size == 0), ())
