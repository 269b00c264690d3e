"""Persistent volumes that no claim has yet, as columns: which rows can reach them, and which are free.

`choices` gives, for claims that are bound with their pod, the volume that kube-scheduler would take on each row: the
smallest that fits. Volumes of a claim are found once and kept; taking one changes a single entry of `_free`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.labels import LabelColumns
from bayplan.cluster.columns.node_terms import NodeTerms
from bayplan.cluster.pods.label_selectors import selector_of
from bayplan.cluster.reports.recent import Recent
from bayplan.cluster.volumes.needs import UnboundClaim
from bayplan.kube.quantity import QuantityError, parse
from bayplan.kube.wire.core_v1 import LabelSelector, NodeSelector
from bayplan.kube.wire.core_v1_volumes import PersistentVolume

NO_VOLUME = -1
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
# Kept lists of candidates, one for each shape of claim.
MOST_SHAPES = 256
MOST_BYTES = 2**63 - 1

Choice = NDArray[np.int64]


class _Candidates(msgspec.Struct, frozen=True):
    """The volumes that satisfy a claim, smallest first, each repeated for every row that reaches it."""

    made_of: tuple[int, int]
    numbers: NDArray[np.int64]
    rows: NDArray[np.intp]


class StaticVolumes:
    """All persistent volumes, and which of them are free."""

    def __init__(self, labels: LabelColumns, terms: NodeTerms) -> None:
        self._labels = labels
        self._terms = terms
        self._volumes: dict[str, PersistentVolume] = {}
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._spare: list[int] = []
        self._free: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._by_class: dict[str, dict[str, None]] = {}
        self._taken: set[str] = set()
        # By claim, the volumes that are bound to it or kept for it.
        self._kept_for: dict[str, dict[str, None]] = {}
        self._version = 0
        self._candidates: Recent[_Candidates] = Recent(MOST_SHAPES)
        self._reach: dict[str, tuple[int, NDArray[np.intp]]] = {}

    def get(self, name: str) -> PersistentVolume | None:
        """A volume by its name."""
        return self._volumes.get(name)

    def of_class(self, storage_class: str) -> list[PersistentVolume]:
        """All volumes of a class."""
        return [each for each in self._volumes.values() if class_of(each) == storage_class]

    def name(self, number: int) -> str:
        """The name of the volume behind a number in `choices`."""
        return self._names[number]

    def put(self, volume: PersistentVolume) -> Iterable[int]:
        """Take in a volume; returns the rows for which the choice of volumes changes."""
        name = volume.metadata.name
        before = self._volumes.get(name)
        was_free = name in self._numbers and bool(self._free[self._numbers[name]])
        self._volumes[name] = volume
        self._keep(before, volume)
        if name not in self._numbers:
            self._number(name)
        listed = before is not None and name in self._by_class.get(class_of(before), {})
        # Provisioned volumes have a claim from the start: they are never listed, and change no list.
        if (listed or volume.spec.claim_ref is None) and (
            not listed or before is None or _offer(before) != _offer(volume)
        ):
            if before is not None:
                self._by_class.get(class_of(before), {}).pop(name, None)
            self._by_class.setdefault(class_of(volume), {})[name] = None
            self._version += 1
        self._judge(name)
        is_free = bool(self._free[self._numbers[name]])
        if not is_free and not was_free:
            return ()
        rows = {int(row) for row in self.rows_of(volume)}
        return rows if before is None else rows | {int(row) for row in self.rows_of(before)}

    def remove(self, name: str) -> Iterable[int]:
        """A volume is gone; returns the rows that could reach it."""
        volume = self._volumes.pop(name, None)
        if volume is None:
            return ()
        self._by_class.get(class_of(volume), {}).pop(name, None)
        self._keep(volume, None)
        number = self._numbers.pop(name)
        self._free[number] = False
        self._spare.append(number)
        self._version += 1
        return [int(row) for row in self.rows_of(volume)]

    def take(self, name: str, *, taken: bool) -> Iterable[int]:
        """A decision takes a volume or gives it back; returns the rows that can reach it."""
        (self._taken.add if taken else self._taken.discard)(name)
        volume = self._volumes.get(name)
        if volume is None:
            return ()
        self._judge(name)
        return [int(row) for row in self.rows_of(volume)]

    def kept_for(self, claim: str, uid: str) -> str:
        """A volume that is bound to a claim or kept for it; empty if there is none."""
        for name in self._kept_for.get(claim, ()):
            reference = self._volumes[name].spec.claim_ref
            if reference is not None and (not uid or reference.uid in ("", uid)):
                return name
        return ""

    def _keep(self, before: PersistentVolume | None, after: PersistentVolume | None) -> None:
        for volume, is_kept in ((before, False), (after, True)):
            claim = claim_of(volume) if volume is not None else ""
            if volume is None or not claim:
                continue
            if is_kept:
                self._kept_for.setdefault(claim, {})[volume.metadata.name] = None
            else:
                kept = self._kept_for.get(claim, {})
                kept.pop(volume.metadata.name, None)
                if not kept:
                    self._kept_for.pop(claim, None)

    def rows_of(self, volume: PersistentVolume) -> NDArray[np.intp]:
        """The rows that can reach a volume."""
        affinity = affinity_of(volume)
        version, rows = self._reach.get(affinity, (-1, np.zeros(0, dtype=np.intp)))
        if version != self._labels.version:
            everywhere = slice(0, self._labels.size)
            if affinity:
                rows = np.flatnonzero(self._terms.matching(selector_from(affinity), everywhere))
            else:
                rows = np.arange(self._labels.size)
            if len(self._reach) > 2 * len(self._volumes) + MOST_SHAPES:
                self._reach.clear()
            self._reach[affinity] = self._labels.version, rows
        return rows

    def choices_on(self, row: int, claims: Sequence[UnboundClaim]) -> list[int]:
        """The same as `choices` for one row."""
        found: list[int] = []
        for claim in claims:
            found.append(next((number for number in self.usable_on(row, claim) if number not in found), NO_VOLUME))
        return found

    def usable_on(self, row: int, claim: UnboundClaim) -> list[int]:
        """The volumes that a claim may take on one row, smallest first."""
        candidates = self._candidates_for(claim)
        here = candidates.numbers[candidates.rows == row]
        usable: list[int] = (here if claim.reserved else here[self._free[here]]).tolist()
        return usable

    def choices(self, claims: Sequence[UnboundClaim]) -> list[Choice]:
        """For each claim, the number of the volume it would get on each row, or -1. Claims come smallest first."""
        found: list[Choice] = []
        for claim in claims:
            candidates = self._candidates_for(claim)
            numbers = candidates.numbers
            usable = np.ones(len(numbers), dtype=np.bool_) if claim.reserved else self._free[numbers]
            for earlier in found:
                usable = usable & (earlier[candidates.rows] != candidates.numbers)
            rows, first = np.unique(candidates.rows[usable], return_index=True)
            choice = np.full(self._labels.size, NO_VOLUME, dtype=np.int64)
            choice[rows] = candidates.numbers[usable][first]
            found.append(choice)
        return found

    def usable_for(self, claim: UnboundClaim) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """The volumes that a claim may take, smallest first, each by its number and with the rows that reach it."""
        candidates = self._candidates_for(claim)
        numbers = candidates.numbers
        ends = np.flatnonzero(np.diff(numbers)) + 1
        for of_volume, rows in zip(np.split(numbers, ends), np.split(candidates.rows, ends), strict=True):
            if len(of_volume) and (claim.reserved or self._free[of_volume[0]]):
                yield int(of_volume[0]), rows

    def free_on_rows(self, claim: UnboundClaim) -> NDArray[np.int64]:
        """How many free volumes satisfy a claim on each row."""
        candidates = self._candidates_for(claim)
        free = candidates.rows[self._free[candidates.numbers]]
        return np.bincount(free, minlength=self._labels.size).astype(np.int64)

    def free_for_any(self, claims: Iterable[UnboundClaim]) -> NDArray[np.int64]:
        """How many free volumes satisfy at least one of the claims on each row."""
        found = [self._candidates_for(claim) for claim in claims]
        pairs = np.unique(np.hstack([(each.numbers, each.rows) for each in found]), axis=1)
        free = pairs[1][self._free[pairs[0]]]
        return np.bincount(free, minlength=self._labels.size).astype(np.int64)

    def _candidates_for(self, claim: UnboundClaim) -> _Candidates:
        made_of = self._version, self._labels.version
        known = self._candidates.get(claim)
        if known is not None and known.made_of == made_of:
            return known
        if claim.reserved:
            volume = self._volumes.get(claim.reserved)
            fitting = [volume] if volume is not None and _fits(volume, claim) else []
        else:
            names = self._by_class.get(claim.storage_class, {})
            volumes = (self._volumes[name] for name in names)
            fitting = [each for each in volumes if _fits(each, claim) and _matches(each, claim)]
        fitting.sort(key=lambda each: (size_of(each), each.metadata.name))
        reached = [self.rows_of(each) for each in fitting]
        numbers = [self._numbers[each.metadata.name] for each in fitting]
        rows = np.concatenate(reached) if reached else np.zeros(0, dtype=np.intp)
        repeated = np.repeat(np.array(numbers, dtype=np.int64), [len(each) for each in reached])
        return self._candidates.put(claim, _Candidates(made_of, repeated, rows))

    def _number(self, name: str) -> None:
        """Give a new volume a number, one that is free again if there is one: volumes come and go for months."""
        if self._spare:
            number = self._spare.pop()
            self._names[number] = name
        else:
            number = len(self._names)
            self._names.append(name)
            if len(self._names) > len(self._free):
                self._free = np.concatenate((self._free, np.zeros(max(64, len(self._free)), dtype=np.bool_)))
        self._numbers[name] = number

    def _judge(self, name: str) -> None:
        volume = self._volumes[name]
        self._free[self._numbers[name]] = (
            volume.spec.claim_ref is None
            and volume.status.phase in ("", "Available")  # written by hand it has no phase yet
            and not volume.metadata.deletion_timestamp
            and name not in self._taken
        )

    def copied(self, labels: LabelColumns, terms: NodeTerms) -> StaticVolumes:
        """A copy that can change by itself."""
        copy = StaticVolumes(labels, terms)
        copy._volumes = dict(self._volumes)
        copy._numbers = dict(self._numbers)
        copy._names = list(self._names)
        copy._spare = list(self._spare)
        copy._free = self._free.copy()
        copy._by_class = {name: dict(volumes) for name, volumes in self._by_class.items()}
        copy._taken = set(self._taken)
        copy._kept_for = {claim: dict(names) for claim, names in self._kept_for.items()}
        return copy


def class_of(volume: PersistentVolume) -> str:
    """The class of a volume: the field, or the annotation of old clusters."""
    return (volume.metadata.annotations or {}).get(BETA_CLASS) or volume.spec.storage_class_name


def claim_of(volume: PersistentVolume) -> str:
    """The claim that a volume is bound to or kept for, by `namespace/name`; empty if there is none."""
    claim = volume.spec.claim_ref
    return f"{claim.namespace}/{claim.name}" if claim is not None else ""


def affinity_of(volume: PersistentVolume) -> str:
    """The node affinity of a volume as JSON; empty if every node can reach it."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return ""
    return msgspec.json.encode(affinity.required).decode()


