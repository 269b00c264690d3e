"""Lists for the page: every gang with its members, and whatever has a text in its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from bayplan.cli.shared.gangs import pod_groups
from bayplan.cli.shared.session import ClusterSession
from bayplan.cluster.state import TERMINAL_PHASES
from bayplan.dialects.registry import gang_named
from bayplan.explain.documents import API_VERSION, Document
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.wire.core_v1 import Metadata, Pod
from bayplan.services.web.answers import Names

MOST_FOUND = 200


def gang_list(session: ClusterSession) -> Document:
    """Every gang, by its PodGroup or by what its pods say."""
    members: dict[str, list[Pod]] = defaultdict(list)
    for pod in session.objects.pods:
        if not _has_ended(pod) and (key := gang_named(pod)):
            members[key.rpartition(" ")[2]].append(pod)
    for group in pod_groups(session.objects):
        members.setdefault("/".join(_key(group.metadata)), [])
    items = []
    for name, pods in sorted(members.items()):
        running = [pod for pod in pods if pod.spec.node_name]
        items.append(
            {
                "gang": name,
                "namespace": name.partition("/")[0],
                "members": len(pods),
                "running": len(running),
                "waiting": len(pods) - len(running),
                "nodes": len({pod.spec.node_name for pod in running}),
            }
        )
    return {"apiVersion": API_VERSION, "kind": "GangList", "items": items}


def search(session: ClusterSession, text: str) -> Document:
    """Nodes, domains, gangs and pods whose name contains the text, best first within each kind."""
    wanted = text.strip().lower()
    found = [] if not wanted else sorted(_matches(session, wanted), key=lambda each: _rank(each, wanted))
    return {"apiVersion": API_VERSION, "kind": "SearchResult", "text": text, "items": found[:MOST_FOUND]}


def _rank(result: Document, wanted: str) -> tuple[bool, bool, str]:
    name = str(result["name"]).lower()
    return name != wanted, not name.startswith(wanted), name


def _matches(session: ClusterSession, wanted: str) -> Iterator[Document]:
    for name in session.state.rows:
        if wanted in name.lower():
            yield {"type": "node", "name": name, "namespace": None}
    for tree_name in session.trees.names:
        tree = session.trees.get(tree_name)
        for depth, level in enumerate(tree.levels if tree is not None else ()):
            assert tree is not None  # it has levels
            for path in tree.paths[depth]:
                if wanted in path[-1].lower():
                    shown = {"name": path[-1], "path": list(path), "level": level, "topology": tree_name}
                    yield {"type": "domain", "namespace": None, **shown}
    gangs = {key.rpartition(" ")[2] for pod in session.objects.pods if (key := gang_named(pod))}
    gangs |= {"/".join(_key(group.metadata)) for group in pod_groups(session.objects)}
    for kind, keys in (("gang", gangs), ("pod", map("/".join, map(_key, _metadata(session.objects.pods))))):
        for key in keys:
            if wanted in key.lower():
                namespace, _, name = key.partition("/")
                yield {"type": kind, "namespace": namespace, "name": name}


def names_in(objects: ObjectSet) -> Names:
    """Everything that has a namespace."""
    by_name: dict[str, set[str]] = defaultdict(set)
    for metadata in _metadata([*objects.pods, *pod_groups(objects), *objects.others, *objects.volcano_jobs]):
        if metadata.namespace or isinstance(metadata, Metadata):
            namespace, name = _key(metadata)
            by_name[name].add(namespace)
            for owner in metadata.owner_references or ():
                by_name[owner.name].add(namespace)
    namespaces = {each.metadata.name for each in objects.namespaces}.union(*by_name.values())
    # A node's own objects (mirror pods) are owned by it: nodes are no secret.
    nodes = {node.metadata.name for node in objects.nodes}
    kept = {name: frozenset(owners) for name, owners in by_name.items() if name not in nodes}
    return Names(frozenset(namespaces), kept)


def _metadata(objects: Iterable[object]) -> Iterator[Metadata]:
    for each in objects:
        yield each.metadata  # type: ignore[attr-defined]


def _key(metadata: Metadata) -> tuple[str, str]:
    return metadata.namespace or "default", metadata.name


def _has_ended(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase in TERMINAL_PHASES
