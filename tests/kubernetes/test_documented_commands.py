"""Every command of the documents that needs a cluster, typed as it stands, on a real API server: manifests go in,
programs become ready, the doctor looks, and everything goes out again.

tests/reference/where_commands_run.py lists what other tests run, and what no test can run and why.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.control_plane.objects import remove_kinds, remove_namespace
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.ports import LOOPBACK, free_port
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.controllers.catalogue import HELM
from tests.kubernetes.workloads import ROOT
from tests.reference.readers_folder import make_folder
from tests.reference.where_commands_run import live_commands

COMMANDS = live_commands()
SERVICES = ("scheduler", "extender", "pod-grouper", "agent-gc", "web", "kubelets")
# Their ports are fixed in the documents; here several may run at once.
PORT_OPTION = {"web": "--address", "kubelets": None}
SYSTEM, AGENTS = "bayplan-system", "bayplan-agent"
POD_GROUPS = "/apis/bayplan.io/v1alpha1/podgroups"
PACKET_WORKER = "/api/v1/namespaces/default/pods/packet-worker"


def is_service(command: str) -> bool:
    words = shlex.split(command)
    short = {"--check-config", "--help", "--oneshot"}
    return words[0] == "bayplan" and words[1] in SERVICES and not short & set(words)


class Reader:
    """A shell in a folder with the files that documents name."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        path = [str(Path(sys.executable).parent), str(HELM.folder), os.environ["PATH"]]
        self.environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "PATH": ":".join(path)}
        shutil.copyfile(plane.kubeconfig, folder / "admin.conf")
        shutil.copyfile(plane.serving.certificate, folder / "tls.crt")
        shutil.copyfile(plane.serving.key, folder / "tls.key")
        shutil.copyfile(plane.authority.certificate, folder / "ca.crt")

    def types(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command that ends by itself."""
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )

    def done(self, command: str) -> str:
        """Run a command that must succeed; what it says."""
        ended = self.types(command)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def cluster_wide(self) -> list[str]:
        """The names of bayplan's objects that belong to no namespace."""
        names = self.done("kubectl get clusterroles,clusterrolebindings,validatingadmissionpolicies -o name")
        return [each for each in names.splitlines() if "bayplan" in each]

    def uninstall(self) -> None:
        """Follow the steps of the documents: manifests first, kinds last."""
        steps = [each for each in COMMANDS if each.startswith("kubectl delete")]
        manifests = [each for each in steps if " -k " in each]
        for command in manifests:
            # There is no controller manager here to empty namespaces.
            self.done(f"{command} --wait=false --ignore-not-found")
        for namespace in (SYSTEM, AGENTS):
            if self.plane.api.exists(f"/api/v1/namespaces/{namespace}"):
                remove_namespace(self.plane.api, namespace)
        for command in (each for each in steps if each not in manifests):
            self.done(f"{command} --ignore-not-found")
        wait_until(lambda: not self.plane.api.exists(POD_GROUPS), "the kind is gone")


@pytest.fixture(scope="module")
def reader(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """On a cluster with the manifests in it."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl")
    # Other tests may have left them.
    remove_kinds(control_plane.api, [crd.stem for crd in (ROOT / "deploy" / "crds").glob("*.yaml")])
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer", "namespace": "monitoring"}}
    control_plane.apply(account)
    found = Reader(control_plane, make_folder(tmp_path_factory.mktemp("reader")))
    if left_by_others := found.cluster_wide():
        found.done(f"kubectl delete {' '.join(left_by_others)}")
    for command in (each for each in COMMANDS if re.match(r"kubectl (create -f|apply)", each)):
        # Pages begin anew with the same steps: what exists already is no error of theirs.
        ended = found.types(command)
        assert ended.returncode == 0 or "AlreadyExists" in ended.stderr, f"{command}\n{ended.stderr}"
    yield found
    # Also if the test that uninstalls runs in another process.
    found.uninstall()
    remove_namespace(control_plane.api, "monitoring")
    if control_plane.api.exists(PACKET_WORKER):
        control_plane.delete(PACKET_WORKER)


def is_answer(command: str) -> bool:
    """It ends by itself and changes nothing."""
    changes = re.match(r"helm |kubectl (create -f|apply|delete|wait)|bayplan place -f pod.yaml", command)
    return not is_service(command) and not changes


@pytest.mark.parametrize("command", [each for each in COMMANDS if is_answer(each)])
def test_a_command_answers(reader: Reader, command: str) -> None:
    ended = reader.types(command.replace("&", "").strip())
    # xargs has a code of its own for commands that answer "no".
    assert ended.returncode in (0, 123 if "xargs" in command else 1), ended.stdout + ended.stderr
    if command.startswith("kubectl"):
        assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("command", [each for each in COMMANDS if is_service(each)])
def test_a_program_becomes_ready_and_ends_when_it_is_asked_to(reader: Reader, command: str) -> None:
    words = shlex.split(command.replace("&", ""))
    option = PORT_OPTION.get(words[1], "--health-address")
    port = free_port()
    more = [option, f"{LOOPBACK}:{port}"] if option else []
    if words[1] == "extender":
        more += ["--address", f"{LOOPBACK}:{free_port()}"]
    over_tls = words[1] != "extender" and "--tls-cert-file" in words  # the extender's health stays plain
    log = reader.folder / "log"

    def is_ready() -> bool:
        if option is None:
            return "nodes" in log.read_text()
        return answers(f"http{'s' if over_tls else ''}://{LOOPBACK}:{port}/readyz")

    with (
        log.open("w") as output,
        subprocess.Popen(
            [*words, *more], cwd=reader.folder, env=reader.environment, stdout=output, stderr=output
        ) as process,
    ):
        try:
            wait_until(lambda: is_ready() or process.poll() is not None, f"{command} is ready", timeout=180)
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()
        assert process.wait(120) == 0, log.read_text()


def answers(address: str) -> bool:
    # The certificate is that of the API server, which names no other program.
    try:
        with urllib.request.urlopen(address, timeout=5, context=ssl._create_unverified_context()) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_everything_is_gone_after_the_steps_to_uninstall(reader: Reader) -> None:
    assert sum(each.startswith("kubectl delete") for each in COMMANDS) >= 4
    reader.uninstall()
    assert reader.cluster_wide() == []


def test_the_chart_is_installed_by_the_command_of_the_page(reader: Reader) -> None:
    if not HELM.is_built and shutil.which("helm") is None:
        pytest.skip("needs helm, on PATH or built by `make controllers`")
    reader.uninstall()
    (command,) = [each for each in COMMANDS if each.startswith("helm install")]
    told_by_notes = reader.done(command)
    assert "bayplan-scheduler" in told_by_notes
    reader.done("helm uninstall bayplan --namespace bayplan-system --wait=false")
    for namespace in (SYSTEM, AGENTS):
        if reader.plane.api.exists(f"/api/v1/namespaces/{namespace}"):
            remove_namespace(reader.plane.api, namespace)
