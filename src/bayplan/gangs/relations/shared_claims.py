"""Claims that several members of a gang use: one volume for all of them, wherever they sit.

The state is told which claims these are, so that the classes of their pods name them (`share_claims`). For claims that
wait for their pods, `one_volume_rules` tells the search where one volume can be, and `SharedVolumes` takes one choice
for the whole gang before its seats are taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.cluster.volumes.claims import claims_of
from bayplan.cluster.volumes.needs import UnboundClaim, VolumePlan
from bayplan.cluster.volumes.sharing import Place, places_for, plan_together
from bayplan.gangs.model import Group, Seat
from bayplan.gangs.relations.members import MemberClass
from bayplan.kube.wire.core_v1 import Pod

ONE_POD = "ReadWriteOncePod"


@dataclass(frozen=True, slots=True, eq=False)
class OneVolume:
    """Members of these classes share a claim: they go to one of the places where its volume can be."""

    claim: str
    classes: frozenset[MemberClass]
    places: tuple[Place, ...]

    def __str__(self) -> str:
        return f"one volume for claim {self.claim}"


def share_claims(state: ClusterState, root: Group) -> frozenset[str]:
    """Tell the state which claims several members use, and return them."""
    members = chain.from_iterable((*group.pods, *group.running, *group.coming) for group in root.every_group())
    shared = frozenset(claim for claim, number in _uses(members).items() if number > 1)
    state.volumes.share(shared)
    return shared


def _uses(pods: Iterable[Pod]) -> Counter[str]:
    """By claim, how many pods use it, apart from claims that a pod has for itself."""
    # All members are looked at for each decision, and most have no volumes.
    with_volumes = [pod for pod in pods if pod.spec.volumes]
    return Counter(claim for pod in with_volumes for claim in {claim for claim, is_own in claims_of(pod) if not is_own})


def shared_by(pod: PodClass) -> Iterator[UnboundClaim]:
    """The claims that wait for pods of a class and that other members use, too."""
    return (claim for claim in pod.volumes.unbound if claim.shared)


def one_volume_rules(state: ClusterState, classes: Iterable[MemberClass]) -> tuple[OneVolume, ...]:
    """One rule for each shared claim that does not leave all nodes open."""
    users: dict[UnboundClaim, set[MemberClass]] = {}
    for pod in classes:
        for claim in shared_by(pod.pod_class):
            users.setdefault(claim, set()).add(pod)
    found = (
        OneVolume(claim.shared, frozenset(using), tuple(places_for(state.volumes, state.labels, claim)))
        for claim, using in sorted(users.items())
    )
    return tuple(rule for rule in found if rule.places and not _limits_nothing(state, rule, len(users)))


def _limits_nothing(state: ClusterState, rule: OneVolume, claims: int) -> bool:
    """True if there is nothing to choose, or every node is open whatever volumes the other shared claims take."""
    if claims == len(rule.places) == 1:
        return True  # the filter lets members go nowhere else
    return any(
        len(place.rows) == state.labels.size and (not place.volumes or len(place.volumes) >= claims)
        for place in rule.places
    )


def once_only_problem(state: ClusterState, root: Group) -> str:
    """What is wrong with members that share a claim that only one pod may use; an empty text if none do."""
    for key, number in _uses(chain.from_iterable(group.pods for group in root.every_group())).items():
        claim = state.volumes.claim(key) if number > 1 else None
        if claim is not None and ONE_POD in (claim.spec.access_modes or ()):
            return f"{number} of its pods use claim {key}, whose access mode {ONE_POD} allows one; give each its own"
    return ""


class SharedVolumes:
    """One choice of volumes for the seats of a gang: `take` them, take the seats, then `release` them to the pods."""

    def __init__(self, state: ClusterState, seated: Iterable[tuple[Seat, Pod]]) -> None:
        self._state = state
        self._rows_of: dict[str, dict[int, None]] = {}
        self._holders: list[str] = []
        for seat, pod in seated:
            row = state.rows.get(seat.node)
            if pod.spec.volumes and row is not None:
                for claim in shared_by(state.classes.of(pod)):
                    self._rows_of.setdefault(claim.shared, {})[row] = None

    def take(self) -> bool:
        """Take a volume for each claim; False if one finds none that all its pods can reach."""
        state, rows_of = self._state, {key: list(rows) for key, rows in self._rows_of.items()}
        plans: dict[str, VolumePlan] | None = plan_together(state.volumes, state.labels, rows_of)
        for key, plan in (plans or {}).items():
            holder = f"shared {key}"
            self._holders.append(holder)
            claim = state.volumes.unbound(key)
            told = () if claim is None else claim.selected
            state.volumes.assume(holder, plan, *(told or (state.names[row] for row in rows_of[key])))
        return plans is not None

    def release(self) -> None:
        """Leave the volumes to the pods that were seated."""
        for holder in self._holders:
            self._state.volumes.pod_left(holder)
