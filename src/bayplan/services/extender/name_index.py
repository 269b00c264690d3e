"""Rows of node names and answers about them, for a whole list at once.

Every known name is kept as words of 8 bytes and, ready for answers, as JSON. A request with 5,000 names then costs a
few passes over arrays and no Python object per name. Answers are in the order of rows: kube-scheduler reads them as
sets.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.state import ClusterState
from bayplan.services.extender.name_list import WORD, NameList, Positions, Words

Scores = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Slots of a hash table per name; what finds its slot taken goes to the next table.
SLOTS_PER_NAME = 8
MOST_TABLES = 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_HOST, _SCORE = b'{"Host":"', b'","Score":  }'
_TENS = np.frombuffer(b"          1", dtype=np.uint8)
_ONES = np.frombuffer(b"01234567890", dtype=np.uint8)


class NameIndex:
    """The names of the cluster's nodes, built anew when nodes come or go."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._cursor = -1
        self._names: list[str] = []
        self._known: KnownNames | None = None

    def known(self) -> KnownNames | None:
        """All names as of now; None if there are none, or one of them needs escapes in JSON."""
        state, log = self._state, self._state.node_log
        if self._cursor != log.end:
            changed = log.since(self._cursor) if len(state.names) == len(self._names) else None
            self._cursor = log.end
            if changed is None or any(self._names[row] != state.names[row] for row in changed.tolist()):
                self._names = list(state.names)
                self._known = KnownNames.of(state.rows, len(state.names))
        return self._known


class KnownNames:
    """Nodes by ascending rows; `size` is the number of rows with those that have no node."""

    def __init__(self, rows: Positions, size: int, written: bytes, names: NameList) -> None:
        self._rows = rows
        self._size = size
        self._lengths = names.lengths
        self._words = names.words(-(-int(names.lengths.max()) // WORD))
        self._tables = _tables(_mixed(self._words, self._lengths))
        self._last: tuple[tuple[int, int, int], Mask] | None = None
        # The entries of both forms of answers. The blanks are for scores.
        self._quoted = np.frombuffer(written[1:-1] + b",", dtype=np.uint8)
        hosts = written[2:-2].replace(b'","', _SCORE + b"," + _HOST)
        self._hosts = np.frombuffer(b"".join((_HOST, hosts, _SCORE, b",")), dtype=np.uint8)
        self._host_lengths = self._lengths + len(_HOST + _SCORE + b",")
        self._blanks = np.cumsum(self._host_lengths) - len("  },")

    @classmethod
    def of(cls, rows: Mapping[str, int], size: int) -> KnownNames | None:
        """Names with their rows."""
        by_row = sorted(rows, key=rows.__getitem__)
        written = msgspec.json.encode(by_row)
        names = NameList.of(written)
        return None if names is None else cls(np.array([rows[name] for name in by_row]), size, written, names)

    def rows_of(self, names: NameList) -> Mask | None:
        """The rows of the names; None if one of them is unknown."""
        words = names.words(len(self._words))
        mixed = _mixed(words, names.lengths)
        # The usual case: the names of the last request in another order. Others have these sums once in 2^100 requests.
        fingerprint = len(mixed), int(mixed.sum()), int(np.bitwise_xor.reduce(mixed))
        if self._last is None or self._last[0] != fingerprint:
            rows = self._found(names, words, mixed)
            if rows is None:
                return None
            self._last = fingerprint, rows
        return self._last[1]

    def _found(self, names: NameList, words: list[Words], mixed: Words) -> Mask | None:
        found = np.zeros(len(mixed), dtype=np.int32)
        left: slice | Positions = slice(None)
        for table in self._tables:
            here = found[left] = table[_slots(mixed[left], table)]
            wrong = self._lengths[here] != names.lengths[left]
            for known, asked in zip(self._words, words, strict=True):
                wrong |= known[here] != asked[left]
            missed = np.flatnonzero(wrong)
            if not len(missed):
                rows = np.zeros(self._size, dtype=bool)
                rows[self._rows[found]] = True
                return rows
            left = missed if isinstance(left, slice) else left[missed]
            mixed[left] *= _MULTIPLIER
        return None

    def listed(self, rows: Mask) -> bytes:
        """The names of rows as a JSON list."""
        return _list_of(self._quoted[np.repeat(rows[self._rows], self._lengths + len('"",'))])

    def scored(self, rows: Mask, scores: Scores) -> bytes:
        """A JSON list of HostPriority: some of the rows, with the scores of 0 to 10 of all."""
        ordered, hosts = scores[self._rows], self._hosts.copy()
        hosts[self._blanks] = _TENS[ordered]
        hosts[self._blanks + 1] = _ONES[ordered]
        kept = rows[self._rows]
        return _list_of(hosts if kept.all() else hosts[np.repeat(kept, self._host_lengths)])


def _tables(mixed: Words) -> list[NDArray[np.int32]]:
    """Hash tables of positions: each holds those for which the one before has no slot left."""
    found: list[NDArray[np.int32]] = []
    mixed, left = mixed.copy(), np.arange(len(mixed))
    while len(left) and len(found) < MOST_TABLES:
        table = np.zeros(1 << (SLOTS_PER_NAME * len(left)).bit_length(), dtype=np.int32)
        table[_slots(mixed[left], table)] = left
        left = left[table[_slots(mixed[left], table)] != left]
        mixed[left] *= _MULTIPLIER
        found.append(table)
    return found


def _mixed(words: list[Words], lengths: Positions) -> Words:
    mixed = (words[0] + lengths.astype(np.uint64)) * _MULTIPLIER
    for each in words[1:]:
        mixed = ((mixed ^ (mixed >> _HALF)) + each) * _MULTIPLIER
    return (mixed ^ (mixed >> _HALF)) * _MULTIPLIER


def _slots(mixed: Words, table: NDArray[np.int32]) -> Positions:
    bits = len(table).bit_length() - 1
    return (mixed >> np.uint64(64 - bits)).astype(np.intp)


def _list_of(entries: NDArray[np.uint8]) -> bytes:
    """A JSON list of entries that end with a comma each."""
    return b"".join((b"[", entries[:-1].data, b"]"))
