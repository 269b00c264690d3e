"""A scheduler without a pod grouper of its own: pods that ask for a gang wait for another one, and are told so.

Such a scheduler looks at no owners. It sees what a pod's own annotations ask for; a wish that is written on the owner alone it cannot know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from bayplan.kube.core_v1 import Pod
from bayplan.kube.decoding import Changes, Listed
from bayplan.kube.resources import PODS, Resource
from bayplan.scheduling.grouping.expecting import asks_for_group
from bayplan.services.scheduler.intake import News

WAITS = "asks for a gang, and no pod grouper has put it into one yet; `bayplan pod-grouper` does, or a scheduler without --no-pod-grouper"


class GroupedElsewhere:
    """Tells `is_held` about pods of these schedulers that wait for somebody else to group them."""

    def __init__(self, scheduler_names: Collection[str], is_held: Callable[[Pod, str], None]) -> None:
        self._scheduler_names = frozenset(scheduler_names)
        self._is_held = is_held

    def take(self, resource: Resource[Any], news: News) -> None:
        """Look through news about pods."""
        if resource != PODS:
            return
        if isinstance(news, Changes):
            pods = [change.object for change in news.changes if change.kind != "DELETED"]
        else:
            pods = news.items if isinstance(news, Listed) else []
        for pod in pods:
            ours = pod.spec.scheduler_name in self._scheduler_names and not pod.spec.node_name
            if ours and asks_for_group(pod):
                self._is_held(pod, WAITS)
