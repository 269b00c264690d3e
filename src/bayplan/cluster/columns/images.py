"""The container images that nodes have, by name, as their kubelets report them.

A node's images come in with each version of its object; out come the rows that have an image. As in kube-scheduler, an
image has the size that the first node with it reported.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.wire.core_v1 import ContainerImage

# Names that are read of one node. Kubelets report 50 images by default, each under up to 5 names.
MOST_NAMES = 2048
LONGEST_NAME = 1024


class Image:
    """One image: its size in bytes and the rows that have it."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._rows: set[int] = set()
        self._array: NDArray[np.intp] | None = None

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows that have the image; the same array until that changes."""
        if self._array is None:
            self._array = np.fromiter(self._rows, dtype=np.intp, count=len(self._rows))
        return self._array

    def put(self, row: int, *, here: bool) -> bool:
        """Say whether a row has the image; False if no row has it any more."""
        (self._rows.add if here else self._rows.discard)(row)
        self._array = None
        return bool(self._rows)


class Images:
    """All images of all nodes."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}
        self._on: dict[int, tuple[str, ...]] = {}

    def get(self, name: str) -> Image | None:
        """An image that some node has."""
        return self._images.get(name)

    def set(self, row: int, images: Sequence[ContainerImage]) -> int:
        """Take over the images of a node; returns how many names were left out because there are too many."""
        sizes = {name: image.size_bytes for image in images for name in image.names or () if len(name) <= LONGEST_NAME}
        written = sum(len(image.names or ()) for image in images)
        names = tuple(sizes)[:MOST_NAMES]
        before = self._on.get(row, ())
        if names != before:
            self._forget(row, before, names)
            # Names are shared between nodes: of 5,000 nodes, most have the same.
            self._on[row] = tuple(self._add(row, name, sizes[name]) for name in names)
            if not names:
                del self._on[row]
        return written - len(names) if len(sizes) > MOST_NAMES or len(sizes) < written else 0

    def _add(self, row: int, name: str, size: int) -> str:
        image = self._images.get(name)
        if image is None:
            image = self._images[name] = Image(name, size)
        image.put(row, here=True)
        return image.name

    def _forget(self, row: int, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        stay = frozenset(after)
        for name in before:
            if name not in stay and not self._images[name].put(row, here=False):
                del self._images[name]
