"""Which proxy the environment asks for: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, read as Go programs read them.

aiohttp could read them too, but it would also take passwords from ~/.netrc, and it knows no networks in NO_PROXY
(`10.0.0.0/8`), by which the API server of almost every cluster is excepted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_from_environment(server: str, environment: Mapping[str, str]) -> str | None:
    """The proxy to reach `server` by, or None."""
    parts = urlsplit(server)
    proxy = _either(environment, f"{parts.scheme}_proxy")
    if not proxy or not parts.hostname or _excepted(parts.hostname, parts.port, _either(environment, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _either(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name, "")


def _excepted(host: str, port: int | None, exceptions: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host, port, address) for entry in exceptions.split(",") if entry.strip())


def _matches(
    entry: str, host: str, port: int | None, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None
) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, wanted_port = entry.rpartition(":")
    if colon and wanted_port.isdecimal() and ":" not in name:
        if int(wanted_port) != port:
            return False
        entry = name
    if entry.startswith("."):
        return host.endswith(entry)
    return host == entry or host.endswith(f".{entry.removeprefix('*.')}")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
