"""Probes and metrics over a real socket."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from bayplan.services.edges.health import AddressError, Certificate, WatchHealth, host_and_port, serve_health


def ask(path: str, *, live: str | None = None, lists: str | None = None) -> tuple[int, str, str]:
    """Status, body and content type of one response, while the two checks return these problems."""

    async def story() -> tuple[int, str, str]:
        async with (
            serve_health(
                "127.0.0.1:0", live={"loop": lambda: live}, ready={"lists": lambda: lists}, metrics=lambda: b"up 1\n"
            ) as port,
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{path}") as response,
        ):
            return response.status, await response.text(), response.headers["Content-Type"]

    return asyncio.run(story())


@pytest.mark.parametrize(
    "path, live, lists, status, text",
    [
        ("/livez", None, "waiting for nodes", 200, "ok"),
        ("/healthz", None, "waiting for nodes", 200, "ok"),
        ("/readyz", None, None, 200, "ok"),
        ("/readyz?verbose", None, None, 200, "[+]ping ok\n[+]loop ok\n[+]lists ok\nreadyz check passed\n"),
        (
            "/readyz",
            None,
            "waiting for nodes",
            503,
            "[+]ping ok\n[+]loop ok\n[-]lists failed: waiting for nodes\nreadyz check failed\n",
        ),
        ("/readyz?exclude=lists", None, "waiting for nodes", 200, "ok"),
        ("/livez", "stuck", None, 503, "[+]ping ok\n[-]loop failed: stuck\nlivez check failed\n"),
    ],
)
def test_checks_determine_the_status(path: str, live: str | None, lists: str | None, status: int, text: str) -> None:
    assert ask(path, live=live, lists=lists)[:2] == (status, text)


def test_metrics_have_the_content_type_of_prometheus() -> None:
    assert ask("/metrics") == (200, "up 1\n", "text/plain; version=0.0.4; charset=utf-8")


def test_other_paths_do_not_exist() -> None:
    assert ask("/")[0] == 404


@pytest.mark.parametrize(
    "address, host, port",
    [
        ("127.0.0.1:10361", "127.0.0.1", 10361),
        ("localhost:0", "localhost", 0),
        ("[::1]:8080", "::1", 8080),
        (":10361", None, 10361),
    ],
)
def test_addresses(address: str, host: str | None, port: int) -> None:
    assert host_and_port(address) == (host, port)


@pytest.mark.parametrize("address", ["10361", "127.0.0.1:", "127.0.0.1:http", ":70000", "::1:8080", ""])
def test_invalid_addresses(address: str) -> None:
    with pytest.raises(AddressError, match="is not an address to listen on"):
        host_and_port(address)


def test_a_used_port_and_a_missing_certificate_are_named() -> None:
    async def twice() -> None:
        async with serve_health("127.0.0.1:0", live={}, ready={}, metrics=bytes) as port:
            with pytest.raises(
                AddressError,
                match=(
                    f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another with --health-address"
                ),
            ):
                async with serve_health(f"127.0.0.1:{port}", live={}, ready={}, metrics=bytes):
                    raise AssertionError
        certificate = Certificate("/no/such.crt", "/no/such.key")
        with pytest.raises(AddressError, match=r"cannot load the certificate /no/such\.crt, /no/such\.key"):
            async with serve_health("127.0.0.1:0", live={}, ready={}, metrics=bytes, certificate=certificate):
                raise AssertionError

    asyncio.run(twice())


class TestWatches:
    def test_a_failing_watch_fails_readiness_and_later_liveness(self) -> None:
        watches = WatchHealth()
        watches.worked("pods", 0.0)
        watches.worked("nodes", 0.0)
        watches.failed("pods", 10.0)
        watches.failed("pods", 20.0)
        assert watches.why_not_ready(39.0) is None
        assert watches.why_not_ready(41.0) == "pods failing for 31 s"
        watches.worked("nodes", 60.0)
        assert watches.why_restart(300.0) is None
        assert watches.why_restart(311.0) == "pods failing for 301 s"
        assert watches.failing(41.0) == {"pods": 31.0, "nodes": 0.0}

    def test_progress_resets_the_failure(self) -> None:
        watches = WatchHealth()
        watches.failed("pods", 10.0)
        watches.worked("pods", 50.0)
        assert (watches.why_not_ready(1000.0), watches.failing(1000.0)) == (None, {"pods": 0.0})

    def test_an_unreachable_api_server_is_no_reason_to_restart(self) -> None:
        watches = WatchHealth()
        for resource in ("pods", "nodes"):
            watches.worked(resource, 0.0)
            watches.failed(resource, 10.0)
        assert watches.why_not_ready(1000.0) == "pods failing for 990 s, nodes failing for 990 s"
        assert watches.why_restart(1000.0) is None
