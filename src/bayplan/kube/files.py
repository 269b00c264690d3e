"""Read Kubernetes objects from files: what `kubectl get nodes,pods,noderesourcetopologies -o json|yaml` prints.

In comes a path: one file (JSON, YAML with one or many documents, each optionally gzipped) or a folder of such files.
Out goes an `ObjectSet` of wire structs. A file that cannot be read raises `InvalidObject` with the place. Objects of
all other kinds are kept as they are: some of them own pods (`workloads/`), and the rest are named in a remark.
`cluster/loading.py` builds the state from the result.

Two kinds of input: what a user *submits* (`-f`) is judged as strictly as an API server would; a *cluster* (`--cluster`,
or one that runs) has passed one already, so that an object which cannot be read is left out and named, and the rest
counts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bayplan.kube.documents import Document, ListItem, Position, not_utf_8, read_documents
from bayplan.kube.errors import NAMELESS, InvalidObject, InvalidObjects, ObjectPath, exact_field, field_and_problem
from bayplan.kube.json_text import OUT_OF_RANGE, TOO_DEEP, decode, json_words
from bayplan.kube.object_heads import HEADER_DECODER, Header, Named
from bayplan.kube.object_set import ObjectSet, OtherObject, kind_in_set
from bayplan.kube.priority_classes import PriorityClass
from bayplan.kube.unread_fields import remarked, unknown_field, unread, unread_in_report
from bayplan.kube.validation.fields import UnknownField, field_faults, field_table, without_nulls
from bayplan.kube.validation.submitted import submitted_faults, submitted_warnings
from bayplan.kube.wire import node_resource_topology_v1alpha2
from bayplan.kube.wire.core_v1 import Metadata, Namespace, Node, Pod, WireStruct
from bayplan.kube.wire.meta_v1 import WireObject
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology

SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")

_Wire = TypeVar("_Wire", bound=WireObject)
_Struct = TypeVar("_Struct")


class Strictness(Enum):
    """What becomes of fields of a submitted object that are not known or stand twice; the words are kubectl's."""

    STRICT = "strict"
    WARN = "warn"
    IGNORE = "ignore"


class RepeatedField(InvalidObject):
    """A field that stands twice in one mapping."""


class _WithMetadata(WireStruct, frozen=True):
    metadata: Metadata = Metadata()


def read_objects(path: Path, submitted: Strictness | None = None, without: Collection[Path] = ()) -> ObjectSet:
    """Read a file or every object file of a folder (sub-folders included, in name order) except those of `without`.

    Objects that a user submits are checked as an API server would check them, and the first that is wrong is an error.
    Without `submitted` the objects are those of a cluster, which an API server has admitted: fields that are not known
    are skipped, and an object of a wrong shape is left out.
    """
    found = ObjectSet()
    for file in _files_of(path):
        if path.is_dir() and any(file.samefile(other) for other in without):
            continue
        part = ObjectSet()
        reader = _Reader(file, submitted, part)
        for document in read_documents(file):
            reader.collect(document)
        reader.finish()
        found.add(part, file)
    return found


