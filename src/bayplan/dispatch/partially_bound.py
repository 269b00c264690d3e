"""Partially bound gangs: completed if possible, otherwise released after a while.

A scheduler that is stopped while it binds a gang leaves some of its pods on nodes and some without. The next scheduler continues
from there: running members pin the domain, and the others follow. If they cannot, because the room is gone, the running pods wait for
nothing. After `completes_in` seconds they make room.

A gang is complete once all binds of its plan are done, even if some pods end at the same moment, and it stays complete. The next scheduler
reads that on the PodGroup, so it is reported until it can be read there, and again on another PodGroup of that name. Running pods are deleted only if
their gang was certainly never complete: bayplan itself bound them as its members, and all members from then still exist
(`all_are_here`), so a pod without a node never had one. A member that has left or was replaced may have had a node, so the others stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayplan.dialects.members import bound_with_its_gang
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.podgroup_v1alpha1 import GroupSpec, PodGroupSpec

# A write takes a moment, and so does the news of it.
TOLD_AGAIN_AFTER = 30.0
# Permissions rarely change: how long to wait before retrying a forbidden deletion.
MAY_NOT_FOR = 600.0


class PartiallyBound:
    """Since when gangs have been half bound, which have been complete, and which are being released."""

    def __init__(self, completes_in: float) -> None:
        self._completes_in = completes_in
        self._since: dict[str, float] = {}
        # By gang, since when it is known to be complete, as an API server timestamp; empty if the time is unknown.
        self._complete: dict[str, str] = {}
        # By complete gang the uid of the PodGroup on which that was told or read.
        self._told_on: dict[str, str] = {}
        # Complete gangs whose PodGroup does not say so yet, and when that was last told; who was told longest ago is first.
        self._not_shown: dict[str, float] = {}
        self._releasing: set[str] = set()
        # By gang the uids of pods whose deletion was answered with yes, but the news of it has not come.
        self._deleted: dict[str, frozenset[str]] = {}
        # Gangs whose release was denied, and when to ask again at the earliest.
        self._may_not: dict[str, float] = {}

    # -- complete gangs -------------------------------------------------------------------------------------------

    def was_complete(self, name: str, group: str, since: str = "") -> None:
        """The PodGroup with this uid says that the gang has been complete once."""
        self.all_bound(name)
        self._complete[name] = since
        self._told_on[name] = group
        self._not_shown.pop(name, None)

    def all_bound(self, name: str) -> None:
        """Every pod that a gang needs was given its node."""
        self._since.pop(name, None)
        self._complete.setdefault(name, "")

    def look_at(self, name: str, members: Iterable[Pod]) -> None:
        """If all members were created after the gang was complete, it is another one under the same PodGroup, and begins anew."""
        since = self._complete.get(name)
        if since and all((pod.metadata.creation_timestamp or "") > since for pod in members):
            self.forget(name)

    def completed(self, name: str, group: str, now: float) -> bool:
        """The gang is complete; True if that is news for the PodGroup with this uid (empty if there is none)."""
        if self.is_told(name, group):
            return False
        self.all_bound(name)
        self._told_on[name] = group
        self._not_shown[name] = now
        return True

    def to_tell_again(self, now: float) -> str | None:
        """A complete gang of which that was told a while ago and still cannot be read on its PodGroup."""
        name, told = next(iter(self._not_shown.items()), ("", now))
        if now - told < TOLD_AGAIN_AFTER:
            return None
        del self._not_shown[name]
        self._not_shown[name] = now
        return name

    def need_not_show(self, name: str) -> None:
        """Telling once that the gang is complete is enough."""
        self._not_shown.pop(name, None)

    def has_no_group(self, name: str) -> None:
        """There is nothing on which it could be read that the gang is complete; if there is again, it is told anew."""
        self._not_shown.pop(name, None)
        self._told_on.pop(name, None)

    def is_complete(self, name: str) -> bool:
        """True if the gang has been complete once."""
        return name in self._complete

    def is_told(self, name: str, group: str) -> bool:
        """True if the gang has been complete once, and the PodGroup with this uid was told so; or there is none."""
        return name in self._complete and (not group or self._told_on.get(name) == group)

    def forget(self, name: str) -> None:
        """Forget a gang without pods: the next one of this name starts anew."""
        for known in (self._since, self._complete, self._told_on, self._not_shown, self._deleted, self._may_not):
            known.pop(name, None)

    # -- those that make room -------------------------------------------------------------------------------------

    def to_release(self, name: str, running: Sequence[Pod], now: float, *, in_doubt: bool) -> tuple[Pod, ...]:
        """The pods that must make room from now on, because their gang has been partially bound for too long; empty if it has not.

        Also empty if it is `in_doubt` whether the gang was ever complete.
        """
        ours = tuple(pod for pod in running if bound_with_its_gang(pod) and not pod.metadata.deletion_timestamp)
        if not ours or in_doubt or name in self._complete:
            self._since.pop(name, None)
            return ()
        self._since.setdefault(name, now)
        if now < (self.next_look(name) or 0.0):
            return ()
        self._releasing.add(name)
        return ours

    def next_look(self, name: str) -> float | None:
        """When a half-bound gang has to be looked at again; None if it is not half bound."""
        since = self._since.get(name)
        return None if since is None else max(since + self._completes_in, self._may_not.get(name, 0.0))

    def is_releasing(self, name: str) -> bool:
        """True while its pods are being deleted, one after the other: what is left of them is no gang."""
        return name in self._releasing

    def released(self, name: str, deleted: Iterable[Pod], now: float, *, refused: bool) -> None:
        """Note that deletion has ended. If it was refused, the pods keep their nodes, and release is not retried for a long time."""
        self._releasing.discard(name)
        self._deleted[name] = frozenset(pod.metadata.uid for pod in deleted)
        if refused:
            self._may_not[name] = now + MAY_NOT_FOR

    def leaves_unseen(self, name: str, running: Iterable[Pod]) -> bool:
        """True if pods that seem to run were deleted by us: the news of it is under way."""
        deleted = self._deleted.get(name)
        if not deleted:
            return False
        if any(pod.metadata.uid in deleted and not pod.metadata.deletion_timestamp for pod in running):
            return True
        del self._deleted[name]
        return False


def all_are_here(spec: PodGroupSpec, members: Iterable[Pod]) -> bool:
    """True if a gang still has all members that it had when the first was bound. One that was created later stands for one that has left."""
    members = tuple(members)
    began = min(filter(None, map(_bound_at, filter(bound_with_its_gang, members))), default="")
    first = sum(not began or "" < (pod.metadata.creation_timestamp or "") <= began for pod in members)
    return first >= _most_members(spec)


def _bound_at(pod: Pod) -> str:
    """When a pod was bound, as the API server wrote it down; an empty text if it did not."""
    conditions = (pod.status.conditions if pod.status is not None else None) or ()
    times = (each.last_transition_time for each in conditions if each.type == "PodScheduled" and each.status == "True")
    return next(times, None) or ""


def _most_members(spec: PodGroupSpec | GroupSpec) -> int:
    """The most pods that a PodGroup describes; there may be fewer, but then it is unknown whether there were ever more."""
    return max(spec.size, spec.minimum or 0) + sum(_most_members(group) for group in spec.groups or ())
