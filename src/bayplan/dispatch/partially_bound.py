"""Partially bound gangs: completed if possible, otherwise released after `completes_in` seconds.

A scheduler that stops while binding a gang leaves some of its pods without a node. The next scheduler continues:
running members pin the domain, and the others follow. If they cannot, the running pods are deleted to make room.

A gang is complete once all binds of its plan succeeded, and stays complete even if pods end. The next scheduler reads
this on the PodGroup, so it is reported until the PodGroup shows it. Running pods are deleted only if their gang was
certainly never complete: bayplan bound them as members, and all members from then still exist
(`has_original_members`). A member that left or was replaced may have had a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayplan.dialects.members import bound_with_its_gang
from bayplan.kube.times import moment_of
from bayplan.kube.wire.bayplan_v1alpha1 import GroupSpec, PodGroupSpec
from bayplan.kube.wire.core_v1 import Pod

# Leaves time for the write and its watch event.
REPORT_AGAIN_AFTER = 30.0
# Permissions rarely change: the pause before a forbidden deletion is retried.
FORBIDDEN_FOR = 600.0


class PartiallyBound:
    """Since when gangs have been partially bound, which are complete, and which are being released."""

    def __init__(self, completes_in: float) -> None:
        self._completes_in = completes_in
        self._since: dict[str, float] = {}
        # By complete gang, since when, as an API server timestamp; empty if unknown.
        self._complete: dict[str, str] = {}
        # By complete gang, the uid of the PodGroup on which this was reported or read.
        self._reported_on: dict[str, str] = {}
        # Complete gangs whose PodGroup does not show it yet, and when that was last reported; the oldest is first.
        self._not_shown: dict[str, float] = {}
        self._releasing: set[str] = set()
        # By gang, the uids of deleted pods whose watch event has not arrived.
        self._deleted: dict[str, frozenset[str]] = {}
        # By gang, the earliest retry of a forbidden release.
        self._forbidden_until: dict[str, float] = {}

    # -- complete gangs -------------------------------------------------------------------------------------------

    def recorded(self, name: str, group: str, since: str = "") -> None:
        """The PodGroup with the uid `group` shows that the gang is complete."""
        self.all_bound(name)
        self._complete[name] = since
        self._reported_on[name] = group
        self._not_shown.pop(name, None)

    def all_bound(self, name: str) -> None:
        """Every pod that a gang needs was bound."""
        self._since.pop(name, None)
        self._complete.setdefault(name, "")

    def restart_if_new(self, name: str, members: Iterable[Pod]) -> None:
        """Forget a completion that is older than all members: they are another gang under the same PodGroup."""
        since = self._complete.get(name)
        if since and all((pod.metadata.creation_timestamp or "") > since for pod in members):
            self.forget(name)

    def completed(self, name: str, group: str, now: float, *, repeat: bool) -> bool:
        """Note that a gang is complete; True if this is news for the PodGroup with the uid `group`, empty for none.

        With `repeat`, it is reported again until the PodGroup shows it.
        """
        if self.is_recorded(name, group):
            return False
        self.all_bound(name)
        self._reported_on[name] = group
        self._not_shown[name] = now
        if not repeat:
            del self._not_shown[name]
        return True

    def to_report_again(self, now: float) -> str | None:
        """A complete gang that was reported a while ago, but whose PodGroup still does not show it."""
        name, reported = next(iter(self._not_shown.items()), ("", now))
        if now - reported < REPORT_AGAIN_AFTER:
            return None
        del self._not_shown[name]
        self._not_shown[name] = now
        return name

    def group_removed(self, name: str) -> None:
        """The PodGroup is gone; a new one is told again that the gang is complete."""
        self._not_shown.pop(name, None)
        self._reported_on.pop(name, None)

    def complete_since(self, name: str) -> float | None:
        """When the gang became complete, in seconds since the epoch; None if its PodGroup does not show it."""
        moment = moment_of(self._complete.get(name, ""))
        return None if moment is None else moment.timestamp()

    def is_complete(self, name: str) -> bool:
        """True if the gang has been complete once."""
        return name in self._complete

    def is_recorded(self, name: str, group: str) -> bool:
        """True if the gang is complete, and the PodGroup with the uid `group`, if any, was told."""
        return name in self._complete and (not group or self._reported_on.get(name) == group)

    def forget(self, name: str) -> None:
        """Forget a gang without pods: the next gang of this name starts anew."""
        for known in (
            self._since,
            self._complete,
            self._reported_on,
            self._not_shown,
            self._deleted,
            self._forbidden_until,
        ):
            known.pop(name, None)

    # -- released gangs -------------------------------------------------------------------------------------------

    def to_release(self, name: str, running: Sequence[Pod], now: float, *, in_doubt: bool) -> tuple[Pod, ...]:
        """The pods to delete, because their gang has been partially bound for too long; empty if it has not.

        Also empty if it is `in_doubt` whether the gang was ever complete.
        """
        ours = tuple(pod for pod in running if bound_with_its_gang(pod) and not pod.metadata.deletion_timestamp)
        if not ours or in_doubt or name in self._complete:
            self._since.pop(name, None)
            return ()
        self._since.setdefault(name, now)
        if now < (self.release_at(name) or 0.0):
            return ()
        self._releasing.add(name)
        return ours

    def release_at(self, name: str) -> float | None:
        """When a partially bound gang is released; None if it is not partially bound."""
        since = self._since.get(name)
        return None if since is None else max(since + self._completes_in, self._forbidden_until.get(name, 0.0))

    def is_releasing(self, name: str) -> bool:
        """True while the gang's pods are being deleted: no decision about the rest makes sense."""
        return name in self._releasing

    def released(self, name: str, deleted: Iterable[Pod], now: float, *, refused: bool) -> None:
        """Deletion has ended. If it was refused, the pods keep their nodes, and the next try waits."""
        self._releasing.discard(name)
        self._deleted[name] = frozenset(pod.metadata.uid for pod in deleted)
        if refused:
            self._forbidden_until[name] = now + FORBIDDEN_FOR

    def deletion_pending(self, name: str, running: Iterable[Pod]) -> bool:
        """True if bayplan deleted pods that seem to run, because the watch event has not arrived."""
        deleted = self._deleted.get(name)
        if not deleted:
            return False
        if any(pod.metadata.uid in deleted and not pod.metadata.deletion_timestamp for pod in running):
            return True
        del self._deleted[name]
        return False


def has_original_members(spec: PodGroupSpec, members: Iterable[Pod]) -> bool:
    """True if a gang still has every member from its first bind. Pods created later replaced members that left."""
    members = tuple(members)
    began = min(filter(None, map(_bound_at, filter(bound_with_its_gang, members))), default="")
    first = sum(not began or "" < (pod.metadata.creation_timestamp or "") <= began for pod in members)
    return first >= _most_members(spec)


def _bound_at(pod: Pod) -> str:
    """When a pod was bound, as an API server timestamp; empty if unknown."""
    conditions = (pod.status.conditions if pod.status is not None else None) or ()
    times = (each.last_transition_time for each in conditions if each.type == "PodScheduled" and each.status == "True")
    return next(times, None) or ""


def _most_members(spec: PodGroupSpec | GroupSpec) -> int:
    """The most pods that a PodGroup describes. With fewer, it is unknown whether there were ever more."""
    return max(spec.size, spec.minimum or 0) + sum(_most_members(group) for group in spec.groups or ())
