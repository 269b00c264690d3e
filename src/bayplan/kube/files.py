"""Read Kubernetes objects from files: what `kubectl get nodes,pods,noderesourcetopologies -o json|yaml` prints.

In comes a path: one file (JSON, YAML with one or many documents, each optionally gzipped) or a folder of such files.
Out goes an `ObjectSet` of wire structs. A file that cannot be read or an object of the wrong shape raises
`InvalidObject` naming file, object and field. Objects of all other kinds are kept as they are: some of them own pods
(`scheduling/workloads/`), and the rest are named in a remark.
`cluster/state.py` builds the columns from the result.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bayplan.kube import (
    coscheduling_v1alpha1,
    hypernode_v1alpha1,
    numatopology_v1alpha1,
    podgroup_v1alpha1,
    podgroup_v2alpha2,
    scheduling_v1alpha2,
    topology_levels,
    topology_v1alpha2,
    volcano_batch_v1alpha1,
    volcano_scheduling_v1beta1,
)
from bayplan.kube.core_v1 import Metadata, Namespace, Node, Pod, WireStruct
from bayplan.kube.errors import InvalidObject, ObjectPath, field_and_problem
from bayplan.kube.meta_v1 import WireObject
from bayplan.kube.numatopology_v1alpha1 import Numatopology
from bayplan.kube.topology_v1alpha2 import NodeResourceTopology
from bayplan.kube.unread_fields import remarked, unknown_field

SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")

OtherPodGroup = (
    podgroup_v2alpha2.PodGroup
    | volcano_scheduling_v1beta1.PodGroup
    | coscheduling_v1alpha1.PodGroup
    | scheduling_v1alpha2.PodGroup
)
# The PodGroups of other systems, by `apiVersion`.
OTHER_POD_GROUPS: dict[str, type[OtherPodGroup]] = {
    **{f"{podgroup_v2alpha2.GROUP}/{version}": podgroup_v2alpha2.PodGroup for version in podgroup_v2alpha2.VERSIONS},
    volcano_scheduling_v1beta1.API_VERSION: volcano_scheduling_v1beta1.PodGroup,
    coscheduling_v1alpha1.API_VERSION: coscheduling_v1alpha1.PodGroup,
    scheduling_v1alpha2.API_VERSION: scheduling_v1alpha2.PodGroup,
}

# By `apiVersion` and `kind`: what it decodes into, and where in an `ObjectSet` it goes.
_OTHER_KINDS: dict[tuple[str, str], tuple[type[Any], str]] = {
    (numatopology_v1alpha1.API_VERSION, numatopology_v1alpha1.KIND): (Numatopology, "numatopologies"),
    (hypernode_v1alpha1.API_VERSION, hypernode_v1alpha1.KIND): (hypernode_v1alpha1.HyperNode, "hyper_nodes"),
    (podgroup_v1alpha1.API_VERSION, podgroup_v1alpha1.KIND): (podgroup_v1alpha1.PodGroup, "gangs"),
    (volcano_batch_v1alpha1.API_VERSION, volcano_batch_v1alpha1.KIND): (volcano_batch_v1alpha1.Job, "volcano_jobs"),
    (scheduling_v1alpha2.API_VERSION, scheduling_v1alpha2.WORKLOAD): (
        scheduling_v1alpha2.Workload,
        "kubernetes_workloads",
    ),
    **{
        (version, topology_levels.KIND): (topology_levels.Topology, "levels")
        for version in topology_levels.API_VERSIONS
    },
    **{(version, "PodGroup"): (struct, "other_gangs") for version, struct in OTHER_POD_GROUPS.items()},
}

_Wire = TypeVar("_Wire", bound=WireObject)


class _Header(WireStruct, frozen=True):
    """Enough of any object to know what it is. `items` stays undecoded until the kind is known; `kinds` is what a rule file has instead."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()
    items: list[msgspec.Raw] | None = None
    kinds: msgspec.Raw = msgspec.Raw()


@dataclass(frozen=True, slots=True)
class OtherObject:
    """An object of a kind without a struct of its own: which one it is, and its JSON."""

    api_version: str
    kind: str
    metadata: Metadata
    document: bytes

    @property
    def shown(self) -> str:
        """Its kind, for a remark."""
        return _unread(self.api_version, self.kind)

    def decoded(self) -> dict[str, Any]:
        """The whole object, with the kind that a typed list leaves out."""
        content: dict[str, Any] = msgspec.json.decode(self.document)
        return {**content, "apiVersion": self.api_version, "kind": self.kind}


