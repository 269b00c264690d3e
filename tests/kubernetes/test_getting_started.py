"""The commands of docs/getting-started.md, run as they stand there on a real API server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.control_plane.objects import remove_kinds
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.workloads import ROOT

PAGE = ROOT / "docs" / "getting-started.md"
# Programs in the background end with the script.
BEGIN = "set -e\ntrap 'kill $(jobs -p); wait' EXIT\n"


def test_the_virtual_path_leads_to_a_placed_pod(control_plane: ControlPlane, namespace: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl")
    found = re.search(r"<!-- run: begin -->\n```sh\n(.*?)```\n<!-- run: end -->", PAGE.read_text(), re.DOTALL)
    assert found
    # Other tests may have left them, and `create` is for an empty cluster.
    remove_kinds(control_plane.api, [crd.stem for crd in (ROOT / "deploy" / "crds").glob("*.yaml")])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", BEGIN + found[1]],
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "PATH": path},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "packet-worker" in done.stdout
    assert "8 with a NUMA report" in done.stdout
    control_plane.delete("/api/v1/namespaces/default/pods/packet-worker")
