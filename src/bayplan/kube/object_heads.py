"""As much of any object as tells which one it is, and where in its file an object stands.

`files.py` reads the objects of a document by their heads; `object_set.py` asks for positions when an object turns out
to be wrong later on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from bayplan.kube.documents import ListItem, Position, read_documents
from bayplan.kube.wire.core_v1 import Metadata, WireStruct

_OF_OBJECT = ("apiVersion", "kind", "metadata", "spec", "status")


class Named(WireStruct, frozen=True):
    """As little of an object's metadata as possible: what is wrong may stand anywhere else."""

    name: str = ""
    namespace: str | None = None
    generate_name: str = ""


class Header(WireStruct, frozen=True):
    """Enough of any object to know what it is.

    `items` stays undecoded until the kind is known; `kinds` is what a rule file has instead.
    """

    api_version: str = ""
    kind: str = ""
    metadata: Named = Named()
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


def position_of(kind: str, metadata: Metadata, nth: int, file: Path, field: str) -> Position | None:
    """Where a field stands of the nth object of this kind and name in a file, which is read once more for this."""
    if not file.is_file():
        return None  # standard input is gone
    for document in read_documents(file):
        header = headed(document.json)
        for head, item in _entries(header, header.kind):
            if head.kind == kind and same_name(head.metadata, metadata):
                if not nth:
                    # Messages about gangs name the fields of their spec.
                    found = document.position(field, item)
                    top = document.position("", item)
                    of_object = not field or field.partition(".")[0] in _OF_OBJECT
                    return found if of_object or found != top else document.position(f"spec.{field}", item)
                nth -= 1
    return None


def _entries(header: Header, kind: str, item: ListItem | None = None) -> Iterator[tuple[Header, ListItem | None]]:
    """The headers of the objects of a document, each with its kind; those of lists one by one."""
    if not header.is_list:
        yield msgspec.structs.replace(header, kind=kind), item
        return
    for each in header.listed(item.path if item else ()):
        below = headed(each.content)
        yield from _entries(below, below.kind or kind.removesuffix("List"), each)


def headed(content: bytes | msgspec.Raw) -> Header:
    """The head of an object; an empty one if not even that has the right shape."""
    try:
        return HEADER_DECODER.decode(content)
    except msgspec.ValidationError:
        return Header()


def same_name(one: Metadata | Named, other: Metadata) -> bool:
    """Whether two objects of one kind are the same."""
    return (one.name, one.namespace) == (other.name, other.namespace)


HEADER_DECODER = msgspec.json.Decoder(Header)
