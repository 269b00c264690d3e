"""etcd: the memory of the API server, in a folder on tmpfs where there is one.

In: the program and a folder for its data. Out: a handle that also forgets history on demand, and lets single objects
vanish and return. Nothing is synced to disk: a test run that loses power has lost anyway. It speaks plain HTTP on
loopback. Next: `api_server.py` stores in it.
"""

from __future__ import annotations

import base64
import http.client
import json
from pathlib import Path
from typing import Any

from tests.kubernetes.control_plane.ports import LOOPBACK, free_port
from tests.kubernetes.control_plane.process import Process

QUOTA = 4 << 30
"""Bytes: room for 50,000 pods and their history, where etcd's own limit of 2 GiB is reached early."""


class Etcd(Process):
    """An etcd of one member; `url` is where it is reached."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._port = free_port()
        self.url = f"http://{LOOPBACK}:{self._port}"
        peers = f"http://{LOOPBACK}:{free_port()}"
        command = [
            str(program),
            "--name=default",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            f"--quota-backend-bytes={QUOTA}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        super().__init__("etcd", command, folder / "etcd.log", self._is_healthy)

    def compact(self) -> None:
        """Forget all history, as the API server asks every five minutes.

        The API server remembers recent changes by itself. Restart it as well, and lists that were begun before cannot
        be continued, nor watches resumed from before: it answers 410.
        """
        # A write first: without one since, the newest version stays valid; a 1.34 restart writes nothing by itself.
        now = self._ask("POST", "/v3/kv/put", {"key": base64.b64encode(b"compacted").decode(), "value": ""})
        self._ask("POST", "/v3/kv/compaction", {"revision": now["header"]["revision"], "physical": True})

    def take(self, key: str) -> str:
        """Take away what is stored under a key, behind the API server's back; what it was, for `put`."""
        encoded = base64.b64encode(key.encode()).decode()
        (found,) = self._ask("POST", "/v3/kv/range", {"key": encoded})["kvs"]
        self._ask("POST", "/v3/kv/deleterange", {"key": encoded})
        return str(found["value"])

    def put(self, key: str, value: str) -> None:
        """Store what was taken away: the very object, with the uid that it had."""
        self._ask("POST", "/v3/kv/put", {"key": base64.b64encode(key.encode()).decode(), "value": value})

    def _is_healthy(self) -> bool:
        try:
            return bool(self._ask("GET", "/health", None)["health"] == "true")
        except (OSError, http.client.HTTPException):
            return False

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=5)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            answer = response.read().decode()
        finally:
            connection.close()
        assert response.status in {http.HTTPStatus.OK, http.HTTPStatus.SERVICE_UNAVAILABLE}, f"{path}: {answer}"
        parsed: dict[str, Any] = json.loads(answer)
        return parsed
