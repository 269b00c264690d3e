"""What the kubelets have to tell the API server, as data: out of `fleet.py` and `reports.py`, into `writer.py`.

Each write belongs to one object, its `key`. Of several writes to one object only the newest matters, as in the kubelet's own status
manager: a pod that has ended need not be called Running first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RejectedPod:
    """A pod that a kubelet refused, and what its status says."""

    pod: str
    node: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetPodStatus:
    """How far a pod has come; `refusal` if a kubelet refused it."""

    namespace: str
    name: str
    uid: str
    status: Body
    refusal: RejectedPod | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The pod."""
        return "pod", f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class DeletePod:
    """A pod whose containers have stopped on request can go now."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> tuple[str, str]:
        """The pod."""
        return "pod", f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PublishTopology:
    """A node's report. `exists`: the node has one already, as far as is known."""

    node: str
    report: Body
    exists: bool

    @property
    def key(self) -> tuple[str, str]:
        """The report."""
        return "report", self.node


Write = SetPodStatus | DeletePod | PublishTopology
