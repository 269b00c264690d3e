"""Kubeconfig files for tests, right or wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

SERVER = "https://10.0.0.1:6443"


def kubeconfig(
    file: Path,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    name: str = "dev",
    **more: Any,
) -> Path:
    """A kubeconfig with one context; cluster and user have its name. Without an authority any server is believed."""
    trust = {} if "certificate-authority" in " ".join(cluster or {}) else {"insecure-skip-tls-verify": True}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": SERVER, **trust, **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        **more,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({key: value for key, value in document.items() if value is not None}))
    return file
