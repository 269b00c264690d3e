"""Kubeconfig files: who one is for the API server, in the form that every client reads.

In: an address, the authority's certificate, and a key pair or a token. Out: a file. Next:
programs under test are given its path.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.kubernetes.control_plane.certificates import KeyPair
from tests.kubernetes.control_plane.raw_api import Credentials


def write_kubeconfig(path: Path, server: str, authority: Path, credentials: Credentials) -> Path:
    """Write a kubeconfig with one context; returns its path."""
    user: dict[str, str] = {}
    match credentials:
        case KeyPair(certificate, key):
            user = {"client-certificate": str(certificate), "client-key": str(key)}
        case str(token):
            user = {"token": token}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "test", "user": user}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(kubeconfig, indent=1), encoding="utf-8")  # JSON is YAML
    return path
