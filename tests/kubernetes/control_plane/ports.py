"""Free ports on loopback, chosen so that a restarted program finds its own again.

A port from `bind(0)` lies where the kernel also takes the ports of outgoing connections. While the API server is down,
its reconnecting clients could be given just that port (and even connect to themselves), and it would not come up again.
So ports are drawn below that range. Another program can still be faster: `plane.py` tries again.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
LOWEST = 10_000


def free_port() -> int:
    """A port that is free now."""
    candidates = range(LOWEST, _first_outgoing_port())
    while True:
        port = random.SystemRandom().choice(candidates)
        with socket.socket() as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind((LOOPBACK, port))
            except OSError:
                continue
            return port


def _first_outgoing_port() -> int:
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(setting.read_text(encoding="ascii").split()[0]) if setting.exists() else 49_152
    return first if first > LOWEST + 1000 else 32_768
