"""Which pods of this node live and which have ended, as the API server knows it: for kubelets that do not tell.

Kubelets before v1.34 list pods that have ended, and no kubelet's state file says which of its UIDs is still alive. An agent that may read pods
follows those of its own node and tells the scanner; one that may not goes on without, and calls it a trouble only if it was told to (`--watch-pods`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from bayplan.kube.client import KubeClient
from bayplan.kube.core_v1 import Metadata, WireStruct
from bayplan.kube.resources import PODS, Resource
from bayplan.kube.watch import Absent, Changes, Listed, follow
from bayplan.services.agent.pod_resources import PodName
from bayplan.services.agent.troubles import Troubles

logger = logging.getLogger(__name__)

KIND = "pods"
ENDED = frozenset({"Succeeded", "Failed"})


class _Phase(WireStruct, frozen=True):
    phase: str | None = None


class _PodHead(WireStruct, frozen=True):
    """What matters of a pod here."""

    metadata: Metadata = Metadata()
    status: _Phase | None = None


_POD_HEADS: Resource[_PodHead] = Resource(PODS.api_version, PODS.plural, PODS.kind, _PodHead)


@dataclass(frozen=True, slots=True)
class KnownPods:
    """UIDs of pods that live and of those that have ended, and the names under which only ended ones are known."""

    alive: frozenset[str]
    ended: frozenset[str]
    ended_names: frozenset[PodName]


class OwnPods:
    """Follows the pods of one node; `on_change` hears when others live or have ended. Not `required`: without the right to read them it is fine as well."""

    def __init__(
        self,
        client: KubeClient,
        node: str,
        troubles: Troubles,
        on_change: Callable[[], None] = lambda: None,
        *,
        required: bool = True,
    ) -> None:
        self._client = client
        self._node = node
        self._troubles = troubles
        self._on_change = on_change
        self._required = required
        self._pods: dict[PodName, _PodHead] | None = None

    def known(self) -> KnownPods | None:
        """What is known now; None before the first answer."""
        if self._pods is None:
            return None
        ended = {name: pod for name, pod in self._pods.items() if _has_ended(pod)}
        return KnownPods(
            alive=frozenset(pod.metadata.uid for name, pod in self._pods.items() if name not in ended),
            ended=frozenset(pod.metadata.uid for pod in ended.values()),
            ended_names=frozenset(ended),
        )

    async def run(self) -> None:
        """Follow for ever."""
        selector = f"spec.nodeName={self._node}"
        async for news in follow(
            self._client,
            _POD_HEADS,
            field_selector=selector,
            on_trouble=self._trouble,
            forbidden_is_absent=not self._required,
        ):
            before = self.known()
            match news:
                case Listed(items=pods):
                    self._pods = {_name(pod): pod for pod in pods}
                case Changes(changes=changes):
                    known = self._pods if self._pods is not None else {}
                    for change in changes:
                        if change.kind == "DELETED":
                            known.pop(_name(change.object), None)
                        else:
                            known[_name(change.object)] = change.object
                case Absent():  # every API server has pods: they may not be read, and nobody asked for them
                    self._pods = None
                    logger.info("pods may not be read: devices that only a finished init container holds count as free")
            self._troubles.over(KIND)
            # Most changes of a pod's status are of no interest: it lived before and does now.
            if not isinstance(news, Changes) or self.known() != before:
                self._on_change()

    def _trouble(self, problem: str) -> None:
        cause = "forbidden" if "Forbidden" in problem else "unreachable"
        if not self._required and cause == "forbidden":
            return  # said once, where it is heard as Absent
        if cause == "unreachable" and self._pods is not None:
            return  # what was known last still counts, and the publisher tells about the API server
        self._troubles.note(KIND, cause, f"pods of this node are not known, the report is made without: {problem}")


def _name(pod: _PodHead) -> PodName:
    return pod.metadata.namespace or "", pod.metadata.name


def _has_ended(pod: _PodHead) -> bool:
    return pod.status is not None and pod.status.phase in ENDED
