"""`bayplan extender` as a program of its own, and the stanza by which the stock scheduler calls it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayplan.services.extender.stanza import Stanza
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.ports import free_port
from tests.kubernetes.running_scheduler import RunningScheduler

WEIGHT = 12


class RunningExtender(RunningScheduler):
    """An extender in a process of its own; `stanza` is its entry in the configuration of a scheduler."""

    def __init__(self, kubeconfig: Path, arguments: tuple[str, ...], scheme: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._scheme = scheme
        super().__init__(kubeconfig, ("--address", self.address, *arguments), program="extender")

    def stanza(self, **choices: Any) -> dict[str, Any]:
        """What `bayplan extender-config` prints for it."""
        url = choices.pop("url_prefix", f"{self._scheme}://{self.address}")
        (extender,) = Stanza(url, WEIGHT, **choices).document()["extenders"]
        return dict(extender)


@contextmanager
def running_extender(
    plane: ControlPlane, *arguments: str, kubeconfig: Path | None = None, scheme: str = "http"
) -> Iterator[RunningExtender]:
    """An extender that is ready; it is ended afterwards."""
    extender = RunningExtender(kubeconfig or plane.kubeconfig, arguments, scheme)
    try:
        extender.wait_until_ready()
        yield extender
    finally:
        extender.close()