@lru_cache(maxsize=4096)
def selector_from(affinity: str) -> NodeSelector:
    """The selector that `affinity_of` wrote."""
    return msgspec.json.decode(affinity, type=NodeSelector)


def size_of(volume: PersistentVolume) -> int:
    """The bytes of a volume; 0 if it does not say."""
    return bytes_in((volume.spec.capacity or {}).get("storage"))


def bytes_in(written: str | int | float | None) -> int:
    """A quantity of storage in bytes, as much as a column holds; 0 if there is none that can be read."""
    try:
        return 0 if written is None else min(max(parse(written).value(), 0), MOST_BYTES)
    except QuantityError:
        return 0


def _offer(volume: PersistentVolume) -> Mapping[str, object]:
    """What decides whether a volume satisfies a claim, except whether it is free."""
    spec = volume.spec
    fields = ("capacity", "access_modes", "volume_mode", "volume_attributes_class_name", "node_affinity")
    return {"class": class_of(volume), "labels": volume.metadata.labels, **{f: attrgetter(f)(spec) for f in fields}}


def _fits(volume: PersistentVolume, claim: UnboundClaim) -> bool:
    """True if a volume is large enough and of the right mode: also required of a volume that is reserved."""
    spec = volume.spec
    return (
        size_of(volume) >= claim.size
        and (spec.volume_mode or "Filesystem") == claim.volume_mode
        and (spec.volume_attributes_class_name or "") == claim.attributes_class
        and not volume.metadata.deletion_timestamp
    )


def _matches(volume: PersistentVolume, claim: UnboundClaim) -> bool:
    """True if a claim may take a volume of its class."""
    if not set(claim.modes) <= set(volume.spec.access_modes or ()):
        return False
    if not claim.selector:
        return True
    return selector_of(_label_selector(claim.selector)).matches(volume.metadata.labels or {})


@lru_cache(maxsize=1024)
def _label_selector(written: str) -> LabelSelector:
    return msgspec.json.decode(written, type=LabelSelector)
