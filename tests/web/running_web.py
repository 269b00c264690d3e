"""`bayplan web` as a process of its own, and requests to it."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from typing import Any

from tests.running_commands import running


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Message
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class RunningWeb:
    url: str
    trust: ssl.SSLContext | None = None

    def ask(
        self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, method: str | None = None
    ) -> Answer:
        """The answer; a client that asked too much comes back when it is told to."""
        while (answer := self.ask_once(path, body, headers, method)).status == HTTPStatus.TOO_MANY_REQUESTS:
            time.sleep(float(answer.headers["Retry-After"]))
        return answer

    def ask_once(
        self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, method: str | None = None
    ) -> Answer:
        request = urllib.request.Request(f"{self.url}{path}", body, dict(headers or {}), method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.trust) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return Answer(refused.code, refused.headers, refused.read())

    def api(self, path: str, **headers: str) -> Any:
        return self.ask(f"/api/v1/{path}", headers=headers).json


@contextmanager
def running_web(
    *arguments: str, address: str = "127.0.0.1:0", trust: ssl.SSLContext | None = None
) -> Iterator[RunningWeb]:
    with running("web", "--address", address, *arguments) as process:
        said = process.until("/\n")
        port = said.strip().removesuffix("/").rpartition(":")[2]
        yield RunningWeb(f"{'http' if trust is None else 'https'}://127.0.0.1:{port}", trust)


@contextmanager
def running_simulation(scenario: str, *arguments: str) -> Iterator[RunningWeb]:
    """`bayplan simulate --serve`."""
    with running("simulate", scenario, "--serve", "--address", "127.0.0.1:0", *arguments) as process:
        port = process.until("/simulation\n").strip().removesuffix("/simulation").rpartition(":")[2]
        yield RunningWeb(f"http://127.0.0.1:{port}")
