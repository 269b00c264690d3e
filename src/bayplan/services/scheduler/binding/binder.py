"""Send binds: concurrently across nodes, in order on each node, with a known outcome.

* A kubelet admits pods in order of arrival, and each decision assumes the ones before. So binds to one node are sent
  one after another. A refused bind keeps its turn on the node while it is retried, or the next pod would get its zones.
* Without an answer the outcome is unknown, so the bind is sent again. The API server accepts it once and answers 409
  from then on; the pod shows which bind won. Only known outcomes are reported: assumed amounts must not be freed
  while the pod may yet appear on the node.
* Namespaces take turns for free slots, so that ten thousand binds of one delay another's by one.
* Once a bind of a gang is refused permanently, its unsent binds are dropped (`UnitBinds`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus

from bayplan.cluster.state import pod_key
from bayplan.kube.client.backoff import Backoff
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod

logger = logging.getLogger(__name__)

# Attempts if the server answers 429 or 5xx.
USUAL_TRIES = 4
# Members of a gang are worth more attempts: others already have nodes, and the place is kept.
PATIENT_TRIES = 12
FIRST_WAIT = 0.05
# Limits Retry-After too: other pods wait for the same node.
MAX_WAIT = 5.0
NOT_WANTED = "its place was taken back before the bind was sent"
GIVEN_UP = "not sent, because the bind of another pod of its gang was refused"
LATER = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT)


class Ending(Enum):
    """The result of a bind; values are labels of `bayplan_binds_total{result}`."""

    BOUND = "bound"
    # The pod was deleted.
    GONE = "gone"
    # Another client bound it to another node.
    ELSEWHERE = "conflict"
    REFUSED = "refused"
    UNSENT = "unsent"
    # An internal error, which has been logged.
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class BindResult:
    """The ending, and the reason if it is not BOUND."""

    ending: Ending
    message: str = ""


@dataclass(slots=True, eq=False)
class UnitBinds:
    """The binds of one unit. `on_refusal` gets the first refusal, `on_end` the permanent one."""

    patient: bool = False
    on_refusal: Callable[[Pod, str], None] = lambda *_: None
    on_end: Callable[[Pod, str], None] = lambda *_: None
    bound: set[str] = field(default_factory=set)  # uids
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _refused: bool = False

    def refused(self, pod: Pod, message: str) -> None:
        """A bind was refused, and may be retried."""
        if not self._refused:
            self._refused = True
            self.on_refusal(pod, message)

    def end(self, pod: Pod, message: str) -> None:
        """A bind was refused permanently."""
        if not self.ended.is_set():
            self.ended.set()
            self.on_end(pod, message)


@dataclass(frozen=True, slots=True, eq=False)
class NodeTurn:
    """A bind's turn on its node, after the turn `before`; `ends` starts the next."""

    node: str
    before: asyncio.Future[None] | None
    ends: asyncio.Future[None]