def read_document(path: Path, *, strict: bool = True) -> object:
    """Read a file that holds one document of any shape, such as a configuration.

    A key that stands twice is an error if it is read strictly.
    """
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
    deep = document.too_deep()
    if deep is not None:
        raise InvalidObject(ObjectPath(f"file {path}:{document.position(deep)}", deep), TOO_DEEP)
    for repeated in document.repeated_keys() if strict else ():
        raise InvalidObject(ObjectPath(f"file {path}:{document.position(repeated)}", repeated), "appears twice")
    try:
        return decode(document.json)
    except msgspec.DecodeError as error:
        number = document.out_of_range()
        if number is None:
            raise InvalidObject(ObjectPath(f"file {path}"), json_words(error)) from None
        raise InvalidObject(ObjectPath(f"file {path}:{document.position(number)}", number), OUT_OF_RANGE) from None


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
    header: Header
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
            whole = _Entry(document, document.json, HEADER_DECODER.decode(document.json))
        except msgspec.ValidationError as error:
            field, problem = field_and_problem(error)
            at = ObjectPath(f"file {self._file}:{document.position(field)}", field)
            self._no_object(document, InvalidObject(at, f"{problem}; expected a Kubernetes object"))
            return
        kind = whole.header.kind
        if kind == "Status":
            raise InvalidObject(ObjectPath(f"file {self._file}:{whole.position('')}"), _refusal(document))
        if whole.header.is_list:
            self._objects += 1
            self._collect_items(whole, kind, whole.header.api_version)
        elif not kind and whole.header.kinds:
            self._objects += 1
            self._found.rule_documents.append((self._file, decoded(document, self._file, strict=False)))
        elif not kind:
            at = self._subject("object", whole, "kind")
            self._no_object(document, InvalidObject(at, "is missing; is this a Kubernetes object?"))
        else:
            self._objects += 1
            self._take(whole, kind, whole.header.api_version)

    def _no_object(self, document: Document, problem: InvalidObject) -> None:
        try:
            decoded(document, self._file, strict=False)
        except InvalidObject as too_deep:  # which says more
            problem = too_deep
        self._no_objects.append(problem)

    def finish(self) -> None:
        """A file without any object is an error.

        A document that is none beside others is one of many that are left out.
        """
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
            entry = _Entry(document, item.content, HEADER_DECODER.decode(item.content), item)
        except msgspec.ValidationError as error:
            field, problem = field_and_problem(error)
            named = _named_in(item.content)
            metadata = Named(name=named.get("name", ""), namespace=named.get("namespace"))
            header = Header(metadata=metadata)
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
            self._refuse_too_deep(entry, kind)
            if self._submitted:
                self._check(entry, kind, api_version)
            self._decode_into_set(entry, kind, api_version)
        except (InvalidObject, RecursionError, msgspec.DecodeError) as error:
            if kind == NodeResourceTopology.__name__ and not self._submitted:
                self._found.unreadable_topologies.append(entry.header.metadata.name)
            self._leave_out(error if isinstance(error, InvalidObject) else self._unreadable(kind, entry, error))

    def _unreadable(self, kind: str, entry: _Entry, error: RecursionError | msgspec.DecodeError) -> InvalidObject:
        """What a decoder refuses in JSON that is well-formed."""
        if isinstance(error, RecursionError):
            return InvalidObject(self._subject(kind, entry, ""), TOO_DEEP)
        number = entry.document.out_of_range(entry.item)
        problem = json_words(error) if number is None else OUT_OF_RANGE
        return InvalidObject(self._subject(kind, entry, number or ""), problem)

    def _refuse_too_deep(self, entry: _Entry, kind: str) -> None:
        deep = entry.document.too_deep(entry.item)
        if deep is not None:
            raise InvalidObject(self._subject(kind, entry, deep), TOO_DEEP)

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
        for told in submitted_warnings(document, kind, api_version, at):
            if self._submitted is not Strictness.IGNORE or not isinstance(told, UnknownField):
                self._found.remarks.append(str(self._placed(told, entry)))

    def _placed(self, fault: InvalidObject, entry: _Entry) -> InvalidObject:
        return InvalidObject(fault.at.in_file(self._file, entry.position(fault.at.field)), fault.problem)

    def _decode_into_set(self, entry: _Entry, kind: str, api_version: str) -> None:
        found = self._found
        group = api_version.rpartition("/")[0]
        if kind == "Node" and not group:
            node = self._decode(entry, Node)
            found.nodes.append(node)
            self._remark_by_hand(entry, kind, node.metadata.uid)
        elif kind == "Pod" and not group:
            pod = self._decode(entry, Pod)
            if not pod.spec.containers:
                at = self._subject(kind, entry, "spec.containers")
                raise InvalidObject(at, "is empty: a pod needs at least one container")
            found.pods.append(pod)
            self._remark_by_hand(entry, kind, pod.metadata.uid)
        elif kind == "Namespace" and not group:
            found.namespaces.append(self._decode(entry, Namespace))
        elif kind == NodeResourceTopology.__name__:
            if api_version and api_version not in node_resource_topology_v1alpha2.API_VERSIONS:
                allowed = ", ".join(node_resource_topology_v1alpha2.API_VERSIONS)
                at = self._subject(kind, entry, "apiVersion")
                raise InvalidObject(at, f'"{api_version}" is not understood; expected {allowed}')
            report = self._decode(entry, NodeResourceTopology)
            found.topologies.append(report)
            self._remark_by_hand(entry, kind, report.metadata.uid, unknown=False)
            self._remark_unread(entry, kind, unread_in_report(entry.content))
        elif (known := kind_in_set(api_version, kind)) is not None:
            struct, group_of_set = known
            getattr(found, group_of_set).append(self._decode(entry, struct))
            if struct is PriorityClass:
                self._remark_unread(entry, kind, unread(msgspec.json.decode(entry.content), struct))
        else:
            metadata = self._typed(entry, _WithMetadata, kind).metadata
            if not metadata.name and not self._submitted:  # a submitted one may still get a name
                raise InvalidObject(self._subject(kind, entry, "metadata.name"), NAMELESS)
            found.others.append(OtherObject(api_version, kind, metadata, bytes(entry.content)))

    def _remark_unread(self, entry: _Entry, kind: str, unread_fields: Iterable[str]) -> None:
        for each in unread_fields:
            field, _, problem = each.partition(": ")
            self._found.remarks.append(str(InvalidObject(self._subject(kind, entry, field), problem)))

    def _remark_by_hand(self, entry: _Entry, kind: str, uid: str, *, unknown: bool = True) -> None:
        """Repeated and unknown fields of an object that was written by hand: an API server gives each object a uid,
        writes no field twice, and keeps no field that it does not know.
        """
        if self._submitted or uid:
            return
        at = _path(kind, entry)
        for field in entry.document.repeated_keys(entry.item):
            self._found.remarks.append(str(self._placed(RepeatedField(_below(at, field), "appears twice"), entry)))
        for fault in field_faults(msgspec.json.decode(entry.content), kind, at) if unknown else ():
            if isinstance(fault, UnknownField):
                self._found.remarks.append(str(self._placed(fault, entry)))

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
            raise InvalidObject(at, NAMELESS)
        return decoded

    def _with_a_name(self, thing: _Wire, start: str) -> _Wire:
        """The API server would add random letters; here the same file gives the same names."""
        self._generated += 1
        metadata = msgspec.structs.replace(thing.metadata, name=f"{start}{self._generated}")
        return msgspec.structs.replace(thing, metadata=metadata)  # type: ignore[type-var]

    def _subject(self, kind: str, entry: _Entry, field: str) -> ObjectPath:
        return _below(_path(kind, entry), field).in_file(self._file, entry.position(field))


