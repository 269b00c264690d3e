"""Which pods does a report show if it lists none but publishes a fingerprint over them?

Pods come to a node and end there, one after another; each such event makes another set. Reports lag, so a fingerprint
may match the current set or that of some events ago. Going back event by event finds the set, and with it the moment at
which the report was made, as a number of events: pods that came before it are shown, pods that came after it are not.

Reports come in the order in which they were made. A report whose set is older than that of the last report is either
out of order or knows of an end that we have not heard of yet: it is *early or old*. If the same names came twice, the
older set counts: the report is then believed to show too little, never too much.

The input is events and reports from `cluster/reports/promises.py`; the output is a `Reading` for the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from bayplan.cluster.pods.request import PodRequest
from bayplan.cluster.reports.fingerprint import fingerprint_of_hashes, pod_hash

# Per node. A report that lags by more events than this cannot be matched.
MOST_EVENTS = 32


class Meaning(Enum):
    """What a fingerprint stands for."""

    SET = "a set of pods that were known at some moment since the last report"
    EARLY_OR_OLD = "a set of before the last report"
    UNKNOWN = "no set that was ever known here"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a report's fingerprint stands for, and for a SET the pods that it shows."""

    meaning: Meaning
    shown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Event:
    number: int
    key: str
    came: bool
    request: PodRequest

    def __deepcopy__(self, memo: object) -> _Event:
        """What has happened does not change: copies of a state share it."""
        return self


@dataclass(slots=True)
class _History:
    """The latest events of one node, and the number of the one after which its last report was made."""

    events: list[_Event] = field(default_factory=list)
    number: int = 0
    reported: int = 0


class ShownPods:
    """By row.

    Only nodes whose report publishes a fingerprint have a history: before the first one, nothing can be late.
    """

    def __init__(self) -> None:
        self._histories: dict[int, _History] = {}

    def came(self, row: int, key: str, request: PodRequest) -> None:
        """A pod is on the node from now on."""
        self._add(row, key, request, came=True)

    def went(self, row: int, key: str, request: PodRequest) -> None:
        """A pod is no longer on the node."""
        self._add(row, key, request, came=False)

    def clear(self, row: int) -> None:
        """The node or its report is gone, or the report publishes no fingerprint."""
        self._histories.pop(row, None)

    def read(
        self, row: int, fingerprint: str, pods: Mapping[str, PodRequest], counts: Callable[[PodRequest], bool]
    ) -> Reading:
        """What a new report stands for.

        `pods` are on the node now, `counts` says which of them are part of fingerprints.
        """
        history = self._histories.setdefault(row, _History())
        found: list[int] = []
        for number, hashes in _sets(history, pods, counts):
            if found and number < history.reported:
                break  # further back it matters only if nothing was found
            if fingerprint_of_hashes(hashes) == fingerprint:
                found.append(number)
        since = [number for number in found if number >= history.reported]
        if not since:
            return Reading(Meaning.EARLY_OR_OLD if found else Meaning.UNKNOWN)
        history.reported = min(since)
        return Reading(Meaning.SET, frozenset(pods) - self._came_since(history))

    def _came_since(self, history: _History) -> set[str]:
        return {event.key for event in history.events if event.came and event.number > history.reported}

    def _add(self, row: int, key: str, request: PodRequest, *, came: bool) -> None:
        history = self._histories.get(row)
        if history is not None:
            history.number += 1
            history.events.append(_Event(history.number, key, came, request))
            del history.events[:-MOST_EVENTS]


def _sets(
    history: _History, pods: Mapping[str, PodRequest], counts: Callable[[PodRequest], bool]
) -> Iterator[tuple[int, list[int]]]:
    """The sets of pods that were on the node, latest first, as the number of events before them and the hashes of their
    pods.
    """
    hashes = {key: _hash(key) for key, request in pods.items() if counts(request)}
    yield history.number, list(hashes.values())
    for event in reversed(history.events):
        if event.came:
            hashes.pop(event.key, None)
        elif counts(event.request):
            hashes[event.key] = _hash(event.key)
        yield event.number - 1, list(hashes.values())


def _hash(key: str) -> int:
    namespace, _, name = key.partition("/")
    return pod_hash(namespace, name)
