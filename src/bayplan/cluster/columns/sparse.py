"""Memory for columns most of which may be empty: a resource that one node has costs a page or two, not a column over
all nodes.

The operating system gives memory page by page when something is written there. Two things would spoil that: huge pages,
which NumPy asks for and which hold four columns of 5,000 nodes and eight zones each, and zeros written over zeros. 240
names of four nodes took 346 MB at 5,000 nodes, and take 19. Where there are few names, most nodes have them, and huge
pages stay: at 100,000 nodes a filter is a tenth to a third faster with them.
"""

from __future__ import annotations

import mmap
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Smaller arrays are not worth pages of their own.
SMALL = 1 << 20
FEW_NAMES = 16


def zeros(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Columns of zeros, the names first; of many names, those take memory that something is written to."""
    size = prod(shape) * np.dtype(dtype).itemsize
    if size < SMALL or shape[0] <= FEW_NAMES:
        return np.zeros(shape, dtype)
    # Pages that are only read take no memory if they are private.
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype=dtype).reshape(shape)


def write_row(column: NDArray[Any], row: int, values: Any) -> None:
    """Write one row, `column[..., row]`, but only where it changes."""
    here = column[..., row]
    differs = here != values
    here[differs] = values if np.ndim(values) == 0 else values[differs]


def copy_into(larger: NDArray[Any], column: NDArray[Any]) -> None:
    """Copy a column into a larger one that is empty, but only what is there."""
    used = np.nonzero(column)
    larger[used] = column[used]