def _refusal(document: Document) -> str:
    """What the API server said instead of objects."""
    status = json.loads(document.json, parse_int=str)
    code = " ".join(str(status[key]) for key in ("code", "reason") if status.get(key))
    said = status.get("message") or status.get("status") or "no message"
    return f"the API server answered with a Status instead of objects: {said}{f' ({code})' if code else ''}"


def _path(kind: str, entry: _Entry) -> ObjectPath:
    metadata = entry.header.metadata
    name = metadata.name or (f"{metadata.generate_name}*" if metadata.generate_name else "(no name)")
    return ObjectPath(f"{kind} {metadata.namespace}/{name}" if metadata.namespace else f"{kind} {name}")


def _below(at: ObjectPath, field: str) -> ObjectPath:
    return ObjectPath(at.subject, field)


def _named_in(content: msgspec.Raw) -> dict[str, str]:
    """Kind, namespace and name of an object of which not even the head has the right shape, as
    far as they can be read.
    """
    read = json.loads(bytes(content), parse_int=str)
    head = read if isinstance(read, dict) else {}
    metadata = head.get("metadata")
    named = {**(metadata if isinstance(metadata, dict) else {}), "kind": head.get("kind")}
    return {key: named[key] for key in ("kind", "namespace", "name") if isinstance(named.get(key), str)}
