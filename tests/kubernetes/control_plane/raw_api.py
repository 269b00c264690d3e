"""Plain requests to a Kubernetes API server, for what tests prepare and check.

In: an address and credentials, paths and dictionaries. Out: dictionaries. It shares nothing with the client of
bayplan, so that a test does not look through the glasses it tests. A connection per request: slow (some milliseconds)
and never stale when a server was restarted or paused. Next: `objects.py` knows the paths of objects.
"""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.kubernetes.control_plane.certificates import KeyPair

Json = dict[str, Any]
Credentials = KeyPair | str | None
"""A client certificate, a bearer token, or nothing: anonymous."""


class ApiRefused(Exception):
    """The server answered, with a status that is no success."""

    def __init__(self, request: str, status: int, answer: str) -> None:
        super().__init__(f"{request}: {status} {answer}")
        self.status = status
        self.answer = answer


class RawApi:
    """Requests to a server that `authority` vouches for, in the name of the credentials' owner."""

    def __init__(self, server: str, authority: Path, credentials: Credentials) -> None:
        self.server = server
        self._headers = {"Authorization": f"Bearer {credentials}"} if isinstance(credentials, str) else {}
        self._tls = ssl.create_default_context(cafile=authority)
        if isinstance(credentials, KeyPair):
            self._tls.load_cert_chain(credentials.certificate, credentials.key)

    def get(self, path: str, *, accept: str = "application/json", timeout: float = 10.0) -> Json:
        """The object or list at `path`."""
        return self._json("GET", path, None, {"Accept": accept}, timeout)

    def get_text(self, path: str, *, timeout: float = 10.0) -> str:
        """What stands at `path`, as it comes: health and metrics are no JSON."""
        return self._request("GET", path, None, {}, timeout)

    def post(self, path: str, body: Json, *, timeout: float = 10.0) -> Json:
        """Create `body` in the collection or subresource at `path`."""
        return self._json("POST", path, body, {"Content-Type": "application/json"}, timeout)

    def put(self, path: str, body: Json, *, timeout: float = 10.0) -> Json:
        """Replace what is at `path` by `body`."""
        return self._json("PUT", path, body, {"Content-Type": "application/json"}, timeout)

    def patch(self, path: str, body: Json | list[Json], *, kind: str = "merge-patch", timeout: float = 10.0) -> Json:
        """Change what is at `path`; `kind` is merge-patch, strategic-merge-patch, json-patch (a
        list) or apply-patch.
        """
        suffix = "yaml" if kind == "apply-patch" else "json"
        return self._json("PATCH", path, body, {"Content-Type": f"application/{kind}+{suffix}"}, timeout)

    def delete(self, path: str, *, uid: str = "", timeout: float = 30.0) -> Json:
        """Delete the object or collection at `path` at once: no kubelet here would end a grace period.

        With `uid`, only this very object.
        """
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        if uid:
            options["preconditions"] = {"uid": uid}
        return self._json("DELETE", path, options, {"Content-Type": "application/json"}, timeout)

    def exists(self, path: str) -> bool:
        """Whether there is something at `path`."""
        try:
            self.get(path)
        except ApiRefused as refusal:
            if refusal.status == http.HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    def answers(self, path: str) -> bool:
        """Whether the server answers `path` with success, within a second."""
        try:
            self.get_text(path, timeout=1.0)
        except (ApiRefused, OSError, http.client.HTTPException):
            return False
        return True

    def _json(
        self, method: str, path: str, body: Json | list[Json] | None, headers: dict[str, str], timeout: float
    ) -> Json:
        answer: Json = json.loads(self._request(method, path, body, headers, timeout))
        return answer

    def _request(
        self, method: str, path: str, body: Json | list[Json] | None, headers: dict[str, str], timeout: float
    ) -> str:
        address = urlsplit(self.server).netloc
        # http.client knows of no proxies, and that is right for loopback.
        connection = http.client.HTTPSConnection(address, timeout=timeout, context=self._tls)
        try:
            written = None if body is None else json.dumps(body).encode()
            connection.request(method, path, written, {**self._headers, **headers})
            response = connection.getresponse()
            answer = response.read().decode(errors="replace")  # tests write what is not UTF-8
        finally:
            connection.close()
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise ApiRefused(f"{method} {path}", response.status, answer)
        return answer
