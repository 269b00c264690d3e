"""Read Kubernetes objects from files: what `kubectl get nodes,pods,noderesourcetopologies -o json|yaml` prints.

In comes a path: one file (JSON, YAML with one or many documents, each optionally gzipped) or a folder of such files.
Out goes an `ObjectSet` of wire structs. A file that cannot be read raises `InvalidObject` with the place. Objects of all other
kinds are kept as they are: some of them own pods (`scheduling/workloads/`), and the rest are named in a remark.
`cluster/loading.py` builds the state from the result.

Two kinds of input: what a user *submits* (`-f`) is judged as strictly as an API server would; a *cluster* (`--cluster`, or one that runs) has passed one
already, so that an object which cannot be read is left out and named, and the rest counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
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
from bayplan.kube.documents import Document, ListItem, Position, not_utf_8, read_documents
from bayplan.kube.errors import InvalidObject, InvalidObjects, ObjectPath, exact_field, field_and_problem
from bayplan.kube.meta_v1 import WireObject
from bayplan.kube.numatopology_v1alpha1 import Numatopology
from bayplan.kube.topology_v1alpha2 import NodeResourceTopology
from bayplan.kube.unread_fields import remarked, unknown_field, unread_in_report
from bayplan.kube.validation.fields import UnknownField, field_table, without_nulls
from bayplan.kube.validation.submitted import submitted_faults, submitted_warnings

MOST_SEARCHES = 20
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
_Struct = TypeVar("_Struct")


class Strictness(Enum):
    """What becomes of fields of a submitted object that are not known or stand twice; the words are kubectl's."""

    STRICT = "strict"
    WARN = "warn"
    IGNORE = "ignore"


class RepeatedField(InvalidObject):
    """A field that stands twice in one mapping."""


class _Named(WireStruct, frozen=True):
    """As little of an object's metadata as possible: what is wrong may stand anywhere else."""

    name: str = ""
    namespace: str | None = None
    generate_name: str = ""


class _WithMetadata(WireStruct, frozen=True):
    metadata: Metadata = Metadata()


class _Header(WireStruct, frozen=True):
    """Enough of any object to know what it is. `items` stays undecoded until the kind is known; `kinds` is what a rule file has instead."""

    api_version: str = ""
    kind: str = ""
    metadata: _Named = _Named()
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET
    kinds: msgspec.Raw = msgspec.Raw()

    @property
    def is_list(self) -> bool:
        """Whether it is a list of objects. Go writes an empty one as `items: null`."""
        return self.items is not msgspec.UNSET and self.kind.endswith("List")

    def listed(self, within: tuple[int, ...] = ()) -> Iterator[ListItem]:
        """The items of a list, which stands itself in lists at the indexes `within`."""
        for index, content in enumerate(self.items or ()):
            yield ListItem((*within, index), content)


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
    """Nodes whose NodeResourceTopology has a wrong shape."""
    levels: list[topology_levels.Topology] = field(default_factory=list)
    hyper_nodes: list[hypernode_v1alpha1.HyperNode] = field(default_factory=list)
    gangs: list[podgroup_v1alpha1.PodGroup] = field(default_factory=list)
    other_gangs: list[OtherPodGroup] = field(default_factory=list)
    volcano_jobs: list[volcano_batch_v1alpha1.Job] = field(default_factory=list)
    kubernetes_workloads: list[scheduling_v1alpha2.Workload] = field(default_factory=list)
    others: list[OtherObject] = field(default_factory=list)
    rule_documents: list[tuple[Path, Any]] = field(default_factory=list)
    """Rules for kinds of workloads (`scheduling/grouping/rules.py`) that were among the objects, with their files."""
    left_out: list[InvalidObject] = field(default_factory=list)
    """What is wrong with objects of a cluster that have a wrong shape."""
    remarks: list[str] = field(default_factory=list)
    """What is wrong with objects that were submitted and are used nevertheless."""
    files: list[tuple[Path, ObjectSet]] = field(default_factory=list)
    searches: int = 0

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
        self.unreadable_topologies += part.unreadable_topologies
        self.left_out += part.left_out
        self.remarks += part.remarks
        self.files += [(file, part)] if file else part.files

    def naming_the_file(self, error: InvalidObject, thing: WireObject) -> InvalidObject:
        """The same error about an object of this set, with the file it came from and its place there."""
        for file, part in self.files:
            if any(each is thing for each in part.all_of(type(thing))):
                self.searches += 1  # reads the file once more: not for thousands of objects
                searched = self.searches <= MOST_SEARCHES
                position = _position_of(thing, part, file, error.at.field) if searched else None
                return InvalidObject(error.at.in_file(file, position), error.problem)
        return error

    @property
    def ignored_kinds(self) -> Counter[str]:
        """How many objects there are of each kind that decisions are not made from."""
        return Counter(each.shown for each in self.others)

    def file_of(self, other: OtherObject) -> Path | None:
        """The file that an object of another kind came from."""
        return next((file for file, part in self.files if any(each is other for each in part.others)), None)

    def all_of(self, kind: type[WireObject]) -> list[WireObject]:
        """The objects of one kind."""
        groups = (self.nodes, self.pods, self.topologies, self.levels, self.gangs, self.other_gangs)
        others = (self.volcano_jobs, self.numatopologies, self.hyper_nodes, self.kubernetes_workloads)
        return [each for group in (*groups, *others) if group for each in group if isinstance(each, kind)]

    def __len__(self) -> int:
        return len(self.nodes) + len(self.pods) + len(self.topologies) + len(self.numatopologies)


