"""Gangs that have begun and are not whole: completed if that can be, released after a while if not.

A scheduler that was stopped in the middle of binding a gang leaves some of its pods on nodes and some without. The next one goes on
where it stopped: running members pin the domain, the others follow. Where they cannot (the room is gone, a member was deleted and
nobody creates it again), the pods that run wait for nothing. After `completes_in` seconds they make room.

Only pods that bayplan itself bound as members of the gang are ever released, and only while the gang was never complete: one that lost
a member later goes on without it. The next scheduler knows that from the PodGroup alone, so what stands there is told again until it
can be read there.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.kube.core_v1 import Pod
from bayplan.scheduling.ranks import RANK

# A write takes a moment, and so does the news of it.
TOLD_AGAIN_AFTER = 30.0


class HalfBound:
    """Since when gangs have been half bound, and which have been complete."""

    def __init__(self, completes_in: float) -> None:
        self._completes_in = completes_in
        self._since: dict[str, float] = {}
        # By gang, since when it is known to be complete, as the API server writes moments; empty if nobody says since when.
        self._complete: dict[str, str] = {}
        # Complete gangs whose PodGroup does not say so yet, and when that was last told; who was told longest ago is first.
        self._not_shown: dict[str, float] = {}

    def was_complete(self, name: str, since: str = "") -> None:
        """Its PodGroup says that the gang has been complete once."""
        self._complete[name] = since
        self._since.pop(name, None)
        self._not_shown.pop(name, None)

    def look_at(self, name: str, members: Sequence[Pod]) -> None:
        """If all members were created after the gang was complete, it is another one under the same PodGroup, and begins anew."""
        since = self._complete.get(name)
        if since and all((pod.metadata.creation_timestamp or "") > since for pod in members):
            self.forget(name)

    def completed(self, name: str, now: float) -> bool:
        """The gang is complete now; True if that is news."""
        self._since.pop(name, None)
        if name in self._complete:
            return False
        self._complete[name] = ""
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

    def has_no_group(self, name: str) -> None:
        """There is nothing on which it could be read that the gang is complete."""
        self._not_shown.pop(name, None)

    def is_complete(self, name: str) -> bool:
        """True if the gang has been complete once."""
        return name in self._complete

    def forget(self, name: str) -> None:
        """Nobody of the gang is left: the next one of this name begins anew."""
        self._since.pop(name, None)
        self._complete.pop(name, None)
        self._not_shown.pop(name, None)

    def to_release(self, name: str, running: Sequence[Pod], now: float) -> tuple[Pod, ...]:
        """The pods that must make room, because their gang has been half bound for too long; nobody if it has not."""
        ours = tuple(
            pod for pod in running if RANK in (pod.metadata.annotations or {}) and not pod.metadata.deletion_timestamp
        )
        if not ours or name in self._complete:
            self._since.pop(name, None)
            return ()
        since = self._since.setdefault(name, now)
        return ours if now - since >= self._completes_in else ()

    def next_look(self, name: str) -> float | None:
        """When a half-bound gang has to be looked at again; None if it is not half bound."""
        since = self._since.get(name)
        return None if since is None else since + self._completes_in
