"""Leader election with a Lease: one of several schedulers works, the others stand by.

`acquire` returns when the lease is ours, `renew_until_lost` when it no longer is. `release` gives it up so that a
standby need not wait for it to expire. The caller (`services/edges/leader.py`) does the leader's work and exits when
the lease is lost.

The rules are those of client-go, so any client may hold the same lease. Clocks of different machines are never
compared: a standby counts from the moment it saw the lease change, and takes the lease once it has not changed for the
duration that its holder declared. Every write carries the resource version that it is based on; the slower of two
writers gets a 409 and rereads the lease.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.json_text import decode
from bayplan.kube.resources import LEASES
from bayplan.kube.wire.coordination_v1 import API_VERSION, LeaseSpec

JITTER = 1.2  # of the retry period at most, while waiting for the lease; and what the deadline must leave room for


def unique_identity() -> str:
    """A name for this process that no other has: the host's, which a reader recognises, and chance."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Which lease, who we are, and times in seconds."""

    namespace: str
    name: str
    identity: str
    duration: float = 15.0  # a standby waits so long after the last sign of life
    renew_deadline: float = 10.0  # a leader that could not renew for so long gives up
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.identity:
            raise ValueError("leader election: the identity is empty")
        if self.duration < 1 or self.duration != int(self.duration):
            raise ValueError(f"leader election: lease duration {self.duration:g} s: must be whole seconds, at least 1")
        if self.duration <= self.renew_deadline:
            raise ValueError(
                f"leader election: lease duration {self.duration:g} s must be longer than the renew deadline "
                f"{self.renew_deadline:g} s"
            )
        if self.retry <= 0 or self.renew_deadline <= JITTER * self.retry:
            raise ValueError(
                f"leader election: renew deadline {self.renew_deadline:g} s must be longer than "
                f"{JITTER:g} times the retry period "
                f"{self.retry:g} s, which must be positive"
            )


def claim(seen: LeaseSpec | None, seen_for: float, settings: LeaseSettings, wall_time: str) -> LeaseSpec | None:
    """The spec to write to hold the lease from now on; None while another client holds it.

    `seen_for` is the number of seconds for which we have seen the lease unchanged.
    """
    ours = seen is not None and seen.holder_identity == settings.identity
    if seen is not None and seen.holder_identity and not ours and seen_for < (seen.lease_duration_seconds or 0):
        return None
    transitions = seen.lease_transitions or 0 if seen is not None else 0
    return LeaseSpec(
        holder_identity=settings.identity,
        lease_duration_seconds=int(settings.duration),
        acquire_time=seen.acquire_time if seen is not None and ours else wall_time,
        renew_time=wall_time,
        lease_transitions=transitions + (seen is not None and not ours),
    )


