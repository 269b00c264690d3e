"""What probes and Prometheus ask a service: `/livez`, `/readyz`, `/healthz` and `/metrics` over HTTP.

A check is a function that answers what is wrong, or None. `/livez` runs the checks that a restart would heal, `/readyz` also those that only time
heals (the first lists are not done yet); `/healthz` is the old name of `/livez`. With `?verbose` every check has its line, with `?exclude=NAME` one is
left out, in the form that Kubernetes' own components have:

    [+]ping ok
    [-]lists failed: waiting for nodes, pods
    readyz check failed

Nothing here is secret, but nothing is authenticated either: the default address is this machine only.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from bayplan.kube.visible import visible_lines

Check = Callable[[], str | None]

# A list or watch that fails for so many seconds makes a service not ready, and for so many more a restart is worth a try.
NOT_READY_AFTER = 30.0
RESTART_AFTER = 300.0

EXAMPLE_ADDRESS = "127.0.0.1:10361"
# The text format of Prometheus.
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class AddressError(ValueError):
    """An address to listen on that cannot be used."""


class WatchHealth:
    """Which lists and watches fail without making any progress, and since when."""

    def __init__(self) -> None:
        self._failing_since: dict[str, float] = {}
        self._worked_at: dict[str, float] = {}

    def failed(self, resource: str, now: float) -> None:
        """A list or watch failed and is tried again."""
        self._failing_since.setdefault(resource, now)

    def worked(self, resource: str, now: float) -> None:
        """A list or news of a watch came."""
        self._failing_since.pop(resource, None)
        self._worked_at[resource] = now

    def failing(self, now: float) -> dict[str, float]:
        """For every resource the seconds for which it has been failing; 0 while it works."""
        return dict.fromkeys(self._worked_at, 0.0) | {
            resource: now - since for resource, since in self._failing_since.items()
        }

    def why_not_ready(self, now: float) -> str | None:
        """What fails for so long that what is known may be too old."""
        return self._told(now, [each for each, age in self.failing(now).items() if age >= NOT_READY_AFTER])

    def why_restart(self, now: float) -> str | None:
        """What fails for much longer although the API server answers about other resources: it is not the server that is away."""
        latest = max(self._worked_at.values(), default=float("-inf"))
        return self._told(
            now,
            [each for each, since in self._failing_since.items() if now - since >= RESTART_AFTER and latest > since],
        )

    def _told(self, now: float, resources: list[str]) -> str | None:
        seconds = self.failing(now)
        return ", ".join(f"{each} fails for {seconds[each]:.0f} s" for each in resources) or None


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files to speak TLS with."""

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
    more_routes: Iterable[web.RouteDef] = (),
) -> AsyncIterator[int]:
    """Serve at `address` while the context lasts; gives the port, which the system chooses for port 0."""
    host, port = host_and_port(address)
    tls = _tls_of(certificate) if certificate else None
    application = health_application(live=live, ready=ready, metrics=metrics, more_routes=more_routes)
    runner = web.AppRunner(application, shutdown_timeout=1.0)
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


def health_application(
    *,
    live: Mapping[str, Check],
    ready: Mapping[str, Check],
    metrics: Callable[[], bytes],
    more_routes: Iterable[web.RouteDef] = (),
) -> web.Application:
    """The routes, for a server or for a test."""

    async def livez(request: web.Request) -> web.Response:
        return answer("livez", {"ping": lambda: None, **live}, request)

    async def healthz(request: web.Request) -> web.Response:
        return answer("healthz", {"ping": lambda: None, **live}, request)

    async def readyz(request: web.Request) -> web.Response:
        return answer("readyz", {"ping": lambda: None, **live, **ready}, request)

    async def all_metrics(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": METRICS_TYPE})

    application = web.Application()
    application.add_routes(
        [
            web.get("/livez", livez),
            web.get("/healthz", healthz),
            web.get("/readyz", readyz),
            web.get("/metrics", all_metrics),
            *more_routes,
        ]
    )
    return application


def answer(name: str, checks: Mapping[str, Check], request: web.Request) -> web.Response:
    """`ok`, or which checks failed with status 503."""
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
    """`127.0.0.1:10361`, `[::1]:10361`, or `:10361` for all addresses of this machine (None)."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise AddressError(f"{address!r} is not an address to listen on; expected such as {EXAMPLE_ADDRESS} or :10361")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise AddressError(f"{address!r} is not an address to listen on; IPv6 needs brackets, such as [::1]:10361")
    return host.removeprefix("[").removesuffix("]") or None, int(port)


def _tls_of(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate.certificate_file, certificate.key_file)
    except (OSError, ssl.SSLError) as error:
        files = f"{certificate.certificate_file}, {certificate.key_file}"
        raise AddressError(f"cannot serve with the certificate in {files}: {error}") from None
    return context
