"""The HTTP endpoints of a service: `/livez`, `/readyz`, `/healthz` (an alias of `/livez`) and `/metrics`.

A check returns a problem, or None. `/livez` runs the checks that a restart would fix, `/readyz` also those that only
time fixes. `?verbose` and `?exclude=NAME` work as in Kubernetes' own components. Health is open to all; `/metrics` is
too, unless a guard asks who may read it (`services/edges/metrics_access.py`). So the default address is the loopback.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from bayplan.kube.visible import visible_lines
from bayplan.services.edges.metrics_access import MetricsGuard

Check = Callable[[], str | None]

# Seconds without progress after which a list or watch makes the service unready, and a restart worthwhile.
NOT_READY_AFTER = 30.0
RESTART_AFTER = 300.0
# Seconds without a completed iteration after which a restart may help.
STUCK_AFTER = 60.0

EXAMPLE_ADDRESS = "127.0.0.1:10361"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class AddressError(ValueError):
    """An unusable listen address or certificate."""


class WatchHealth:
    """Which lists and watches fail without progress, and since when."""

    def __init__(self) -> None:
        self._failing_since: dict[str, float] = {}
        self._worked_at: dict[str, float] = {}

    def failed(self, resource: str, now: float) -> None:
        """A list or watch failed and is retried."""
        self._failing_since.setdefault(resource, now)

    def worked(self, resource: str, now: float) -> None:
        """A list or watch made progress."""
        self._failing_since.pop(resource, None)
        self._worked_at[resource] = now

    def failing(self, now: float) -> dict[str, float]:
        """For each resource, the seconds without progress; 0 while it works."""
        failing = {resource: now - since for resource, since in self._failing_since.items()}
        return dict.fromkeys(self._worked_at, 0.0) | failing

    def why_not_ready(self, now: float) -> str | None:
        """The resources whose state may be stale."""
        return _failures({each: age for each, age in self.failing(now).items() if age >= NOT_READY_AFTER})

    def why_restart(self, now: float) -> str | None:
        """The resources that still fail although the API server serves others."""
        latest = max(self._worked_at.values(), default=float("-inf"))
        since = self._failing_since
        return _failures({each: now - at for each, at in since.items() if now - at >= RESTART_AFTER and latest > at})


class IterationHealth:
    """When the main loop last completed an iteration; unknown while another replica leads."""

    def __init__(self) -> None:
        self._succeeded_at: float | None = None
        self._failing = False

    def succeeded(self, now: float) -> None:
        """An iteration completed, or leading began."""
        self._succeeded_at, self._failing = now, False

    def failed(self) -> None:
        """An iteration raised an exception."""
        self._failing = True

    def stopped(self) -> None:
        """This replica no longer leads."""
        self._succeeded_at, self._failing = None, False

    def why_stuck(self, now: float) -> str | None:
        """Why a restart may help, or None. Safe to call from any thread."""
        since = self._succeeded_at
        if since is None or now - since < STUCK_AFTER:
            return None
        why = "every iteration fails, see the log" if self._failing else "one decision does not end"
        return f"no decision for {now - since:.0f} s: {why}"


def _failures(seconds: Mapping[str, float]) -> str | None:
    return ", ".join(f"{resource} failing for {age:.0f} s" for resource, age in seconds.items()) or None


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files for serving TLS."""

    certificate_file: str
    key_file: str


@asynccontextmanager
async def serve_health(
    address: str,
    *,
    live: Mapping[str, Check],
    ready: Mapping[str, Check],
    metrics: Callable[[], bytes],
    certificate: Certificate | None = None,
    guard: MetricsGuard | None = None,
) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port, which the system chooses for port 0.

    `guard` says who may read metrics.
    """
    host, port = host_and_port(address)
    tls = _tls_context(certificate) if certificate else None
    runner = web.AppRunner(_application(live, ready, metrics, guard), shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise AddressError(f"cannot listen on {address}: {reason}; choose another with --health-address") from None
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _application(
    live: Mapping[str, Check],
    ready: Mapping[str, Check],
    metrics: Callable[[], bytes],
    guard: MetricsGuard | None,
) -> web.Application:
    alive: Mapping[str, Check] = {"ping": lambda: None, **live}

    async def livez(request: web.Request) -> web.Response:
        return _answer("livez", alive, request)

    async def healthz(request: web.Request) -> web.Response:
        return _answer("healthz", alive, request)

    async def readyz(request: web.Request) -> web.Response:
        return _answer("readyz", {**alive, **ready}, request)

    async def all_metrics(request: web.Request) -> web.Response:
        refused = None if guard is None else await guard.refusal(request.headers.get("Authorization", ""))
        if refused is not None:
            return web.Response(status=refused.status, text=f"{visible_lines([refused.text])}\n")
        return web.Response(body=metrics(), headers={"Content-Type": METRICS_TYPE})

    application = web.Application()
    routes = {"/livez": livez, "/healthz": healthz, "/readyz": readyz, "/metrics": all_metrics}
    application.add_routes([web.get(path, handler) for path, handler in routes.items()])
    return application


def _answer(name: str, checks: Mapping[str, Check], request: web.Request) -> web.Response:
    excluded = set(request.query.getall("exclude", []))
    problems = {check: run() for check, run in checks.items() if check not in excluded}
    failed = any(problem is not None for problem in problems.values())
    if not failed and "verbose" not in request.query:
        return web.Response(text="ok")
    lines = [
        f"[+]{check} ok" if problem is None else f"[-]{check} failed: {problem}" for check, problem in problems.items()
    ]
    lines.append(f"{name} check {'failed' if failed else 'passed'}")
    return web.Response(text=visible_lines(lines) + "\n", status=503 if failed else 200)


def host_and_port(address: str) -> tuple[str | None, int]:
    """Parse `127.0.0.1:10361`, `[::1]:10361`, or `:10361` for all interfaces (None)."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise AddressError(f"{address!r} is not an address to listen on; expected HOST:PORT, such as {EXAMPLE_ADDRESS}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise AddressError(f"{address!r} is not an address to listen on; IPv6 needs brackets, such as [::1]:10361")
    return host.removeprefix("[").removesuffix("]") or None, int(port)


def _tls_context(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate.certificate_file, certificate.key_file)
    except (OSError, ssl.SSLError) as error:
        files = f"{certificate.certificate_file}, {certificate.key_file}"
        raise AddressError(f"cannot load the certificate {files}: {error}") from None
    return context