def read_objects(path: Path, submitted: Strictness | None = None) -> ObjectSet:
    """Read a file or every object file of a folder (sub-folders included, in name order).

    Objects that a user submits are checked as an API server would check them, and the first that is wrong is an error. Without `submitted`
    the objects are those of a cluster, which an API server has admitted: fields that are not known are skipped, and an object of a wrong shape is left out.
    """
    found = ObjectSet()
    for file in _files_of(path):
        part = ObjectSet()
        reader = _Reader(file, submitted, part)
        for document in read_documents(file):
            reader.collect(document)
        reader.finish()
        found.add(part, file)
    return found


def read_document(path: Path, *, strict: bool = True) -> object:
    """Read a file that holds one document of any shape, such as a configuration; a key that stands twice is an error if it is read strictly."""
    documents = read_all_documents(path, strict=strict)
    if len(documents) != 1:
        raise InvalidObject(ObjectPath(f"file {path}"), f"holds {len(documents)} documents; expected one")
    return documents[0]


def read_all_documents(path: Path, *, strict: bool = True) -> list[Any]:
    """Read a file that holds documents of any shape."""
    if not path.exists() or path.is_dir():
        raise InvalidObject(ObjectPath(f"file {path}"), "is a folder" if path.is_dir() else "does not exist")
    return [decoded(document, path, strict=strict) for document in read_documents(path)]


def decoded(document: Document, path: Path, *, strict: bool = True) -> Any:
    """The content of a document; a key that stands twice is an error if it is read strictly."""
    for repeated in document.repeated_keys() if strict else ():
        raise InvalidObject(ObjectPath(f"file {path}:{document.position(repeated)}", repeated), "appears twice")
    return msgspec.json.decode(document.json)


def _files_of(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and file.name.endswith(SUFFIXES))
        if not files:
            raise InvalidObject(ObjectPath(f"folder {path}"), f"holds no object file; expected {', '.join(SUFFIXES)}")
        return files
    if not path.exists():
        raise InvalidObject(ObjectPath(f"file {path}"), "does not exist")
    return [path]


@dataclass(slots=True)
class _Entry:
    """An object of a document on its way into a set: the document itself, or one item of a list."""

    document: Document
    content: bytes | msgspec.Raw
    header: _Header
    item: ListItem | None = None

    def position(self, field: str) -> Position:
        return self.document.position(field, self.item)


