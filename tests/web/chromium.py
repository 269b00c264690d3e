"""A real Chromium, driven over its DevTools protocol: open a page, run a script, collect errors and requests.

The browser is the distribution's (chromium, google-chrome). aiohttp speaks the protocol, so tests need nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LONGEST_WAIT = 60.0
ERRORS = ("error", "assert")


def browser_program() -> str | None:
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab. `errors` and `requests` are everything since it was opened."""

    def __init__(self, runner: asyncio.Runner, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._runner = runner
        self._socket = socket
        self._number = 0
        self.errors: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._runner.run(self._call(method, parameters))

    async def _call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async with asyncio.timeout(LONGEST_WAIT):
            while True:
                message = await self._socket.receive_json()
                if message.get("id") == self._number:
                    assert "error" not in message, message
                    return dict(message["result"])
                self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        given = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = given["exceptionDetails"]
                self.errors.append(str(details.get("exception", {}).get("description", details["text"])))
            case "Runtime.consoleAPICalled" if given["type"] in ERRORS:
                self.errors.append(" ".join(str(each.get("value")) for each in given["args"]))
            case "Log.entryAdded" if given["entry"]["level"] == "error":
                self.errors.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")
            case "Network.requestWillBeSent":
                self.requests.append(str(given["request"]["url"]))

    def run(self, script: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true."""
        began = time.monotonic()
        while not self.run(f"Boolean({script})"):
            text = (
                self.run("document.body.innerText.slice(0, 600)") if time.monotonic() - began > LONGEST_WAIT else None
            )
            assert text is None, f"{script} stays false on a page that says: {text}; errors: {self.errors}"
            time.sleep(0.1)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until(f"document.readyState === 'complete' && location.href.startsWith({url!r})")
        self.until("document.getElementById('main').dataset.ready === 'yes'")

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({selector!r})?.innerText ?? ''"))

    def texts(self, selector: str) -> list[str]:
        return list(self.run(f"[...document.querySelectorAll({selector!r})].map((each) => each.innerText)"))

    def picture(self, file: Path, most: int = 10_000) -> None:
        """The whole page, or as many of its parts as are within `most` pixels from the top."""
        size = self.run(f"""(() => {{
            const page = document.documentElement;
            const ends = [...document.querySelectorAll('main .card, main .chart, main .answer')]
                .map((each) => each.getBoundingClientRect().bottom + scrollY + 6);
            const cut = Math.max(0, ...ends.filter((each) => each <= {most}));
            return [page.scrollWidth, page.scrollHeight > {most} && cut ? Math.ceil(cut) : page.scrollHeight];
        }})()""")
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def opened_page(program: str) -> Iterator[Page]:
    """A tab of a fresh browser with an empty profile."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # A browser of root refuses its sandbox.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        quiet = [
            "--hide-scrollbars",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
        ]
        arguments = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={profile}", *quiet, *sandbox]
        process = subprocess.Popen(
            [program, *arguments, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            port = _port_in(Path(profile) / "DevToolsActivePort")
            with asyncio.Runner() as runner:
                yield from _tab(runner, port)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                process.kill()
                process.wait()


def _port_in(file: Path) -> int:
    began = time.monotonic()
    while not (file.exists() and file.read_text().strip()):
        assert time.monotonic() - began < LONGEST_WAIT, "the browser does not start"
        time.sleep(0.1)
    return int(file.read_text().split()[0])


def _tab(runner: asyncio.Runner, port: int) -> Iterator[Page]:
    async def connected() -> tuple[aiohttp.ClientSession, aiohttp.ClientWebSocketResponse]:
        session = aiohttp.ClientSession()
        async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
            url = (await answer.json())["webSocketDebuggerUrl"]
        return session, await session.ws_connect(url, max_msg_size=0)

    session, socket = runner.run(connected())
    try:
        page = Page(runner, socket)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.size(1280, 860)
        yield page
    finally:
        runner.run(socket.close())
        runner.run(session.close())
        runner.run(asyncio.sleep(0))