class FairSlots:
    """A semaphore that serves waiting tenants in turn, and each tenant in order."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, tenant: str) -> AsyncIterator[None]:
        """Hold a slot."""
        if self._free and not self._waiting:
            self._free -= 1
        else:
            await self._wait(tenant)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, tenant: str) -> None:
        let_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(let_in)
        try:
            await let_in
        except asyncio.CancelledError:
            if not let_in.cancelled():  # it was let in at the same moment
                self._release()
            raise

    def _release(self) -> None:
        self._free += 1
        while self._free and self._waiting:
            tenant = next(iter(self._waiting))
            waiting = self._waiting.pop(tenant)
            let_in = waiting.popleft()
            if waiting:
                self._waiting[tenant] = waiting  # behind all others
            if not let_in.done():
                self._free -= 1
                let_in.set_result(None)


class Binder:
    """Sends binds."""

    def __init__(
        self,
        client: KubeClient,
        *,
        at_once: int = 64,
        still_wanted: Callable[[Pod, str], bool],
        on_rest: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._slots = FairSlots(at_once)
        self._still_wanted = still_wanted
        self._on_rest = on_rest
        # The end of the last turn on each node with binds in flight.
        self._last: dict[str, asyncio.Future[None]] = {}
        # Binds that wait for a retry, by namespace.
        self.resting: Counter[str] = Counter()

    def turn_on(self, node: str) -> NodeTurn:
        """The next turn on a node. The caller must bind with it."""
        ends: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turn = NodeTurn(node, self._last.get(node), ends)
        self._last[node] = ends
        return turn

    async def bind(
        self,
        pod: Pod,
        node: str,
        annotations: Mapping[str, str],
        together: UnitBinds | None = None,
        turn: NodeTurn | None = None,
    ) -> BindResult:
        """Bind one pod, after earlier turns on the same node."""
        together = together or UnitBinds()
        turn = turn or self.turn_on(node)
        try:
            if turn.before is not None and not turn.before.done():
                await asyncio.shield(turn.before)
            result = await self._bind(pod, node, annotations, together)
        finally:
            self.end_turn(turn)
        if result.ending is Ending.BOUND:
            together.bound.add(pod.metadata.uid)
        elif result.ending is Ending.REFUSED:
            together.end(pod, result.message)
        return result

    def end_turn(self, turn: NodeTurn) -> None:
        """Start the next bind on the node, after earlier turns."""
        if turn.before is not None and not turn.before.done():
            turn.before.add_done_callback(lambda _: self.end_turn(turn))
            return
        if not turn.ends.done():
            turn.ends.set_result(None)
        if self._last.get(turn.node) is turn.ends:
            del self._last[turn.node]

    async def _bind(self, pod: Pod, node: str, annotations: Mapping[str, str], together: UnitBinds) -> BindResult:
        backoff = Backoff(first=FIRST_WAIT, longest=MAX_WAIT)
        refusals = 0
        in_doubt = False
        while True:
            async with self._slots.slot(pod.metadata.namespace or ""):
                obstacle = NOT_WANTED if not self._still_wanted(pod, node) else ""
                # A pod that may be bound already is retried until its node is known.
                if not obstacle and together.ended.is_set() and not in_doubt:
                    obstacle = GIVEN_UP
                answer = None if obstacle else await self._send(pod, node, annotations)
            if obstacle:
                unsent = BindResult(Ending.UNSENT, obstacle)
                return await self._find_node(pod, node, unsent) if refusals or in_doubt else unsent
            if answer is None:
                return BindResult(Ending.BOUND)
            if isinstance(answer, Unreachable):
                in_doubt = True
                await asyncio.sleep(backoff.after_failure())
                continue
            if answer.status == HTTPStatus.NOT_FOUND:
                return BindResult(Ending.GONE)
            refusals += 1
            result = BindResult(Ending.REFUSED, answer.message)
            last = refusals >= (PATIENT_TRIES if together.patient else USUAL_TRIES) or not _is_transient(
                answer, together
            )
            if last or answer.status == HTTPStatus.CONFLICT:
                result = await self._find_node(pod, node, result)
            if last or result.ending is not Ending.REFUSED:
                return result
            together.refused(pod, answer.message)
            seconds = max(backoff.after_failure(), _asked_to_wait(answer))
            await self._rest(seconds, pod.metadata.namespace or "", together)

    async def _send(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> ApiError | Unreachable | None:
        metadata = pod.metadata
        try:
            await self._client.bind(metadata.namespace or "default", metadata.name, metadata.uid, node, annotations)
        except (ApiError, Unreachable) as error:
            return error
        return None

    async def _rest(self, seconds: float, tenant: str, together: UnitBinds) -> None:
        """Wait before a retry, or until the unit ends."""
        self.resting[tenant] += 1
        self._on_rest()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await together.ended.wait()
        finally:
            self.resting[tenant] -= 1
            if not self.resting[tenant]:
                del self.resting[tenant]

    async def _find_node(self, pod: Pod, node: str, otherwise: BindResult) -> BindResult:
        """The result by the node of the pod, polled until there is an answer; `otherwise` if it has none."""
        metadata = pod.metadata
        try:
            found = await poll(
                pod_key(pod), lambda: self._client.get(PODS, metadata.name, metadata.namespace or "default")
            )
        except ApiError as error:
            return BindResult(Ending.REFUSED, f"{otherwise.message}; reading the pod's node is forbidden: {error}")
        if found is None or found.metadata.uid != metadata.uid:
            return BindResult(Ending.GONE)
        if found.spec.node_name == node:
            return BindResult(Ending.BOUND)
        if found.spec.node_name:
            return BindResult(Ending.ELSEWHERE, f"another client bound it to {found.spec.node_name}")
        return BindResult(Ending.GONE) if found.metadata.deletion_timestamp else otherwise


def _is_transient(error: ApiError, together: UnitBinds) -> bool:
    """Whether a retry may succeed. A conflict is retried only if other members already have nodes."""
    if error.status == HTTPStatus.CONFLICT:
        return together.patient
    is_of_proxy = error.status < HTTPStatus.BAD_REQUEST
    return is_of_proxy or error.status in LATER or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _asked_to_wait(error: ApiError) -> float:
    return min(error.retry_after or 0.0, MAX_WAIT)


async def poll(about: str, ask: Callable[[], Awaitable[Pod]]) -> Pod | None:
    """Ask until there is an answer; None if the object does not exist. Raises `ApiError` if asking is forbidden."""
    backoff = Backoff(first=FIRST_WAIT, longest=MAX_WAIT)
    logged = False
    while True:
        try:
            return await ask()
        except (ApiError, Unreachable) as error:
            status = error.status if isinstance(error, ApiError) else None
            if status == HTTPStatus.NOT_FOUND:
                return None
            if status == HTTPStatus.FORBIDDEN:
                raise
            if not logged:
                logged = True
                logger.warning("bind outcome unknown, polling pod", extra={"pod": about, "problem": str(error)})
            wait = _asked_to_wait(error) if isinstance(error, ApiError) else 0.0
            await asyncio.sleep(max(backoff.after_failure(), wait))
