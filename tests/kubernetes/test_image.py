"""The contents of the container image, installed by the image's own script, on a root that cannot be written to, as the
image's user.

No container engine is needed: a mount namespace stands in for the container, and the system's Python for that of the
base image. Not run here: the base image itself and the engine's build. The scheduler, the pod grouper and agent-gc of
the image become ready on a real API server, under the service accounts of deploy/.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bayplan.cli.program import COMMANDS
from tests.kubernetes.control_plane.objects import remove_namespace
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.ports import free_port
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.deployed import NAMESPACE, deployed
from tests.kubernetes.workloads import ROOT

USER = "65532"
# The root is made read-only for this process alone, then all rights are given up, as the manifests do.
CONFINED = [
    *("unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "sh"),
    *("setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--no-new-privs", "--inh-caps=-all", "env", "-i"),
]


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """The folder that the image has as /opt/bayplan."""
    python = Path("/usr/bin/python3")  # one that any user may run, as in the base image
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("setpriv") or not python.exists():
        pytest.skip("needs root, unshare, setpriv and /usr/bin/python3 to stand in for a container")
    with tempfile.TemporaryDirectory(prefix="bayplan-image-") as folder:
        Path(folder).chmod(0o755)
        target = Path(folder) / "bayplan"
        environment = {**os.environ, "PYTHON": str(python)}
        done = subprocess.run(
            [ROOT / "deploy/image/install.sh", target],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        yield target


def confined(image: Path, *words: str) -> list[str]:
    return [*CONFINED, f"PATH={image}/bin", "PYTHONDONTWRITEBYTECODE=1", *words]


def run(image: Path, *words: str) -> str:
    done = subprocess.run(confined(image, *words), cwd="/", capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_root_cannot_be_written_to_and_the_user_has_no_rights(image: Path) -> None:
    told = run(
        image,
        "python",
        "-c",
        "import os; print(os.geteuid(), os.access('/', os.W_OK), os.access('/etc/shadow', os.R_OK))",
    )
    assert told.split() == [USER, "False", "False"]


def test_every_command_starts(image: Path) -> None:
    assert run(image, "bayplan", "--version").startswith("bayplan ")
    for command in COMMANDS:
        assert "Usage: bayplan" in run(image, "bayplan", command, "--help"), command
    for program in ("nfd-topology-updater", "nfd-gc", "kubectl-bayplan"):
        assert "--help" in run(image, program, "--help"), program


def test_the_demo_works_from_the_image_alone(image: Path) -> None:
    assert "none refused by a kubelet" in run(image, "bayplan", "demo")


def test_the_agent_says_what_it_lacks_outside_a_node(image: Path) -> None:
    words = ("bayplan", "agent", "--oneshot", "--no-publish", "--kubelet-config=", "--podresources-socket=")
    done = subprocess.run(confined(image, *words), cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, "no podresources socket is given" in done.stderr) == (2, True), done.stderr


def test_the_image_holds_no_package_manager_and_what_the_manifests_need(image: Path) -> None:
    assert not (image / "bin" / "pip").exists()
    run(
        image,
        "python",
        "-c",
        "import grpc, highspy, bayplan.doctor.rights as rights; assert rights.needed_rights('base')",
    )


@pytest.mark.parametrize(
    "program,arguments,namespace,account",
    [
        ("scheduler", ["--no-pod-grouper"], NAMESPACE, "bayplan-scheduler"),
        ("pod-grouper", [], NAMESPACE, "bayplan-pod-grouper"),
        ("agent-gc", [], "bayplan-agent", "bayplan-agent-gc"),
    ],
)
def test_a_service_becomes_ready_on_an_api_server(
    installed: ControlPlane, image: Path, program: str, arguments: list[str], namespace: str, account: str
) -> None:
    port = free_port()
    kubeconfig = readable_kubeconfig(installed, image.parent / f"{program}.kubeconfig", namespace, account)
    words = ["bayplan", program, "--kubeconfig", str(kubeconfig), "--health-address", f"127.0.0.1:{port}", *arguments]
    with subprocess.Popen(confined(image, *words), cwd="/", stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: is_ready(port) or process.poll() is not None, f"{program} is ready", timeout=120)
            assert process.poll() is None, process.stderr and process.stderr.read()
        finally:
            process.terminate()
        assert process.wait(60) == 0


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """deploy/base and the accounts of deploy/agent."""
    with deployed(control_plane):
        for file in ("namespace.yaml", "service-accounts.yaml", "gc-role.yaml"):
            control_plane.apply(ROOT / "deploy" / "agent" / file)
        yield control_plane
        remove_namespace(control_plane.api, "bayplan-agent")


def readable_kubeconfig(plane: ControlPlane, file: Path, namespace: str, account: str) -> Path:
    """A kubeconfig with everything in it, which the image's user may read."""
    authority = base64.b64encode(plane.authority.certificate.read_bytes()).decode()
    content = {
        "clusters": [
            {"name": "c", "cluster": {"server": plane.apiserver.url, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "u", "user": {"token": plane.token_for(namespace, account)}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(content))
    file.chmod(0o644)
    return file


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.read() == b"ok")
    except OSError:
        return False
