"""Lists for the page: every gang with its members, and all objects with a text in their name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from bayplan.cli.shared.gang_objects import PodGroup, gang_in, gang_of_key, owner_of_gang, pod_groups
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.web_answers.catalogue import Catalogue
from bayplan.cluster.state import pod_key
from bayplan.dialects.members import Incomplete
from bayplan.dialects.registry import dialect_of_gang, gang_named, gang_of_members, key_of
from bayplan.explain.documents import API_VERSION, Document
from bayplan.explain.overview.nodes import refusal_reason
from bayplan.gangs.model import Gang, Group
from bayplan.kube.errors import InvalidObject
from bayplan.kube.times import moment_of
from bayplan.kube.wire.core_v1 import Pod
from bayplan.workloads.kinds import every_kind

MOST_FOUND = 200
TYPES = ("domain", "node", "gang", "workload", "pod")
MOST_REFUSED = 50


def gang_list(session: ClusterSession, catalogue: Catalogue, now: datetime) -> Document:
    """Every gang, by its PodGroup, by what its pods say or by what their owners mean."""
    written = {key_of(each).rpartition(" ")[2]: each for each in pod_groups(session.objects)}
    by_key = {pod_key(pod): pod for pod in session.objects.pods}
    items = []
    for name, pods in sorted(catalogue.gangs.items()):
        running = [node for node in pods.values() if node]
        members, group = [by_key[key] for key in pods if key in by_key], written.get(name)
        gang = _asked(session, group, members)
        things = [*members, *([] if group is None else [group])]
        begun = moment_of(min((time for each in things if (time := each.metadata.creation_timestamp)), default=""))
        items.append(
            {
                "gang": name,
                "namespace": name.partition("/")[0],
                "name": name.partition("/")[2],
                "workload": (group and owner_of_gang(group)) or None,
                "status": _status(gang, len(pods), len(running)),
                "required": _level(gang, "required"),
                "preferred": _level(gang, "preferred"),
                "ageSeconds": None if begun is None else int((now - begun).total_seconds()),
                "members": len(pods),
                "running": len(running),
                "waiting": len(pods) - len(running),
                "nodes": len(set(running)),
            }
        )
    return {"apiVersion": API_VERSION, "kind": "GangList", "items": items}


def _asked(session: ClusterSession, group: PodGroup | None, members: list[Pod]) -> Gang | Incomplete | None:
    """The gang as it was asked for; None if it is wrong in itself."""
    try:
        if group is not None:
            return gang_in(group, members, session.trees.topologies)
        key = gang_named(members[0])
        if dialect_of_gang(key).written_as is not None:
            return Incomplete(key, "waits for its PodGroup")
        return gang_of_members(key, None, members, session.trees.topologies)
    except InvalidObject:
        return None  # what is wrong with it, `why` says


def _status(gang: Gang | Incomplete | None, members: int, running: int) -> str:
    """One word, as kubectl has for pods."""
    if gang is None:
        return "Invalid"
    if members == running:
        return "Running" if members else "Empty"
    if running:
        return "Degraded"
    return "Incomplete" if isinstance(gang, Incomplete) else "Waiting"


def _level(gang: Gang | Incomplete | None, field: str) -> str | None:
    """The widest level that the gang or a group in it asks for."""
    if not isinstance(gang, Gang):
        return None
    return next((level for each in gang.root.every_group() if (level := getattr(each, field))), None)


def gang_members(session: ClusterSession, catalogue: Catalogue, name: str) -> Document | None:
    """One gang as it was asked for, and where its members are; None if there is none of that name."""
    members = catalogue.gangs.get(name)
    if members is None:
        return None
    written = {key_of(each).rpartition(" ")[2]: key_of(each) for each in pod_groups(session.objects)}
    pods = [pod for pod in session.objects.pods if pod_key(pod) in members]
    gates = {pod_key(pod): [gate.name for gate in pod.spec.scheduling_gates or ()] for pod in pods}
    asked = Group()
    try:
        gang, _ = gang_of_key(session, written.get(name) or gang_named(pods[0]), pods)
        asked = gang.root if isinstance(gang, Gang) else asked
    except InvalidObject:
        pass  # what is wrong with it, `why` says
    return {
        "apiVersion": API_VERSION,
        "kind": "GangMembers",
        "gang": name,
        "required": asked.required,
        "preferred": asked.preferred,
        "minimum": asked.minimum,
        "members": [
            {"pod": key, "node": node or None, "gates": gates.get(key, [])} for key, node in sorted(members.items())
        ],
    }


def refused_pods(session: ClusterSession, node: str) -> list[Document]:
    """Pods that a node's kubelet sent back, the latest first, as far as their objects still exist."""
    found = [
        (pod.metadata.creation_timestamp or "", pod_key(pod), reason)
        for pod in session.objects.pods
        if pod.spec.node_name == node and (reason := refusal_reason(pod))
    ]
    latest = sorted(found, reverse=True)[:MOST_REFUSED]
    return [{"pod": key, "reason": reason, "created": created or None} for created, key, reason in latest]


def search(session: ClusterSession, catalogue: Catalogue, text: str) -> Document:
    """Nodes, domains, gangs, pods and workloads whose name contains the text, best first."""
    wanted = text.strip().lower()
    found = [] if not wanted else sorted(_matches(session, catalogue, wanted), key=lambda each: _rank(each, wanted))
    return {"apiVersion": API_VERSION, "kind": "SearchResult", "text": text, "items": found[:MOST_FOUND]}


def _rank(result: Document, wanted: str) -> tuple[bool, bool, bool, int, str]:
    """Names before namespaces; where names are as good, few things before many: one gang before its pods."""
    name = str(result["name"]).lower()
    return name != wanted, not name.startswith(wanted), wanted not in name, TYPES.index(result["type"]), name


def _matches(session: ClusterSession, catalogue: Catalogue, wanted: str) -> Iterator[Document]:
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
    pods = (f"{each.metadata.namespace or 'default'}/{each.metadata.name}" for each in session.objects.pods)
    for kind, keys in (("gang", catalogue.gangs), ("pod", pods)):
        for key in keys:
            if wanted in key.lower():
                namespace, _, name = key.partition("/")
                yield {"type": kind, "namespace": namespace, "name": name}
    for namespace, kind, name in sorted(_workloads(session)):
        if wanted in f"{namespace}/{name}".lower():
            yield {"type": "workload", "kind": kind.lower(), "namespace": namespace, "name": name}


def _workloads(session: ClusterSession) -> set[tuple[str, str, str]]:
    """Namespace, kind and name of everything whose pods `why` can explain: owners of pods, and workloads of a dump."""
    known = {(each.group, each.kind) for each in every_kind(session.grouping.rules)}
    owners = {
        (pod.metadata.namespace or "default", owner.kind, owner.name)
        for pod in session.objects.pods
        for owner in pod.metadata.owner_references or ()
        if (owner.api_version.rpartition("/")[0], owner.kind) in known
    }
    return owners | {
        (each.metadata.namespace or "default", each.kind, each.metadata.name)
        for each in session.objects.others
        if (each.api_version.rpartition("/")[0], each.kind) in known
    }
