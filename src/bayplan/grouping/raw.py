"""Objects of any kind as decoded JSON, with lookups by path.

Owners can be of unknown kinds, so they stay dictionaries. A missing value is None; a value of the wrong type raises
`WrongValue` with the path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.kube.wire.core_v1 import Pod

RawObject = dict[str, Any]
Path = tuple[str, ...]


class WrongValue(ValueError):
    """A field has an invalid value."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: {shown(value)} {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class Reference:
    """The identity of an object, as in an owner reference or an event."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""

    @classmethod
    def of(cls, thing: RawObject) -> Reference:
        """The reference to an object."""
        metadata = metadata_of(thing)
        return cls(
            str(thing.get("apiVersion") or ""),
            str(thing.get("kind") or ""),
            str(metadata.get("namespace") or ""),
            str(metadata.get("name") or ""),
            str(metadata.get("uid") or ""),
        )

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version inside the API group."""
        return self.api_version.rpartition("/")[2]

    def as_owner(self) -> RawObject:
        """The entry for `metadata.ownerReferences`."""
        return {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind or 'object'} {name}"


def raw_pod(pod: Pod | RawObject) -> RawObject:
    """A pod as a dictionary."""
    if isinstance(pod, Pod):
        return {"apiVersion": "v1", "kind": "Pod", **msgspec.to_builtins(pod)}
    return pod


def metadata_of(thing: RawObject) -> RawObject:
    """An object's metadata, empty if it has none."""
    found = thing.get("metadata")
    return found if isinstance(found, dict) else {}


def labels_of(thing: RawObject) -> Mapping[str, str]:
    """An object's labels."""
    return _texts(metadata_of(thing).get("labels"))


def annotations_of(thing: RawObject) -> Mapping[str, str]:
    """An object's annotations."""
    return _texts(metadata_of(thing).get("annotations"))


def managing(references: Sequence[RawObject]) -> RawObject | None:
    """The owner reference that manages an object; the first if none is marked, None if there are none."""
    return next((each for each in references if each.get("controller")), references[0] if references else None)


def _texts(found: object) -> Mapping[str, str]:
    """A map of texts. Templates that no API server checks can contain numbers without quotes."""
    if not isinstance(found, dict):
        return {}
    if all(isinstance(value, str) for value in found.values()):
        return found
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode() for key, value in found.items()
    }


def look_up(thing: object, path: Path) -> Any:
    """The value at a path; None if there is none."""
    here = thing
    for number, key in enumerate(path):
        if here is None:
            return None
        if not isinstance(here, dict):
            raise WrongValue(written(path[:number]), here, "must be a map")
        here = here.get(key)
    return here


def number_at(thing: object, path: Path) -> int | None:
    """The whole number at a path; None if there is none."""
    found = look_up(thing, path)
    if found is None or (isinstance(found, int) and not isinstance(found, bool)):
        return found
    raise WrongValue(written(path), found, "must be a whole number")


def text_at(thing: object, path: Path) -> str | None:
    """The text at a path; None if there is none."""
    found = look_up(thing, path)
    if found is None or isinstance(found, str):
        return found
    raise WrongValue(written(path), found, "must be a text")


def list_at(thing: object, path: Path) -> list[Any]:
    """The list at a path, empty if there is none."""
    found = look_up(thing, path)
    if found is None:
        return []
    if not isinstance(found, list):
        raise WrongValue(written(path), found, "must be a list")
    return found


def map_at(thing: object, path: Path) -> RawObject:
    """The map at a path, empty if there is none."""
    found = look_up(thing, path)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise WrongValue(written(path), found, "must be a map")
    return found


def written(path: Path) -> str:
    """A path as users write it: `metadata.annotations["example.com/size"]`."""
    text = ""
    for key in path:
        if set(key) & set('./" '):
            text += f'["{key}"]'
        else:
            text += f".{key}" if text else key
    return text


def shown(value: object) -> str:
    """A value in a message: text in quotes, shortened if it is long."""
    text = f'"{value}"' if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:76]}..."
