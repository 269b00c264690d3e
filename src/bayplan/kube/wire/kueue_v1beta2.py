"""Kueue's TopologyAssignment (`kueue.x-k8s.io/v1beta2`): how many pods of a pod set go into which domain, written as
briefly as Kueue does.

A plain list of domains outgrows etcd's object size at some 25,000 nodes. So domains are written in *slices*, and within
a slice what all values of a level have in common is written once: one value for all, or a common prefix and suffix
around what differs. Where the lowest level is the host name, runs of names with a common beginning (`pool-a-17`,
`pool-a-18`) make slices of their own, if that is the shorter text.

`encoded` writes, `decoded` reads; reading takes any form that Kueue has written so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
from msgspec import Struct

from bayplan.kube.topology_levels import HOSTNAME

# The limits of the CRD.
MOST_DOMAINS = 100_000
MOST_SLICES = 1_000
SEPARATOR = "-"


class Domain(Struct, frozen=True):
    """A domain, by its values of the levels, and how many pods go there."""

    values: tuple[str, ...]
    count: int


class Assignment(Struct, frozen=True):
    """Where the pods of a pod set go, domain by domain.

    Kueue lists the values of all levels, or the host name alone.
    """

    levels: tuple[str, ...] = ()
    domains: tuple[Domain, ...] = ()


class _Wire(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """Base of what is read and written: fields that say nothing are left out."""


class IndividualValues(_Wire, frozen=True):
    """Values that differ: `prefix` + each root + `suffix`."""

    prefix: str = ""
    suffix: str = ""
    roots: tuple[str, ...] = ()


class LevelValues(_Wire, frozen=True):
    """The values of one level: one for all domains, or one for each."""

    universal: str | None = None
    individual: IndividualValues | None = None

    def at(self, index: int) -> str:
        """The value of one domain of the slice."""
        if self.individual is None:
            return self.universal or ""
        return f"{self.individual.prefix}{self.individual.roots[index]}{self.individual.suffix}"


class PodCounts(_Wire, frozen=True):
    """Pods per domain: one number for all, or one for each."""

    universal: int | None = None
    individual: tuple[int, ...] = ()

    def at(self, index: int) -> int:
        """The number of one domain of the slice."""
        return self.individual[index] if self.universal is None else self.universal


class Slice(_Wire, frozen=True):
    """Some of the domains."""

    domain_count: int
    values_per_level: tuple[LevelValues, ...] = ()
    pod_counts: PodCounts = PodCounts()


class TopologyAssignment(_Wire, frozen=True):
    """An assignment as Kueue keeps it in the status of a Workload."""

    levels: tuple[str, ...] = ()
    slices: tuple[Slice, ...] = ()


def decoded(wire: TopologyAssignment) -> Assignment:
    """The plain list of domains."""
    return Assignment(wire.levels, tuple(domain for each in wire.slices for domain in _domains_of(each)))


def encoded(assignment: Assignment) -> TopologyAssignment:
    """The shorter of one slice for everything and a slice for each run of alike host names."""
    in_runs = encoded_in_runs(assignment)
    if len(in_runs.slices) <= 1 or len(assignment.domains) > MOST_DOMAINS:
        return in_runs
    whole = TopologyAssignment(levels=assignment.levels, slices=(_slice(assignment.domains),))
    return whole if len(msgspec.json.encode(whole)) < len(msgspec.json.encode(in_runs)) else in_runs


def encoded_in_runs(assignment: Assignment) -> TopologyAssignment:
    """A slice for each run of domains whose host names begin alike.

    One for all, if the lowest level is not the host name.
    """
    domains = assignment.domains
    beginnings: Sequence[str] = ()
    if len(domains) > 1 and assignment.levels and assignment.levels[-1] == HOSTNAME:
        beginnings = shared_beginnings([domain.values[-1] for domain in domains])
    keys = iter(beginnings or [""] * len(domains))
    runs = (list(run) for _, run in groupby(domains, key=lambda _: next(keys)))
    return TopologyAssignment(
        levels=assignment.levels, slices=tuple(_slice(chunk) for run in runs for chunk in _chunks(run))
    )


def shared_beginnings(names: Sequence[str]) -> list[str]:
    """For each name the longest beginning, up to a dash, that another name has too.

    An empty list if there is no use in them.

    Long beginnings make many runs. While these are more than an assignment may have slices, all are cut back by one
    dash.
    """
    own = [[name[: end + 1] for end in range(len(name) - 1) if name[end] == SEPARATOR] for name in names]
    seen = Counter(beginning for beginnings in own for beginning in beginnings)
    for depth in range(max(map(len, own), default=0), 0, -1):
        found = [next((each for each in reversed(some[:depth]) if seen[each] > 1), "") for some in own]
        runs = (sum(1 for _ in run) for _, run in groupby(found))
        if sum(-(-length // MOST_DOMAINS) for length in runs) <= MOST_SLICES:
            return found
    return []


def _domains_of(part: Slice) -> Iterator[Domain]:
    for index in range(part.domain_count):
        yield Domain(tuple(values.at(index) for values in part.values_per_level), part.pod_counts.at(index))


def _chunks(run: Sequence[Domain]) -> Iterator[Sequence[Domain]]:
    return (run[start : start + MOST_DOMAINS] for start in range(0, len(run), MOST_DOMAINS))


def _slice(domains: Sequence[Domain]) -> Slice:
    counts = [domain.count for domain in domains]
    alike = all(count == counts[0] for count in counts)
    return Slice(
        domain_count=len(domains),
        values_per_level=tuple(
            _level_values(values) for values in zip(*(each.values for each in domains), strict=True)
        ),
        pod_counts=PodCounts(universal=counts[0]) if alike else PodCounts(individual=tuple(counts)),
    )


def _level_values(values: Sequence[str]) -> LevelValues:
    if all(value == values[0] for value in values):
        return LevelValues(universal=values[0])
    prefix = _common_beginning(values)
    suffix = _common_beginning([value[::-1] for value in values])[::-1]
    # Of "aba" and "ababa" both ends are common and overlap: the suffix keeps its length.
    shortest = min(map(len, values))
    prefix = prefix[: max(shortest - len(suffix), 0)]
    roots = tuple(value[len(prefix) : len(value) - len(suffix)] for value in values)
    return LevelValues(individual=IndividualValues(prefix=prefix, suffix=suffix, roots=roots))


def _common_beginning(values: Sequence[str]) -> str:
    """What all values begin with: in the order of the alphabet the first and the last differ soonest."""
    first, last = min(values), max(values)
    same = next((index for index, letter in enumerate(first) if not last.startswith(letter, index)), len(first))
    return first[:same]