def micro_time(moment: datetime) -> str:
    """A time as the API server demands it in a Lease: UTC, six digits after the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LeaderElection:
    """One candidate for one lease.

    `on_error` hears a sentence about what went wrong and is tried again, `on_holder` who holds the lease.
    """

    def __init__(
        self,
        client: KubeClient,
        settings: LeaseSettings,
        *,
        on_error: Callable[[str], None] | None = None,
        on_holder: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.settings = settings
        self._client = client
        self._on_error = on_error or (lambda _: None)
        self._on_holder = on_holder or (lambda _: None)
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._path = LEASES.path(settings.namespace, settings.name)
        self._object: dict[str, Any] = {}  # the lease as the server wrote it last, with all that others put on it
        self._seen: LeaseSpec | None = None
        self._seen_at = clock()
        self._renewed_at: float | None = None

    @property
    def leads(self) -> bool:
        """Whether the lease is ours and has not expired, even if the expiry has gone unnoticed so far.

        Safe to call from any thread.
        """
        renewed_at = self._renewed_at
        return renewed_at is not None and self._clock() - renewed_at < self.settings.duration

    @property
    def leader(self) -> str | None:
        """Who holds the lease, as far as we have seen."""
        return self._seen.holder_identity or None if self._seen is not None else None

    async def acquire(self) -> None:
        """Wait until the lease is ours."""
        while not await self._attempt(self.settings.renew_deadline):
            await self._sleep(self.settings.retry * (1 + JITTER * random.random()))  # noqa: S311 - not a secret

    async def renew_until_lost(self, why_give_up: Callable[[], str | None] = lambda: None) -> str:
        """Renew again and again; returns when the lease is lost, with a sentence that says how.

        `why_give_up` is asked before each renewal. A holder that cannot do its work releases the lease, and another
        instance may try.
        """
        assert self._renewed_at is not None, "acquire first"
        while True:
            await self._sleep(self.settings.retry)
            reason = why_give_up()
            if reason is not None:
                await self.release()
                return f"lease {self.settings.namespace}/{self.settings.name}: given up: {reason}"
            left = self._renewed_at + self.settings.renew_deadline - self._clock()
            if left > 0 and await self._attempt(left):
                continue
            if self.leader not in (self.settings.identity, None):
                self._renewed_at = None
                return f'lease {self.settings.namespace}/{self.settings.name}: taken by "{self.leader}"'
            if self._clock() - self._renewed_at >= self.settings.renew_deadline:
                self._renewed_at = None
                return (
                    f"lease {self.settings.namespace}/{self.settings.name}: "
                    f"could not be renewed for {self.settings.renew_deadline:g} s"
                )

    async def release(self) -> None:
        """Give the lease up, if it is ours: the next candidate takes it at its next look."""
        if self._renewed_at is None:
            return
        self._renewed_at = None
        try:
            async with asyncio.timeout(self.settings.renew_deadline):
                await self._look()
                if self.leader == self.settings.identity and self._seen is not None:
                    now = micro_time(self._wall_clock())
                    await self._write(
                        LeaseSpec(
                            lease_duration_seconds=1,
                            acquire_time=now,
                            renew_time=now,
                            lease_transitions=self._seen.lease_transitions,
                        )
                    )
        except TimeoutError:
            self._on_error(
                f"lease {self.settings.namespace}/{self.settings.name}: not released: "
                f"no answer within {self.settings.renew_deadline:g} s"
            )
        except (ApiError, Unreachable) as error:
            self._on_error(f"lease {self.settings.namespace}/{self.settings.name}: not released: {error}")

    async def _attempt(self, seconds: float) -> bool:
        """Try once to take or renew the lease; trouble is told and counts as no."""
        started_at = self._clock()
        try:
            async with asyncio.timeout(seconds):
                taken = await self._take_or_renew()
        except TimeoutError:
            self._on_error(f"lease {self.settings.namespace}/{self.settings.name}: no answer within {seconds:.1f} s")
            return False
        except (ApiError, Unreachable) as error:
            self._on_error(f"lease {self.settings.namespace}/{self.settings.name}: {error}")
            return False
        if taken:
            self._renewed_at = started_at
        return taken

    async def _take_or_renew(self) -> bool:
        if self._renewed_at is not None and await self._claim():
            return True  # the usual renewal is one request: no other client has written since we did
        await self._look()
        return await self._claim()

    async def _claim(self) -> bool:
        spec = claim(self._seen, self._clock() - self._seen_at, self.settings, micro_time(self._wall_clock()))
        if spec is None:
            return False
        try:
            await self._write(spec)
        except ApiError as error:
            if error.status in (404, 409):  # gone, or another client was faster
                return False
            raise
        return True

    async def _look(self) -> None:
        """See the lease as it is."""
        try:
            self._see(await self._client.request("GET", self._path))
        except ApiError as error:
            if error.status != 404:
                raise
            self._object = {}
            self._seen = None

    async def _write(self, spec: LeaseSpec) -> None:
        """Write the lease over the version that we saw last, or create it."""
        if self._object:
            body = {**self._object, "spec": {**self._foreign_fields(), **msgspec.to_builtins(spec)}}
            self._see(await self._client.update(LEASES, self.settings.name, body, self.settings.namespace))
        else:
            metadata = {"name": self.settings.name, "namespace": self.settings.namespace}
            body = {"apiVersion": API_VERSION, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            self._see(await self._client.create(LEASES, body, self.settings.namespace))

    def _foreign_fields(self) -> dict[str, Any]:
        """Fields of the spec that are not ours to judge, such as `strategy`."""
        return {
            name: value
            for name, value in (self._object.get("spec") or {}).items()
            if name not in LeaseSpec.__struct_encode_fields__
        }

    def _see(self, data: bytes) -> None:
        try:
            self._object = decode(data, dict[str, Any])
            seen = msgspec.convert(self._object.get("spec") or {}, LeaseSpec)
        except msgspec.DecodeError as error:
            raise Unreachable(f"the answer is not a Lease: {error}") from None
        if seen != self._seen:
            if seen.holder_identity and seen.holder_identity != self.leader:
                self._on_holder(seen.holder_identity)
            self._seen = seen
            self._seen_at = self._clock()