class _Reader:
    """Takes the objects of one file into a set."""

    def __init__(self, file: Path, submitted: Strictness | None, found: ObjectSet) -> None:
        self._file = file
        self._submitted = submitted
        self._found = found
        self._no_objects: list[InvalidObject] = []
        self._objects = 0
        self._generated = 0

    def collect(self, document: Document) -> None:
        """A document: an object, or a list of objects."""
        try:
            self._collect(document)
        except UnicodeDecodeError:
            raise not_utf_8(document.json, self._file) from None

    def _collect(self, document: Document) -> None:
        try:
            whole = _Entry(document, document.json, _HEADER_DECODER.decode(document.json))
        except msgspec.ValidationError as error:
            field, problem = field_and_problem(error)
            at = ObjectPath(f"file {self._file}:{document.position(field)}", field)
            self._no_objects.append(InvalidObject(at, f"{problem}; expected a Kubernetes object"))
            return
        kind = whole.header.kind
        if whole.header.is_list:
            self._objects += 1
            self._collect_items(whole, kind, whole.header.api_version)
        elif not kind and whole.header.kinds:
            self._objects += 1
            self._found.rule_documents.append((self._file, msgspec.json.decode(document.json)))
        elif not kind:
            at = self._subject("object", whole, "kind")
            self._no_objects.append(InvalidObject(at, "is missing; is this a Kubernetes object?"))
        else:
            self._objects += 1
            self._take(whole, kind, whole.header.api_version)

    def finish(self) -> None:
        """A file without any object is an error; a document that is none beside others is one of many that are left out."""
        for problem in self._no_objects:
            if self._submitted or not self._objects:
                raise problem
            self._found.left_out.append(problem)

    def _collect_items(self, around: _Entry, kind: str, version: str) -> None:
        """The objects of a list; those of a typed list (`NodeList`) may omit their kind."""
        path = around.item.path if around.item else ()
        for item in around.header.listed(path):
            self._collect_item(around.document, item, kind.removesuffix("List"), "" if kind == "List" else version)

    def _collect_item(self, document: Document, item: ListItem, kind: str, version: str) -> None:
        try:
            entry = _Entry(document, item.content, _HEADER_DECODER.decode(item.content), item)
        except msgspec.ValidationError as error:
            field, problem = field_and_problem(error)
            named = _named_in(item.content)
            metadata = _Named(name=named.get("name", ""), namespace=named.get("namespace"))
            header = _Header(metadata=metadata)
            entry = _Entry(document, item.content, header, item)
            self._leave_out(
                InvalidObject(self._subject(named.get("kind", "") or kind or "object", entry, field), problem)
            )
            return
        kind = entry.header.kind or kind
        if entry.header.is_list:
            self._collect_items(entry, kind, entry.header.api_version)
        elif kind:
            self._take(entry, kind, entry.header.api_version or version)
        else:
            at = self._subject("object", entry, "kind")
            self._leave_out(InvalidObject(at, "is missing; is this a Kubernetes object?"))

    def _leave_out(self, problem: InvalidObject) -> None:
        if self._submitted:
            raise problem
        self._found.left_out.append(problem)

    def _take(self, entry: _Entry, kind: str, api_version: str) -> None:
        try:
            if self._submitted:
                self._check(entry, kind, api_version)
            self._decode_into_set(entry, kind, api_version)
        except InvalidObject as error:
            if kind == NodeResourceTopology.__name__ and not self._submitted:
                self._found.unreadable_topologies.append(entry.header.metadata.name)
            self._leave_out(error)

    def _check(self, entry: _Entry, kind: str, api_version: str) -> None:
        """What an API server would refuse in an object that is submitted."""
        at = _path(kind, entry)
        repeated = entry.document.repeated_keys(entry.item)
        faults: list[InvalidObject] = [RepeatedField(_below(at, field), "appears twice") for field in repeated]
        document = msgspec.json.decode(entry.content)
        faults += submitted_faults(document, kind, api_version, at)
        if self._submitted is not Strictness.STRICT:
            passing = [fault for fault in faults if isinstance(fault, UnknownField | RepeatedField)]
            faults = [fault for fault in faults if not isinstance(fault, UnknownField | RepeatedField)]
            if self._submitted is Strictness.WARN:
                self._found.remarks += [str(self._placed(fault, entry)) for fault in passing]
        if faults:
            raise InvalidObjects([self._placed(fault, entry) for fault in faults])
        told = submitted_warnings(document, kind, api_version, at)
        self._found.remarks += [str(self._placed(each, entry)) for each in told]

    def _placed(self, fault: InvalidObject, entry: _Entry) -> InvalidObject:
        return InvalidObject(fault.at.in_file(self._file, entry.position(fault.at.field)), fault.problem)

    def _decode_into_set(self, entry: _Entry, kind: str, api_version: str) -> None:
        found = self._found
        group, _, version = api_version.rpartition("/")
        if kind == "Node" and not group:
            found.nodes.append(self._decode(entry, Node))
        elif kind == "Pod" and not group:
            pod = self._decode(entry, Pod)
            if not pod.spec.containers:
                at = self._subject(kind, entry, "spec.containers")
                raise InvalidObject(at, "is empty: a pod needs at least one container")
            found.pods.append(pod)
        elif kind == "Namespace" and not group:
            found.namespaces.append(self._decode(entry, Namespace))
        elif kind == NodeResourceTopology.__name__:
            if api_version and (group != topology_v1alpha2.GROUP or version not in topology_v1alpha2.VERSIONS):
                allowed = ", ".join(f"{topology_v1alpha2.GROUP}/{known}" for known in topology_v1alpha2.VERSIONS)
                at = self._subject(kind, entry, "apiVersion")
                raise InvalidObject(at, f'"{api_version}" is not understood; expected {allowed}')
            report = self._decode(entry, NodeResourceTopology)
            found.topologies.append(report)
            for each in unread_in_report(report, entry.content):
                field, _, problem = each.partition(": ")
                found.remarks.append(str(InvalidObject(self._subject(kind, entry, field), problem)))
        elif (api_version, kind) in _OTHER_KINDS:
            struct, group_of_set = _OTHER_KINDS[api_version, kind]
            getattr(found, group_of_set).append(self._decode(entry, struct))
        else:
            metadata = self._typed(entry, _WithMetadata, kind).metadata
            found.others.append(OtherObject(api_version, kind, metadata, bytes(entry.content)))

    def _typed(self, entry: _Entry, struct: type[_Struct], kind: str) -> _Struct:
        try:
            if self._submitted and kind in field_table().types:
                return msgspec.convert(without_nulls(msgspec.json.decode(entry.content), kind), struct)
            return msgspec.json.decode(entry.content, type=struct)
        except msgspec.ValidationError as error:
            field, problem = field_and_problem(error)
            field = exact_field(field, str(error), msgspec.json.decode(entry.content))
            unknown = unknown_field(entry.content, struct)
            if unknown:
                field, _, problem = unknown.partition(": ")
            raise InvalidObject(self._subject(kind, entry, field), problem) from None

    def _decode(self, entry: _Entry, kind: type[_Wire]) -> _Wire:
        decoded = remarked(self._typed(entry, kind, kind.__name__), entry.content)
        if not decoded.metadata.name and entry.header.metadata.generate_name and self._submitted:
            return self._with_a_name(decoded, entry.header.metadata.generate_name)
        if not decoded.metadata.name:
            at = self._subject(kind.__name__, entry, "metadata.name")
            raise InvalidObject(at, "is missing: every object needs a name")
        return decoded

    def _with_a_name(self, thing: _Wire, start: str) -> _Wire:
        """The API server would add random letters; here the same file gives the same names."""
        self._generated += 1
        metadata = msgspec.structs.replace(thing.metadata, name=f"{start}{self._generated}")
        return msgspec.structs.replace(thing, metadata=metadata)  # type: ignore[type-var]

    def _subject(self, kind: str, entry: _Entry, field: str) -> ObjectPath:
        return _below(_path(kind, entry), field).in_file(self._file, entry.position(field))


