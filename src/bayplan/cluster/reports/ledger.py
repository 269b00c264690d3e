"""The ledger: what pods hold in zones that the node's own report does not show, or not yet.

A report lags behind. In come the last report, the new one and the pods on the node; out goes, per pod, what stays
subtracted from the zones. The rules:

* A promise (assumed, not confirmed) stays.
* A confirmed pod's amounts stay until a report shows other use than the last one (`available` differs somewhere). A
  report that is identical in use may have been made before the pod was admitted.
* A report that came before the confirmation may show the pod already: if `available` fell by at least what the pod
  took, beyond what confirmed pods explain, the amounts are dropped when the pod is confirmed, so that they do not count
  twice.
* A report that has only `capacity` shows no use at all. Then everything known stays: promises, and what annotations
  tell of other pods (`cluster/reports/pod_zones.py`). Where only `available` is missing, `allocatable` is what is left,
  and the report shows use like any other.

A report may publish a fingerprint over the pods that it shows. If that is the fingerprint of pods that were known here
at some moment (`cluster/reports/shown_pods.py`), the promises of these pods are dropped and all others stay, whatever
the amounts are. Where it is not, or there is none, but moments are known, nothing is inferred from amounts either; age
decides:

* A pod's promise is dropped by a report that comes `SHOWN_AFTER` seconds after the pod was confirmed, or later.
* If no report comes for `REPORTS_WITHIN` seconds after that, the last one must have shown it: had it not, another would
  have come.

Best of all is a report that lists the pods it shows (`cluster/reports/inventory.py`). Then nothing has to be inferred:

* A promise is dropped when a report lists its pod, and not before.
* A pod that ended is added back as long as reports list it. It may even end before the first report that does, so its
  name is remembered until then, once for each pod that had it. If a pod of the same name is promised meanwhile, an
  entry like the promise is the new pod, any other an old one.
* A pod that another client bound and no report lists yet may be in any zone, so it counts in every one.
* A pod that was listed and no longer is, although its end has not been reported, stays where it was.

`cluster/reports/promises.py` chooses among them and does the subtracting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from bayplan.cluster.pods.pod_class import HostPort
from bayplan.cluster.pods.request import PodRequest, is_memory
from bayplan.cluster.reports.inventory import PodHoldings, ZoneHoldings
from bayplan.cluster.reports.topology_report import TopologyReport, same_use

# From a bind to a report that shows the pod: the kubelet's admission, the agent's scan and the way through the API
# server.
SHOWN_AFTER = 30.0
# Agents that hear of nothing look once a minute.
REPORTS_WITHIN = 90.0

_Fallen = dict[tuple[int, int], float]


class ZoneCharge(Struct, frozen=True, gc=False):
    """An amount of one resource taken from one zone of a node."""

    resource: int
    zone: int
    amount: float


Charges = tuple[ZoneCharge, ...]


class PlacedPod(Struct, frozen=True, gc=False):
    """A pod that occupies a node: what it took, and whether the cluster has confirmed it.

    `promised` is what the decision asked for; `charges` is what could be taken from the zones of the latest report.
    `shown` says that a report seems to contain it although it is not confirmed yet, `listed` that a report has named
    it. `confirmed_at` is the moment of confirmation, if known. `by_amounts` is False if the zones were found by
    replaying the kubelet, or are not known: then amounts alone do not say what the next pod will meet.
    """

    row: int
    request: PodRequest
    charges: Charges
    host_ports: tuple[HostPort, ...]
    confirmed: bool
    promised: Charges = ()
    shown: bool = False
    listed: bool = False
    by_amounts: bool = True
    confirmed_at: float | None = None


def settled_by_list(
    pods: Iterable[tuple[str, PlacedPod]],
    listed_before: PodHoldings,
    listed: PodHoldings,
    ended: Sequence[str],
    resource_names: Sequence[str],
    charges_of: Callable[[ZoneHoldings], Charges],
    anywhere: Callable[[PlacedPod], Charges],
) -> tuple[list[tuple[str, PlacedPod]], list[str]]:
    """What stays subtracted, and which ended pods are still remembered, after a report that lists its pods.

    `charges_of` turns an entry of the list into charges; `anywhere` is what a pod in an unknown zone may hold.
    """
    kept: list[tuple[str, PlacedPod]] = []
    remembered = _not_over(ended, listed_before, listed)
    found: set[str] = set()
    for key, placed in pods:
        now = placed
        if key not in listed:
            if not placed.promised and placed.listed and key in listed_before:
                now = replace(placed, promised=charges_of(listed_before[key]))
            elif not placed.promised and placed.confirmed:
                now = replace(placed, promised=anywhere(placed), by_amounts=False)
        elif key not in remembered or _alike(charges_of(listed[key]), placed.promised, resource_names):
            now = replace(placed, promised=(), listed=True)
            found.add(key)
        kept.append((key, now))
    return kept, [key for key in remembered if key not in found]


def _not_over(ended: Iterable[str], listed_before: PodHoldings, listed: PodHoldings) -> list[str]:
    """Ended pods that this report or a later one may list: one that was listed and no longer is, is over."""
    remembered: list[str] = []
    over: set[str] = set()
    for key in ended:
        if key in listed_before and key not in listed and key not in over:
            over.add(key)
        else:
            remembered.append(key)
    return remembered


def _alike(held: Charges, promised: Charges, resource_names: Sequence[str]) -> bool:
    """True if a pod holds what was promised.

    Memory over several zones counts in total, because its shares are unknown.
    """
    zones: dict[int, set[int]] = {}
    for charge in held:
        zones.setdefault(charge.resource, set()).add(charge.zone)
    over_zones = {each for each, of_it in zones.items() if len(of_it) > 1 and is_memory(resource_names[each])}

    def amounts(charges: Charges) -> dict[tuple[int, int | None], float]:
        found: dict[tuple[int, int | None], float] = {}
        for charge in filter(lambda charge: charge.amount, charges):
            place = charge.resource, None if charge.resource in over_zones else charge.zone
            found[place] = found.get(place, 0) + charge.amount
        return found

    return amounts(held) == amounts(promised)


def settled_by_name(
    pods: Iterable[tuple[str, PlacedPod]], shown: Collection[str], anywhere: Callable[[PlacedPod], Charges]
) -> list[tuple[str, PlacedPod]]:
    """What stays subtracted after a report that is known to show these pods; `anywhere` as in `settled_by_list`."""
    kept: list[tuple[str, PlacedPod]] = []
    for key, placed in pods:
        now = placed
        if key in shown:
            now = replace(placed, promised=(), shown=False)
        elif placed.confirmed and not placed.promised:
            may_hold = anywhere(placed)
            now = replace(placed, promised=may_hold, by_amounts=placed.by_amounts and not may_hold)
        kept.append((key, now))
    return kept


def settled_by_age(pods: Iterable[tuple[str, PlacedPod]], at: float) -> list[tuple[str, PlacedPod]]:
    """What stays subtracted after a report that came at a moment.

    A pod's age counts from the first one that is known.
    """
    kept: list[tuple[str, PlacedPod]] = []
    for key, placed in pods:
        now = placed
        if placed.confirmed and placed.promised:
            confirmed_at = at if placed.confirmed_at is None else placed.confirmed_at
            promised = () if at >= confirmed_at + SHOWN_AFTER else placed.promised
            now = replace(placed, promised=promised, shown=False, confirmed_at=confirmed_at)
        kept.append((key, now))
    return kept


def is_shown_by_silence(placed: PlacedPod, reported_at: float, now: float) -> bool:
    """True if a promise is so old that the last report, which came at a moment, must show its pod: no other one came
    since.
    """
    since = placed.confirmed_at
    return since is not None and reported_at > since - SHOWN_AFTER and now >= since + REPORTS_WITHIN


def settled(
    pods: Iterable[tuple[str, PlacedPod]],
    before: TopologyReport | None,
    after: TopologyReport,
    resource_names: Sequence[str],
    holdings: Callable[[str], Charges],
) -> list[tuple[str, PlacedPod]]:
    """The pods whose entries matter after a new report.

    `holdings` tells what is known about a pod that was not assumed here.
    """
    kept: list[tuple[str, PlacedPod]] = []
    if not after.shows_use:
        for key, placed in pods:
            known = placed.promised or (holdings(key) if placed.confirmed else ())
            kept.append((key, replace(placed, promised=known)))
        return kept
    pods = [(key, placed) for key, placed in pods if placed.promised or placed.charges]
    news = before is None or not same_use(before, after)
    fallen = _fallen(before, after, pods, resource_names) if news and before is not None else {}
    # Confirmed pods first: what they explain of the difference belongs to no other pod.
    for key, placed in sorted(pods, key=lambda pod: not pod[1].confirmed):
        if placed.confirmed and news:
            _explain(fallen, placed.promised)
            kept.append((key, replace(placed, promised=())))
        elif not placed.confirmed and news:
            shown = _explains(fallen, placed.promised)
            if shown:
                _explain(fallen, placed.promised)
            back = any(fallen.get((charge.resource, charge.zone), 0) < 0 for charge in placed.promised)
            kept.append((key, replace(placed, shown=shown or (placed.shown and not back))))
        else:
            kept.append((key, placed))
    return kept


def _fallen(
    before: TopologyReport, after: TopologyReport, pods: Iterable[tuple[str, PlacedPod]], names: Sequence[str]
) -> _Fallen:
    """By how much less is available, where any of the pods took something."""
    places = {(charge.resource, charge.zone) for _, placed in pods for charge in placed.promised}
    return {
        (resource, zone): _left(before, names[resource], zone) - _left(after, names[resource], zone)
        for resource, zone in places
    }


def _left(report: TopologyReport, resource: str, zone: int) -> int:
    amounts = report.zones[zone].resources.get(resource) if zone < len(report.zones) else None
    return amounts.available if amounts else 0


def _explains(fallen: _Fallen, charges: Sequence[ZoneCharge]) -> bool:
    return bool(charges) and all(fallen.get((each.resource, each.zone), 0) >= each.amount for each in charges)


def _explain(fallen: _Fallen, charges: Sequence[ZoneCharge]) -> None:
    for each in charges:
        place = each.resource, each.zone
        fallen[place] = fallen.get(place, 0) - each.amount
