"""A scheduler without a pod grouper of its own: pods that may belong to a gang wait for an external one, and are told so.

Such a scheduler looks at no owners, so it cannot know which of them make gangs: every owned pod waits until a grouper has reported its result
(`awaits_look`). Where ungrouped pods are placed, only pods that ask for a gang by their own annotations wait (`asks_for_group`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from bayplan.cluster.state import pod_key
from bayplan.grouping.group import asks_for_group, awaits_look
from bayplan.kube.client.decoding import Changes, Listed
from bayplan.kube.resources import PODS, Resource
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.scheduler.intake import News

Expects = Callable[[Pod], bool]

WHY_IT_WAITS: dict[Expects, str] = {
    awaits_look: "waits for a pod grouper to look at its owner: `bayplan pod-grouper` does, or a scheduler without --no-pod-grouper; where nobody groups pods, start the scheduler with --place-ungrouped",
    asks_for_group: "asks for a gang, and no pod grouper has put it into one yet; `bayplan pod-grouper` does, or a scheduler without --no-pod-grouper",
}


class GroupedElsewhere:
    """Tells `is_held` about pods of these schedulers that wait for an external grouper, and `is_free` the key of one that no longer does.

    `expects_group` is `awaits_look` or `asks_for_group`.
    """

    def __init__(
        self,
        scheduler_names: Collection[str],
        expects_group: Expects,
        is_held: Callable[[Pod, str], None],
        is_free: Callable[[str], None],
    ) -> None:
        self._scheduler_names = frozenset(scheduler_names)
        self._expects_group = expects_group
        self._is_held = is_held
        self._is_free = is_free
        self._held: set[str] = set()

    def take(self, resource: Resource[Any], news: News) -> None:
        """Look through news about pods."""
        if resource != PODS:
            return
        if isinstance(news, Changes):
            for change in news.changes:
                self._look_at(change.object, gone=change.kind == "DELETED")
            return
        pods = news.items if isinstance(news, Listed) else []
        for key in self._held - {pod_key(pod) for pod in pods}:
            self._free(key)
        for pod in pods:
            self._look_at(pod)

    def _look_at(self, pod: Pod, *, gone: bool = False) -> None:
        ours = pod.spec.scheduler_name in self._scheduler_names and not pod.spec.node_name
        if ours and not gone and self._expects_group(pod):
            self._held.add(pod_key(pod))
            self._is_held(pod, WHY_IT_WAITS[self._expects_group])
        else:
            self._free(pod_key(pod))

    def _free(self, key: str) -> None:
        if key in self._held:
            self._held.remove(key)
            self._is_free(key)