def _unread(api_version: str, kind: str) -> str:
    """The kind of an object that is left out; with versions if another version of it would be read."""
    group = api_version.rpartition("/")[0]
    of_group = [known for known, of_kind in _OTHER_KINDS if of_kind == kind and known.rpartition("/")[0] == group]
    if not group or not of_group:
        return kind
    versions = [known.rpartition("/")[2] for known in of_group]
    return f"{kind} of {api_version}, of which bayplan reads {', '.join(versions)}"


def _path(kind: str, entry: _Entry) -> ObjectPath:
    metadata = entry.header.metadata
    name = metadata.name or (f"{metadata.generate_name}*" if metadata.generate_name else "(no name)")
    return ObjectPath(f"{kind} {metadata.namespace}/{name}" if metadata.namespace else f"{kind} {name}")


def _below(at: ObjectPath, field: str) -> ObjectPath:
    return ObjectPath(at.subject, field)


def _named_in(content: msgspec.Raw) -> dict[str, str]:
    """Kind, namespace and name of an object of which not even the head has the right shape, as far as they can be read."""
    read = msgspec.json.decode(content)
    head = read if isinstance(read, dict) else {}
    metadata = head.get("metadata")
    named = {**(metadata if isinstance(metadata, dict) else {}), "kind": head.get("kind")}
    return {key: named[key] for key in ("kind", "namespace", "name") if isinstance(named.get(key), str)}


def _position_of(thing: WireObject, part: ObjectSet, file: Path, field: str) -> Position | None:
    """Where a field of an object that was read stands in its file, which is read once more for this."""
    kind, metadata = type(thing).__name__, thing.metadata
    alike = [each for each in part.all_of(type(thing)) if _same_name(each.metadata, metadata)]
    wanted = next(number for number, each in enumerate(alike) if each is thing)
    if not file.is_file():
        return None  # standard input is gone
    for document in read_documents(file):
        header = _HEADER_DECODER.decode(document.json)
        for head, item in _entries(header, header.kind):
            if head.kind == kind and _same_name(head.metadata, metadata):
                if not wanted:
                    # Messages about gangs name the fields of their spec.
                    found = document.position(field, item)
                    return (
                        found
                        if not field or found != document.position("", item)
                        else document.position(f"spec.{field}", item)
                    )
                wanted -= 1
    return None


def _entries(header: _Header, kind: str, item: ListItem | None = None) -> Iterator[tuple[_Header, ListItem | None]]:
    """The headers of the objects of a document, each with its kind; those of lists one by one."""
    if not header.is_list:
        yield msgspec.structs.replace(header, kind=kind), item
        return
    for each in header.listed(item.path if item else ()):
        below = _headed(each.content)
        yield from _entries(below, below.kind or kind.removesuffix("List"), each)


def _headed(content: msgspec.Raw) -> _Header:
    try:
        return _HEADER_DECODER.decode(content)
    except msgspec.ValidationError:
        return _Header()


def _same_name(one: Metadata | _Named, other: Metadata) -> bool:
    return (one.name, one.namespace) == (other.name, other.namespace)


_HEADER_DECODER = msgspec.json.Decoder(_Header)
