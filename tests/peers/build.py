"""Build peers that are missing, once for all clones: `make peers`.

In: a peer of the catalogue and a Go toolchain. Out: its program in the user's cache. Our files and the version's go.mod
are put into one folder; where files of ours are added to the peer's own packages, `peer` in there is a link to the
module as Go has fetched it, for Go allows no overlay beneath its module cache. Such a module is not checked against
go.sum, so its checksum is compared here. Next: `asking.py` asks it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kubernetes.control_plane.go_build import BuildFailed, only_builder, run_go, say
from tests.kubernetes.control_plane.go_toolchain import find_go
from tests.kubernetes.control_plane.programs import NoControlPlane
from tests.peers.catalogue import NoPeer, Peer, cache_folder

WHAT = "peers"
MODULE_FILES = ("go.mod", "go.sum")


def build_missing(peers: Iterable[Peer]) -> None:
    """Build those that are not in the cache; raises NoPeer where they cannot be had, and BuildFailed if Go fails."""
    missing = [peer for peer in peers if not peer.is_built]
    if not missing:
        return
    cache_folder().mkdir(parents=True, exist_ok=True)
    with only_builder(WHAT, cache_folder()):
        try:
            go = find_go()
        except NoControlPlane as problem:
            raise NoPeer(str(problem)) from None
        for peer in missing:
            if not peer.is_built:  # another clone may have built it while we waited
                _build(go, peer)


def tidy(peer: Peer) -> None:
    """Fill in go.mod and go.sum of a new version, which has its first requirement only."""
    go = find_go()
    with _put_together(go, peer) as (folder, flags):
        done = run_go(go, folder, "mod", "tidy", *flags)
        if done.returncode:
            raise BuildFailed(f"go mod tidy of {peer}:\n{done.stderr.strip()}")
        for name in MODULE_FILES:
            shutil.copy(folder / name, peer.folder / name)


@contextmanager
def _put_together(go: Path, peer: Peer) -> Iterator[tuple[Path, list[str]]]:
    """A folder with the whole module, and the flags that it is built with."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="building-") as unfinished:
        folder = Path(unfinished)
        for source in (*peer.sources, *(peer.folder / name for name in MODULE_FILES)):
            if source.is_file():
                shutil.copy(source, folder)
        yield folder, _link_peer(go, peer, folder)


def _build(go: Path, peer: Peer) -> None:
    started = time.monotonic()
    say(WHAT, f"building {peer}, once; the first build takes minutes")
    program = peer.program
    with _put_together(go, peer) as (folder, flags):
        _fetch(go, peer, folder, flags)
        done = run_go(go, folder, "build", *flags, "-trimpath", "-ldflags", "-s -w", "-o", program.name, ".")
        if done.returncode:
            raise BuildFailed(f"go build {peer}:\n{done.stderr.strip()}")
        shutil.rmtree(program.parent, ignore_errors=True)  # built of older files of ours
        program.parent.mkdir()
        (folder / program.name).rename(program)
    size = program.stat().st_size / 2**20
    say(WHAT, f"built {peer} in {time.monotonic() - started:.0f} s, {size:.0f} MB")


def _link_peer(go: Path, peer: Peer, folder: Path) -> list[str]:
    """Lay the files that are added to the peer's packages over its module; the flags that this takes."""
    if peer.replaced is None:
        return []
    module, version, checksum = peer.replaced
    with tempfile.TemporaryDirectory() as elsewhere:  # in the module itself Go would look at what replaces it
        done = run_go(go, Path(elsewhere), "mod", "download", "-json", f"{module}@{version}")
    if done.returncode:
        raise NoPeer(f"{module} {version} cannot be had from the Go module registry: {_last_line(done.stderr)}")
    fetched = json.loads(done.stdout)
    if fetched["Sum"] != checksum:
        raise BuildFailed(f"{module} {version} has the checksum {fetched['Sum']}, and go.mod says {checksum}")
    (folder / "peer").symlink_to(fetched["Dir"])
    replace = {str(folder / "peer" / place): str(ours) for place, ours in peer.overlays.items()}
    (folder / "overlay.json").write_text(json.dumps({"Replace": replace}), encoding="utf-8")
    return ["-overlay", str(folder / "overlay.json")]


def _fetch(go: Path, peer: Peer, folder: Path, flags: list[str]) -> None:
    """Fetch the source first and by itself: a registry out of reach is no failed build."""
    done = run_go(go, folder, "list", *flags, "-deps", ".")
    if done.returncode:
        raise NoPeer(f"the source of {peer} cannot be had from the Go module registry: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["go said nothing"])[-1]
