"""The ledger at work: what pods were promised in zones, taken from the columns and given back as events arrive.

`cluster/state.py` passes on what happens to pods and reports. This module decides what stays subtracted, by the rules
of `cluster/reports/ledger.py` and in this order: by the list of pods in the report; by its fingerprint
(`cluster/reports/shown_pods.py`); by age, where moments are known; otherwise by what the amounts suggest. Pods that
ended and are still listed are added back (`cluster/reports/ended_pods.py`).

Where fingerprints make sense, a report whose fingerprint does not is put aside. Either it is late and out of order, or
it knows of a pod or of an end that we have not heard of yet. The report is applied as soon as we have, and in any case
after a while. If a topology cache does the accounting (`cluster/reports/intake.py`), `keeps_ledger` is False: then
reports are applied as they are and nothing is promised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bayplan.cluster.columns.zone_charges import charges_of, give, held_of, take
from bayplan.cluster.columns.zone_rows import write_available
from bayplan.cluster.pods.request import PodRequest
from bayplan.cluster.reports.ended_pods import EndedPods
from bayplan.cluster.reports.inventory import PodHoldings
from bayplan.cluster.reports.ledger import (
    Charges,
    PlacedPod,
    ZoneCharge,
    is_shown_by_silence,
    settled,
    settled_by_age,
    settled_by_list,
    settled_by_name,
)
from bayplan.cluster.reports.pod_zones import could_hold, holdings_of
from bayplan.cluster.reports.shown_pods import Meaning, Reading, ShownPods
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.kube.wire.core_v1 import Pod

if TYPE_CHECKING:
    from bayplan.cluster.state import ClusterState

# A report that was put aside is believed after this many seconds.
BELIEVED_AFTER = 10.0

Pods = list[tuple[str, PlacedPod]]


class Promises:
    """What pods hold in zones that reports do not show, for all rows of a state.

    It has many methods because each event of a pod, a report and a node changes promises in its own way.
    """

    def __init__(self, state: ClusterState) -> None:
        self.keeps_ledger = True
        # Pods whose room is kept while others leave: they are not sent to their nodes yet.
        self.only_kept: set[str] = set()
        self._state = state
        self._ended = EndedPods()
        self._shown = ShownPods()
        # Where the fingerprint of the report makes sense: the pods that it shows, as far as they are still there.
        self._shown_now: dict[int, set[str]] = {}
        self._put_aside: dict[int, tuple[TopologyReport, float]] = {}
        self._reported_at: dict[int, float] = {}
        self._promised_on: set[int] = set()
        # Pods came or went there since a report whose fingerprint made no sense.
        self._worth_another_look: set[int] = set()

    # -- pods -----------------------------------------------------------------------------------------------------

    def taken(self, row: int, charges: Sequence[ZoneCharge]) -> tuple[Charges, Charges]:
        """A decision is assumed: what could be taken from the zones, and what was promised."""
        if not self.keeps_ledger:
            return (), ()
        self._promised_on.add(row)
        return take(self._state.columns, row, charges), tuple(charges)

    def came(self, key: str) -> None:
        """A pod is on its node, as a promise or as a fact."""
        placed = self._state.pods[key]
        self._shown.came(placed.row, key, placed.request)
        self._look_again(placed.row)

    def went(self, key: str, placed: PlacedPod) -> None:
        """A pod is no longer on its node: what it had taken is given back."""
        row = placed.row
        self._shown.went(row, key, placed.request)
        self._shown_now.get(row, set()).discard(key)
        give(self._state.columns, row, placed.charges)
        self._take_what_was_short(row)
        self._look_again(row)

    def appeared(self, key: str, *, known: bool, at: float | None) -> None:
        """The cluster shows a pod on its node. If it was not `known` before, another client bound it."""
        state = self._state
        placed = state.pods[key]
        row = placed.row
        report = state.reports[row]
        if report is None or placed.promised or not self.keeps_ledger:
            return
        if not report.shows_use:
            self._promise(key, self._holdings(key, report))
        elif known:
            return  # whatever it holds in zones is in the node's report already
        elif report.pods is not None:
            self._look_up(key, report, report.pods)
        elif self._may_be_missing(key, row, at):
            self._promise(key, charges_of(state.columns, could_hold(placed.request, report)), by_amounts=False)

    def _may_be_missing(self, key: str, row: int, at: float | None) -> bool:
        """Is a pod too young to be in the node's report?"""
        if row in self._shown_now:
            return key not in self._shown_now[row]
        return at is not None and row in self._reported_at and not _started(self._state.bound[key])

    def confirmed(self, key: str, at: float | None) -> PlacedPod:
        """The cluster shows a promised pod on its node; a report that seems to show it already settles the promise."""
        state = self._state
        placed = state.pods[key]
        if placed.shown:
            give(state.columns, placed.row, placed.charges)
            placed = replace(placed, charges=(), promised=(), shown=False)
            state.usage_log.append(placed.row)
        moment = placed.confirmed_at if placed.confirmed_at is not None else at
        return replace(placed, confirmed=True, confirmed_at=moment)

    def note_end(self, key: str, placed: PlacedPod, at: float | None) -> None:
        """A pod ended: the report may list it still, or one that is on its way may list it for the first time."""
        row, state = placed.row, self._state
        report = state.reports[row]
        if report is None or not self.keeps_ledger:
            return
        held = held_of(state.columns, report, (report.pods or {}).get(key, {}))
        if report.pods is not None:
            self._remember_end(key, placed, held, report.pods, at)
            self._take_what_was_short(row)
        self._doubt_zones_above(row, (*held, *placed.promised), report)

    def _remember_end(self, key: str, placed: PlacedPod, held: Charges, listed: PodHoldings, at: float | None) -> None:
        row, state = placed.row, self._state
        if placed.listed and held:
            self._ended.add(row, key, at, listed)
            give(state.columns, row, held)
            state.freshness.ended(row, key, listed)
        elif placed.promised and not placed.listed:
            self._ended.add(row, key, at, listed)
            if placed.confirmed and not placed.by_amounts:
                state.freshness.ended_in_the_dark(row, key)

    def _doubt_zones_above(self, row: int, freed: Charges, report: TopologyReport) -> None:
        """A pod ended: a promise in a higher zone that no report shows yet may be in its place, and push others out of
        theirs.

        The kubelet freed the zones before we heard of it, perhaps before it admitted pods that were decided meanwhile.
        So all of these promises count in every zone until a report shows them.
        """
        state = self._state
        if not freed or not state.freshness.hears_late:
            return
        unlisted = [
            (key, placed)
            for key, placed in self._pods_on(row)
            if placed.promised and not placed.listed and not placed.shown and key not in self.only_kept
        ]
        if not self._may_be_in(row, {charge.zone for charge in freed}, unlisted):
            return
        anywhere: dict[int, Charges] = {}
        for key, placed in unlisted:
            # A node may have a thousand equal pods, and lose them all at once.
            may_hold = anywhere.get(id(placed.request))
            if may_hold is None:
                may_hold = charges_of(state.columns, could_hold(placed.request, report))
                anywhere[id(placed.request)] = may_hold
            if placed.promised == may_hold:
                continue  # in doubt already
            give(state.columns, row, placed.charges)
            taken = take(state.columns, row, may_hold)
            state.pods[key] = replace(placed, charges=taken, promised=may_hold, by_amounts=False)
            state.freshness.promised_in_the_dark(row, key, report)

    def _may_be_in(self, row: int, freed: set[int], unlisted: Pods) -> bool:
        """Whether a promise in one zone may be in a lower one that was freed;
        one over several zones may be anywhere.
        """
        held: defaultdict[tuple[int, int], float] = defaultdict(float)
        for _, other in unlisted:
            for charge in other.charges:
                held[charge.resource, charge.zone] += charge.amount
        available = self._state.columns.zone_available[:, :, row]

        def fits(promised: Charges, zone: int) -> bool:
            return all(
                charge.amount <= available[charge.resource, zone] + held[charge.resource, zone] for charge in promised
            )

        for promised in {placed.promised for _, placed in unlisted}:
            zones = {charge.zone for charge in promised}
            if len(zones) > 1 or any(zone < lowest and fits(promised, zone) for zone in freed for lowest in zones):
                return True
        return False

    def is_ahead(self, row: int) -> bool:
        """True if pods came or went since a node's report that it does not show yet."""
        state = self._state
        return bool(self._ended_but_listed(row)) or any(state.pods[key].promised for key in state.keys_on(row))

    def shows_all_on(self, row: int) -> bool:
        """True if a node's report shows the pods that are on it and no others, as far as is known."""
        report, keys = self._state.reports[row], self._state.keys_on(row)
        if report is None or not self.keeps_ledger or self.is_ahead(row):
            return False
        return not report.fingerprint or self._shown_now.get(row, set()).issuperset(keys)

    # -- reports --------------------------------------------------------------------------------------------------

    def read(self, row: int, report: TopologyReport, at: float | None) -> Reading | None:
        """Which pods a report shows, or None if it shows others than it should: then it is kept for a second look."""
        self._put_aside.pop(row, None)
        reading = self._read(row, report)
        puzzling = reading.meaning is Meaning.EARLY_OR_OLD or (
            reading.meaning is Meaning.UNKNOWN and row in self._shown_now and bool(report.fingerprint)
        )
        if puzzling and at is not None:
            self._put_aside[row] = report, at
            return None
        return reading

    def settle(
        self, row: int, before: TopologyReport | None, report: TopologyReport, at: float | None, reading: Reading
    ) -> None:
        """A report was written into the columns: take again what it does not show."""
        state = self._state
        self._worth_another_look.discard(row)
        if at is not None:
            self._reported_at[row] = at
        pods = self._pods_on(row)
        if self.keeps_ledger:
            pods = self._settled(row, pods, before, report, at, reading)
        for key, placed in pods:
            if placed.promised or placed.charges:
                placed = replace(placed, charges=take(state.columns, row, placed.promised))  # noqa: PLW2901
            state.pods[key] = placed
        self._note_promised(row)
        state.freshness.reported(row, report, pods, self._ended.expected(row))

    def settle_in_time(self, now: float) -> None:
        """What time settles: reports put aside for long are believed, and promises of which no report has shown
        anything else; pods that came and went between two reports are waited for no longer.
        """
        for row, (report, at) in list(self._put_aside.items()):
            if now >= at + BELIEVED_AFTER:
                self._shown.clear(row)
                self._shown_now.pop(row, None)
                self._state.take_over(row, report, now)
        for row in self._state.freshness.rows_with_dark_ends():
            self._ended.give_up(row, now)
            self._state.freshness.forget_dark_ends(row, self._ended.expected(row), self._state.keys_on(row))
            self._state.judge(row)
        for row in sorted(self._promised_on):
            self._settle_again(row, now)
        self._worth_another_look.clear()

    def report_gone(self, row: int) -> None:
        """A node's report is gone: nothing is left to give back. A promise is taken again from the next report."""
        state = self._state
        self.node_gone(row)
        for key, placed in self._pods_on(row):
            promised = () if placed.confirmed else placed.promised
            state.pods[key] = replace(placed, charges=(), promised=promised, shown=False)

    def node_gone(self, row: int) -> None:
        """A node is gone."""
        self._ended.clear(row)
        self._shown.clear(row)
        self._shown_now.pop(row, None)
        self._put_aside.pop(row, None)
        self._reported_at.pop(row, None)

    # -- who is shown ---------------------------------------------------------------------------------------------

    def _settled(
        self,
        row: int,
        pods: Pods,
        before: TopologyReport | None,
        report: TopologyReport,
        at: float | None,
        reading: Reading,
    ) -> Pods:
        state = self._state
        ended = self._ended.look_at(row, report)
        if report.pods is not None:
            self._shown_now.pop(row, None)
            pods, ended = settled_by_list(
                pods,
                (before.pods if before is not None else None) or {},
                report.pods,
                ended,
                state.columns.resource_names,
                lambda entry: held_of(state.columns, report, entry),
                lambda placed: charges_of(state.columns, could_hold(placed.request, report)),
            )
            self._ended.keep(row, ended)
            for key in self._ended_but_listed(row):
                give(state.columns, row, held_of(state.columns, report, report.pods[key]))
            return pods
        self._ended.clear(row)
        self._shown_now.pop(row, None)
        if not report.shows_use:
            return settled(pods, before, report, state.columns.resource_names, lambda key: self._holdings(key, report))
        if reading.meaning is Meaning.SET:
            self._shown_now[row] = set(reading.shown)
            return settled_by_name(
                pods, reading.shown, lambda placed: charges_of(state.columns, could_hold(placed.request, report))
            )
        if at is not None:
            return settled_by_age(pods, at)
        if report.fingerprint:
            return pods
        return settled(pods, before, report, state.columns.resource_names, lambda key: self._holdings(key, report))

    def _read(self, row: int, report: TopologyReport) -> Reading:
        """Which pods a report shows, if it says so by a fingerprint and by nothing better."""
        if not report.fingerprint or report.pods is not None or not report.shows_use or not self.keeps_ledger:
            self._shown.clear(row)
            return Reading(Meaning.UNKNOWN)
        counted: dict[int, bool] = {}

        def counts(request: PodRequest) -> bool:
            if not report.only_exclusive:
                return True
            # Pods of one template share their request.
            found = counted.get(id(request))
            if found is None:
                found = counted[id(request)] = bool(could_hold(request, report))
            return found

        requests = {key: placed.request for key, placed in self._pods_on(row)}
        return self._shown.read(row, report.fingerprint, requests, counts)

    def _look_again(self, row: int) -> None:
        """Pods came or went: a report that was put aside may make sense now."""
        report, at = self._put_aside.get(row, (None, 0.0))
        if report is not None and self._read(row, report).meaning is Meaning.SET:
            self._state.take_over(row, report, at)
        elif row not in self._shown_now:
            self._worth_another_look.add(row)

    def _settle_again(self, row: int, now: float) -> None:
        """Without a new report: its fingerprint may make sense by now, or it must show promises that are old enough."""
        state = self._state
        report = state.reports[row]
        if report is None or report.pods is not None or not report.shows_use:
            return
        reading = self._read(row, report) if row in self._worth_another_look else Reading(Meaning.UNKNOWN)
        if reading.meaning is Meaning.SET:
            self._shown_now[row] = set(reading.shown)
        at = self._reported_at.get(row)
        promised = [(key, state.pods[key]) for key in state.keys_on(row) if state.pods[key].promised]
        settled_now = {
            key
            for key, placed in promised
            if key in reading.shown or (at is not None and is_shown_by_silence(placed, at, now))
        }
        if not settled_now:
            return
        write_available(state.columns, row, report)
        for key, placed in promised:
            still = () if key in settled_now else placed.promised
            state.pods[key] = replace(placed, charges=take(state.columns, row, still), promised=still)
        self._note_promised(row)
        state.usage_log.append(row)

    def _note_promised(self, row: int) -> None:
        promised = any(self._state.pods[key].promised for key in self._state.keys_on(row))
        (self._promised_on.add if promised else self._promised_on.discard)(row)

    # -- single pods ----------------------------------------------------------------------------------------------

    def _look_up(self, key: str, report: TopologyReport, listed: PodHoldings) -> None:
        """A pod that another client bound: the report lists it, or it may be in any zone."""
        state = self._state
        placed = state.pods[key]
        ended = self._ended.on(placed.row)
        if key in listed and key not in ended:
            state.pods[key] = replace(placed, listed=True)
            return
        may_hold = charges_of(state.columns, could_hold(placed.request, report))
        if key in ended and may_hold:
            # The listed pod had the same name. Which of the two the next report means is unknown, so both count.
            self._ended.keep(placed.row, [other for other in ended if other != key])
            take(state.columns, placed.row, held_of(state.columns, report, listed.get(key, {})))
        if may_hold:
            state.freshness.promised_in_the_dark(placed.row, key, report)
            self._promise(key, may_hold, by_amounts=False)

    def _promise(self, key: str, charges: Charges, *, by_amounts: bool = True) -> None:
        state = self._state
        placed = state.pods[key]
        taken = take(state.columns, placed.row, charges)
        state.pods[key] = replace(
            placed, charges=taken, promised=charges, by_amounts=placed.by_amounts and (by_amounts or not charges)
        )
        self._note_promised(placed.row)
        state.judge(placed.row)

    def _take_what_was_short(self, row: int) -> None:
        """A pod gave amounts back: pods that could not take all they were promised take the rest.

        Not in a dry run, which has set their rest aside: what its victims leave is not there to take.
        """
        state = self._state
        if row in state.hypothetical:
            return
        for key in state.keys_on(row):
            placed = state.pods[key]
            if placed.charges != placed.promised and placed.promised:
                give(state.columns, row, placed.charges)
                state.pods[key] = replace(placed, charges=take(state.columns, row, placed.promised))

    def _holdings(self, key: str, report: TopologyReport) -> tuple[ZoneCharge, ...]:
        """What the annotation of a bound pod tells; a pod that holds more than that is noted as unknown."""
        state = self._state
        placed = state.pods[key]
        held, complete = holdings_of(state.bound[key], placed.request, report)
        if not complete:
            state.freshness.in_unknown_zones[placed.row].add(key)
        return charges_of(state.columns, held)

    def _ended_but_listed(self, row: int) -> list[str]:
        report = self._state.reports[row]
        listed = (report.pods if report is not None else None) or {}
        return [key for key in dict.fromkeys(self._ended.on(row)) if key in listed]

    def _pods_on(self, row: int) -> Pods:
        return [(key, self._state.pods[key]) for key in self._state.pods_on(row)]


def _started(pod: Pod) -> bool:
    """True if the kubelet has begun with a pod: then its report, too, has had some time to show it."""
    return pod.status is not None and pod.status.start_time is not None
