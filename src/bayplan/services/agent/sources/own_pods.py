"""Watch which pods of this node are alive and which have ended.

Kubelets before v1.34 list ended pods, and state files do not say which UIDs are alive. Ended pods are remembered after
their deletion, because the kubelet may list them a while longer. The permission to read pods is optional: its absence
is a trouble only with `--watch-pods`, or if it is revoked. Then everything known is dropped, because it would become
wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.client.watch import Absent, Changes, Listed, WatchSettings, follow
from bayplan.kube.resources import PODS, Resource
from bayplan.kube.wire.core_v1 import Metadata, WireStruct
from bayplan.services.agent.sources.pod_resources import PodName
from bayplan.services.agent.troubles import Troubles
from bayplan.services.edges.bounded_dict import BoundedDict

logger = logging.getLogger(__name__)

KIND = "pods"
ENDED = frozenset({"Succeeded", "Failed"})
WITHOUT = "devices of finished init containers count as free, and ended pods count while the kubelet lists them"
PATIENCE = 10.0  # seconds to wait for the first answer
MAX_REMEMBERED = 1000  # deleted pods: more than a kubelet has at a time


class _Phase(WireStruct, frozen=True):
    phase: str | None = None


class _PodHead(WireStruct, frozen=True):
    metadata: Metadata = Metadata()
    status: _Phase | None = None


_POD_HEADS: Resource[_PodHead] = Resource(PODS.api_version, PODS.plural, PODS.kind, _PodHead)


@dataclass(frozen=True, slots=True)
class KnownPods:
    """UIDs of alive and of ended pods, and the names of ended pods."""

    alive: frozenset[str]
    ended: frozenset[str]
    ended_names: frozenset[PodName]


class OwnPods:
    """Follows the pods of one node, and calls `on_change` if other pods are alive or ended."""

    def __init__(
        self,
        client: KubeClient,
        node: str,
        troubles: Troubles,
        on_change: Callable[[], None] = lambda: None,
        *,
        required: bool = True,
        settings: WatchSettings = WatchSettings(),  # noqa: B008 - immutable
    ) -> None:
        self._client = client
        self._selector = f"spec.nodeName={node}"
        self._troubles = troubles
        self._on_change = on_change
        self._required = required
        self._settings = settings
        self._pods: dict[PodName, _PodHead] | None = None
        # Ended pods that were deleted; another pod may have the name by now.
        self._deleted: BoundedDict[PodName, _PodHead] = BoundedDict(MAX_REMEMBERED)
        self._refusal = ""  # the API server's message
        self._answered = asyncio.Event()

    def known(self) -> KnownPods | None:
        """The known pods; None before the first answer."""
        if self._pods is None:
            return None
        latest = {**self._deleted, **self._pods}
        ended = {name for name, pod in latest.items() if _has_ended(pod)}
        gone = (*self._deleted.values(), *(latest[name] for name in ended))
        return KnownPods(
            alive=frozenset(pod.metadata.uid for name, pod in self._pods.items() if name not in ended),
            ended=frozenset(pod.metadata.uid for pod in gone),
            ended_names=frozenset(ended),
        )

    async def run(self) -> None:
        """Watch the pods until cancelled."""
        async for news in follow(
            self._client,
            _POD_HEADS,
            field_selector=self._selector,
            settings=self._settings,
            on_error=self._trouble,
            forbidden_is_absent=True,
        ):
            before = self.known()
            match news:
                case Listed(items=pods):
                    self._take(pods)
                case Changes(changes=changes):
                    known = self._pods if self._pods is not None else {}
                    for change in changes:
                        if change.kind == "DELETED":
                            known.pop(_name(change.object), None)
                            self._remember(change.object)
                        else:
                            known[_name(change.object)] = change.object
                    self._troubles.over(KIND)
                case Absent():  # every API server has pods: reading them is forbidden
                    self._do_without()
            # Most status changes do not matter.
            if not isinstance(news, Changes) or self.known() != before:
                self._on_change()

    async def ask_once(self) -> None:
        """List the pods once; a missing answer is a trouble."""
        try:
            async with asyncio.timeout(PATIENCE):
                self._take((await self._client.list(_POD_HEADS, field_selector=self._selector)).items)
        except ApiError as error:
            self._trouble(str(error))
            if error.status == 403:
                self._do_without()
        except Unreachable as error:
            self._trouble(str(error))
        except TimeoutError:
            self._trouble(f"no answer within {PATIENCE:.0f} s")

    async def first_answer(self) -> None:
        """Wait a moment until pods are known, or reading them is forbidden."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._answered.wait()

    def _take(self, pods: Iterable[_PodHead]) -> None:
        before, self._pods = self._pods or {}, {_name(pod): pod for pod in pods}
        for name in before.keys() - self._pods.keys():
            self._remember(before[name])
        self._answered.set()
        self._troubles.over(KIND)

    def _remember(self, deleted: _PodHead) -> None:
        """Remember an ended pod. A pod that is deleted while it runs keeps its resources until the kubelet is done."""
        if _has_ended(deleted):
            self._deleted[_name(deleted)] = deleted

    def _do_without(self) -> None:
        """Drop everything known: another pod may have a known name by now."""
        if self._required or self._pods is not None:
            self._note("forbidden", self._refusal)
        elif not self._answered.is_set():
            logger.info("reading pods is forbidden: %s", WITHOUT)
        self._pods = None
        self._deleted.clear()
        self._answered.set()

    def _trouble(self, problem: str) -> None:
        if ": 403 " in problem:
            self._refusal = problem  # handled once listing fails too
        elif self._pods is None:  # else known pods still count, and the publisher reports the API server
            self._note("unreachable", problem)

    def _note(self, cause: str, problem: str) -> None:
        self._troubles.note(KIND, cause, f"pods of this node are unknown, reporting without them: {problem}")


def _name(pod: _PodHead) -> PodName:
    return pod.metadata.namespace or "", pod.metadata.name


def _has_ended(pod: _PodHead) -> bool:
    return pod.status is not None and pod.status.phase in ENDED