@dataclass
class ObjectSet:
    """The objects found. `others` are those of kinds that decisions are not made from; workloads are among them."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    topologies: list[NodeResourceTopology] = field(default_factory=list)
    numatopologies: list[Numatopology] = field(default_factory=list)
    unreadable_topologies: list[str] = field(default_factory=list)
    """Nodes of a cluster that runs whose NodeResourceTopology has a wrong shape."""
    levels: list[topology_levels.Topology] = field(default_factory=list)
    hyper_nodes: list[hypernode_v1alpha1.HyperNode] = field(default_factory=list)
    gangs: list[podgroup_v1alpha1.PodGroup] = field(default_factory=list)
    other_gangs: list[OtherPodGroup] = field(default_factory=list)
    volcano_jobs: list[volcano_batch_v1alpha1.Job] = field(default_factory=list)
    kubernetes_workloads: list[scheduling_v1alpha2.Workload] = field(default_factory=list)
    others: list[OtherObject] = field(default_factory=list)
    rule_documents: list[tuple[Path, Any]] = field(default_factory=list)
    """Rules for kinds of workloads (`scheduling/grouping/rules.py`) that were among the objects, with their files."""
    files: list[tuple[Path, ObjectSet]] = field(default_factory=list)

    def add(self, part: ObjectSet, file: Path | None = None) -> None:
        """Take over the objects of another set; `file` is where they come from."""
        self.nodes += part.nodes
        self.pods += part.pods
        self.namespaces += part.namespaces
        self.topologies += part.topologies
        self.numatopologies += part.numatopologies
        self.levels += part.levels
        self.hyper_nodes += part.hyper_nodes
        self.gangs += part.gangs
        self.other_gangs += part.other_gangs
        self.volcano_jobs += part.volcano_jobs
        self.kubernetes_workloads += part.kubernetes_workloads
        self.others += part.others
        self.rule_documents += part.rule_documents
        self.files += [(file, part)] if file else part.files

    def naming_the_file(self, error: InvalidObject, thing: WireStruct) -> InvalidObject:
        """The same error about an object of this set, with the file it came from."""
        for file, part in self.files:
            groups = (part.nodes, part.pods, part.topologies, part.levels, part.gangs, part.other_gangs)
            if any(each is thing for group in (*groups, part.volcano_jobs, part.numatopologies) for each in group):
                return InvalidObject(error.at.in_file(file), error.problem)
        return error

    @property
    def ignored_kinds(self) -> Counter[str]:
        """How many objects there are of each kind that decisions are not made from."""
        return Counter(each.shown for each in self.others)

    def file_of(self, other: OtherObject) -> Path | None:
        """The file that an object of another kind came from."""
        return next((file for file, part in self.files if any(each is other for each in part.others)), None)

    def __len__(self) -> int:
        return len(self.nodes) + len(self.pods) + len(self.topologies) + len(self.numatopologies)


def read_objects(path: Path) -> ObjectSet:
    """Read a file or every object file of a folder (sub-folders included, in name order)."""
    found = ObjectSet()
    for file in _files_of(path):
        part = ObjectSet()
        for document in _documents_of(file):
            _collect(document, file, part)
        found.add(part, file)
    return found


def read_document(path: Path) -> object:
    """Read a file that holds one document of any shape, such as a configuration."""
    if not path.exists() or path.is_dir():
        raise InvalidObject(ObjectPath(f"file {path}"), "is a folder" if path.is_dir() else "does not exist")
    documents = list(_documents_of(path))
    if len(documents) != 1:
        raise InvalidObject(ObjectPath(f"file {path}"), f"holds {len(documents)} documents; expected one")
    try:
        return msgspec.json.decode(documents[0])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidObject(ObjectPath(f"file {path}"), f"is not valid JSON: {error}") from None


def _files_of(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and file.name.endswith(SUFFIXES))
        if not files:
            raise InvalidObject(ObjectPath(f"folder {path}"), f"holds no object file; expected {', '.join(SUFFIXES)}")
        return files
    if not path.exists():
        raise InvalidObject(ObjectPath(f"file {path}"), "does not exist")
    return [path]


def _documents_of(file: Path) -> Iterator[bytes]:
    """Each document of a file as JSON, so that one decoder serves both formats."""
    try:
        raw = file.read_bytes()
        data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidObject(ObjectPath(f"file {file}"), f"cannot be read: {error}") from None
    if not data:
        raise InvalidObject(ObjectPath(f"file {file}"), "is empty: did the command that wrote it fail?")
    start = data.lstrip()[:1]
    if start in (b"{", b"["):
        yield data
    elif start:
        yield from _yaml_documents(data, file)


def _yaml_documents(data: bytes, file: Path) -> Iterator[bytes]:
    import yaml  # costs 30 ms and most dumps are JSON

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for document in yaml.load_all(data, Loader=loader):
            if document is not None:
                yield msgspec.json.encode(document, order=None)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise InvalidObject(ObjectPath(f"file {file}"), f"is neither JSON nor YAML: {problem}") from None
    except RecursionError:
        raise InvalidObject(ObjectPath(f"file {file}"), "is nested too deeply") from None
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise InvalidObject(ObjectPath(f"file {file}"), f"holds YAML that JSON cannot express: {error}") from None


def _collect(document: bytes | msgspec.Raw, file: Path, found: ObjectSet) -> None:
    header = _header(document, file)
    kind = header.kind
    if header.items is not None and (kind == "List" or kind.endswith("List")):
        for item in header.items:
            # Items of a typed list (`NodeList`) may omit their kind.
            _collect_one(item, _header(item, file), kind.removesuffix("List"), header.api_version, file, found)
    else:
        _collect_one(document, header, "", "", file, found)


def _collect_one(
    document: bytes | msgspec.Raw,
    header: _Header,
    default_kind: str,
    default_version: str,
    file: Path,
    found: ObjectSet,
) -> None:
    kind = header.kind or default_kind
    group, _, version = header.api_version.rpartition("/")
    if kind == "Node" and not group:
        found.nodes.append(_decode(document, Node, header, file))
    elif kind == "Pod" and not group:
        pod = _decode(document, Pod, header, file)
        if not pod.spec.containers:
            at = _subject(kind, header, file).child("spec.containers")
            raise InvalidObject(at, "is empty: a pod needs at least one container")
        found.pods.append(pod)
    elif kind == "Namespace" and not group:
        found.namespaces.append(_decode(document, Namespace, header, file))
    elif kind == "NodeResourceTopology":
        if header.api_version and (group != topology_v1alpha2.GROUP or version not in topology_v1alpha2.VERSIONS):
            allowed = ", ".join(f"{topology_v1alpha2.GROUP}/{known}" for known in topology_v1alpha2.VERSIONS)
            at = _subject(kind, header, file).child("apiVersion")
            raise InvalidObject(at, f'"{header.api_version}" is not understood; expected {allowed}')
        found.topologies.append(_decode(document, NodeResourceTopology, header, file))
    elif (header.api_version, kind) in _OTHER_KINDS:
        struct, group_of_set = _OTHER_KINDS[header.api_version, kind]
        getattr(found, group_of_set).append(_decode(document, struct, header, file))
    elif not kind and header.kinds:
        found.rule_documents.append((file, msgspec.json.decode(document)))
    elif not kind:
        raise InvalidObject(_subject("object", header, file).child("kind"), "is missing; is this a Kubernetes object?")
    else:
        api_version = header.api_version or default_version
        found.others.append(OtherObject(api_version, kind, header.metadata, bytes(document)))


def _unread(api_version: str, kind: str) -> str:
    """The kind of an object that is left out; with versions if another version of it would be read."""
    group = api_version.rpartition("/")[0]
    of_group = [known for known, of_kind in _OTHER_KINDS if of_kind == kind and known.rpartition("/")[0] == group]
    if not group or not of_group:
        return kind
    versions = [known.rpartition("/")[2] for known in of_group]
    return f"{kind} of {api_version}, of which bayplan reads {', '.join(versions)}"


def _header(document: bytes | msgspec.Raw, file: Path) -> _Header:
    try:
        return _HEADER_DECODER.decode(document)
    except msgspec.ValidationError as error:
        raise InvalidObject(ObjectPath(f"file {file}"), _readable(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidObject(ObjectPath(f"file {file}"), f"is not valid JSON: {error}") from None
    except RecursionError:
        raise InvalidObject(ObjectPath(f"file {file}"), "is nested too deeply") from None


def _decode(document: bytes | msgspec.Raw, kind: type[_Wire], header: _Header, file: Path) -> _Wire:
    at = _subject(kind.__name__, header, file)
    try:
        decoded = remarked(msgspec.json.decode(document, type=kind), document)
    except msgspec.ValidationError as error:
        raise InvalidObject(at, unknown_field(document, kind) or _readable(error)) from None
    except UnicodeDecodeError as error:
        raise InvalidObject(at, f"is not valid JSON: {error}") from None
    if not decoded.metadata.name:
        raise InvalidObject(at.child("metadata.name"), "is missing: every object needs a name")
    return decoded


def _subject(kind: str, header: _Header, file: Path) -> ObjectPath:
    metadata = header.metadata
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name or "(no name)"
    return ObjectPath(f"{kind} {name} ({file})")


def _readable(error: msgspec.ValidationError) -> str:
    """msgspec's message with the field first."""
    where, problem = field_and_problem(error)
    problem = problem.replace("`", "")
    return f"{where}: {problem[0].lower()}{problem[1:]}" if where else problem


_HEADER_DECODER = msgspec.json.Decoder(_Header)
