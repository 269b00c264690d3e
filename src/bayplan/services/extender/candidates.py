"""The nodes of one request: names or whole objects, their rows in the columns, and answers in the same form.

Names as kube-scheduler writes them stay one piece of JSON (`name_index.py`). Whole objects, and lists with unknown
names, are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Protocol

import msgspec
import numpy as np
from msgspec import Raw

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.extender_v1 import (
    ABSENT,
    ExtenderArgs,
    ExtenderFilterResult,
    HostPriority,
    NamedNodeList,
    NodeList,
)
from bayplan.services.extender.name_index import KnownNames, Mask, NameIndex, Scores
from bayplan.services.extender.name_list import NameList
from bayplan.services.extender.requests import BadRequest, decoded

Texts = dict[str, str]
# The row of an unknown node: the last entry, which `DecodedCandidates` adds to masks and scores.
UNKNOWN = -1

_names = msgspec.json.Decoder(list[str])
_named_nodes = msgspec.json.Decoder(NamedNodeList)
_whole_nodes = msgspec.json.Decoder(NodeList)


class Candidates(Protocol):
    """The nodes of a request."""

    @property
    def rows(self) -> Mask:
        """The rows of the nodes."""
        ...

    @property
    def unknown(self) -> Sequence[str]:
        """Names without a row."""
        ...

    def result(self, passing: Mask, failed: Texts, unresolvable: Texts) -> ExtenderFilterResult:
        """The answer of `filter`, in the form of the request: which rows pass, and why the others do not."""
        ...

    def scored(self, scores: Scores) -> bytes:
        """The answer of `prioritize`, from the scores of all rows."""
        ...


class KnownCandidates:
    """Names that are all known: there is no Python object for any of them. Answers are in the order of rows."""

    unknown = ()

    def __init__(self, given: Raw, rows: Mask, known: KnownNames) -> None:
        self.rows = rows
        self._given = given
        self._known = known

    def result(self, passing: Mask, failed: Texts, unresolvable: Texts) -> ExtenderFilterResult:
        """The answer of `filter`."""
        names = self._given if np.array_equal(passing, self.rows) else Raw(self._known.listed(passing))
        return ExtenderFilterResult(None, names, failed, unresolvable)

    def scored(self, scores: Scores) -> bytes:
        """The answer of `prioritize`."""
        return self._known.scored(self.rows, scores)


class DecodedCandidates:
    """Names, or whole nodes that are sent back as they came. Answers are in the order of the request."""

    def __init__(self, state: ClusterState, given: Raw, names: list[str], *, whole: bool) -> None:
        self._given = given
        self._names = names
        self._whole = whole
        self._at = np.fromiter(map(state.rows.get, names, repeat(UNKNOWN)), dtype=np.intp, count=len(names))
        rows = np.zeros(len(state.names) + 1, dtype=bool)
        rows[self._at] = True
        self.rows: Mask = rows[:UNKNOWN]
        self.unknown = [names[at] for at in np.flatnonzero(self._at == UNKNOWN).tolist()]

    def result(self, passing: Mask, failed: Texts, unresolvable: Texts) -> ExtenderFilterResult:
        """The answer of `filter`."""
        kept = np.flatnonzero(np.append(passing, False)[self._at]).tolist()
        if self._whole:
            nodes = _whole_nodes.decode(self._given).items or [] if len(kept) < len(self._names) else None
            found = self._given if nodes is None else NodeList([nodes[at] for at in kept])
            return ExtenderFilterResult(found, None, failed, unresolvable)
        return ExtenderFilterResult(None, [self._names[at] for at in kept], failed, unresolvable)

    def scored(self, scores: Scores) -> bytes:
        """The answer of `prioritize`; unknown nodes get 0."""
        return msgspec.json.encode(list(map(HostPriority, self._names, np.append(scores, 0)[self._at].tolist())))


class RecentCandidates:
    """The candidates of the last request: `prioritize` repeats those that `filter` got if all of them passed."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._index = NameIndex(state)
        self._given = ABSENT
        self._version = -1
        self._candidates: Candidates | None = None

    def of(self, arguments: ExtenderArgs) -> Candidates:
        """The nodes of a request; raises `BadRequest` if it has none or a malformed one."""
        given = arguments.nodes if arguments.node_names == ABSENT else arguments.node_names
        if given == ABSENT:
            raise BadRequest("NodeNames: is missing, and so is Nodes")
        version = self._state.node_log.end
        if self._candidates is None or version != self._version or given != self._given:
            self._candidates = self._whole(given) if given is arguments.nodes else self._named(given)
            self._given, self._version = given, version
        return self._candidates

    def _named(self, given: Raw) -> Candidates:
        known, listed = self._index.known(), NameList.of(bytes(given))
        rows = known.rows_of(listed) if known is not None and listed is not None else None
        if known is not None and rows is not None:
            return KnownCandidates(given, rows, known)
        return DecodedCandidates(self._state, given, decoded(_names, given, "NodeNames"), whole=False)

    def _whole(self, given: Raw) -> Candidates:
        nodes = decoded(_named_nodes, given, "Nodes").items or []
        return DecodedCandidates(self._state, given, [node.metadata.name for node in nodes], whole=True)
