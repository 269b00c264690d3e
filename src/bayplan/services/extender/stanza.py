"""What kube-scheduler has to be told to call the extender: the `extenders` of its KubeSchedulerConfiguration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayplan.config.configuration import API_VERSION, KIND


@dataclass(frozen=True, slots=True)
class Stanza:
    """The choices of an operator. Files are paths on the machine of kube-scheduler."""

    url_prefix: str
    weight: int
    http_timeout: str = "5s"
    node_cache_capable: bool = True
    ignorable: bool = False
    binds: bool = True
    preempts: bool = True
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def document(self) -> dict[str, Any]:
        """A configuration with nothing but the extender."""
        return {"apiVersion": API_VERSION, "kind": KIND, "extenders": [self._extender()]}

    def _extender(self) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "urlPrefix": self.url_prefix,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            **({"preemptVerb": "preempt"} if self.preempts else {}),
            **({"bindVerb": "bind"} if self.binds else {}),
            "weight": self.weight,
            "nodeCacheCapable": self.node_cache_capable,
            "ignorable": self.ignorable,
            "httpTimeout": self.http_timeout,
        }
        if self.url_prefix.startswith("https:"):
            entry["enableHTTPS"] = True
            files = {"caFile": self.ca_file, "certFile": self.cert_file, "keyFile": self.key_file}
            entry["tlsConfig"] = {name: file for name, file in files.items() if file}
        return entry
