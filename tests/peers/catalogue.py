"""Which peers there are, in which versions, and where their programs lie.

A peer is a folder below `go/` with our Go files and a `versions/` folder; a version is a go.mod with its go.sum, and Go
files that only this version needs. Files below `overlay/` are added to the peer's own packages while it is built, for
what those do not export. Next: `build.py` builds a peer into the user's cache, `asking.py` asks it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.control_plane.programs import user_cache

GO = Path(__file__).parent / "go"
COMMON = GO / "common"
OVERLAY = "overlay"


class NoPeer(Exception):
    """The peer is not built here, or cannot be. The message is one line for the person who runs the tests."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another system in one version: "kubelet" "1.36.4"."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def folder(self) -> Path:
        """Where go.mod is."""
        return GO / self.name / "versions" / self.version

    @property
    def sources(self) -> list[Path]:
        """Our Go files that become the program, in the order in which they are put together."""
        return sorted(each for folder in (COMMON, GO / self.name, self.folder) for each in folder.glob("*.go"))

    @property
    def overlays(self) -> dict[str, Path]:
        """Our files by their place in the peer's module; those of the version come last and win."""
        return {
            str(each.relative_to(root)): each
            for root in (GO / self.name / OVERLAY, self.folder / OVERLAY)
            for each in sorted(root.rglob("*.go"))
        }

    @property
    def program(self) -> Path:
        """The program, built or not. A change of our files is another program."""
        digest = hashlib.sha256()
        for each in (*self.sources, *self.overlays.values(), self.folder / "go.mod", self.folder / "go.sum"):
            digest.update(each.name.encode() + b"\0" + each.read_bytes() + b"\0")
        return cache_folder() / str(self) / digest.hexdigest()[:16]

    @property
    def replaced(self) -> tuple[str, str, str] | None:
        """Module, version and checksum of the peer's module, where files of ours are added to it."""
        written = (self.folder / "go.mod").read_text(encoding="utf-8")
        found = re.search(r"^replace (\S+) => \./peer // (\S+) (h1:\S+)$", written, re.MULTILINE)
        return (found[1], found[2], found[3]) if found else None

    @property
    def is_built(self) -> bool:
        """Whether the program is there."""
        return self.program.is_file()


def cache_folder() -> Path:
    """Where peers are kept, the same for every clone of the repository."""
    return user_cache() / "peers"


def all_peers() -> Iterator[Peer]:
    """Every peer in every version, the oldest version first."""
    for folder in sorted(GO.glob("*/versions/*")):
        if (folder / "go.mod").is_file():
            yield Peer(folder.parents[1].name, folder.name)


def find_peer(name: str, version: str | None = None) -> Peer:
    """A peer by name, in its newest version unless one is given; raises NoPeer if there is none."""
    versions = [each for each in all_peers() if each.name == name]
    if not versions:
        names = sorted({each.name for each in all_peers()})
        raise NoPeer(f"no peer is called {name!r}; there are {', '.join(names)}")
    if version is None:
        return versions[-1]
    wanted = version.removeprefix("v")
    for each in versions:
        if each.version == wanted:
            return each
    raise NoPeer(f"no {name} {version}; there are {', '.join(each.version for each in versions)}")
