"""The agent on a node that misbehaves: it goes on, says what is wrong once, publishes nothing untrue, and recovers by
itself.

The node is virtual, its socket and files are real; the publisher is a list.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from bayplan.cluster.reports import fingerprint, inventory
from bayplan.services.agent import scanner as scanner_module
from bayplan.services.agent.agent import RETRY, Agent
from bayplan.services.agent.metrics import AgentMetrics
from bayplan.services.agent.report import FingerprintMethod, ReportFormat
from bayplan.services.agent.scanner import Scanner
from bayplan.services.agent.settings import AgentSettings, ReferenceContainer
from bayplan.services.agent.sources import podresources_pb2 as wire
from bayplan.services.agent.sources.own_pods import KnownPods
from bayplan.services.agent.sources.pod_resources import PodPattern
from bayplan.services.agent.sources.wakers import SIGNAL, TIMER, Wakers
from bayplan.services.agent.troubles import Troubles
from bayplan.simulate.kubelet import MachineDevice
from tests.builders.bodies import Json
from tests.builders.objects import GI, GPU, NIC
from tests.closed_loop import attributes_in, columns_of, free_of, settings_for
from tests.scripted_api_server import asynchronous
from tests.unit.simulate.kubelet.nodes import guaranteed, kubelet, machine
from tests.virtual_node import VirtualNode, uid_of

PATIENCE = 1.0


class Reports:
    """Takes the place of the publisher."""

    def __init__(self) -> None:
        self.documents: list[Json] = []
        self.doubts = 0
        self.came = asyncio.Event()

    def doubt(self) -> None:
        self.doubts += 1

    def offer(self, document: Json) -> None:
        self.documents.append(document)
        self.came.set()


class Watched:
    """An agent whose every part can be looked at."""

    def __init__(self, settings: AgentSettings, **more: Any) -> None:
        self.troubles = Troubles()
        self.reports = Reports()
        self.metrics = AgentMetrics(self.troubles)
        self.agent = Agent(Scanner(settings, **more), self.reports, self.troubles, self.metrics)
        self.failed = asyncio.Event()
        self.metrics.failed = self.failed.set  # type: ignore[method-assign]

    async def look(self) -> Json | None:
        """The report of one look, None if there is none."""
        before = len(self.reports.documents)
        await self.agent.look()
        return self.reports.documents[-1] if len(self.reports.documents) > before else None


@pytest.fixture
def node(tmp_path: Path) -> Iterator[VirtualNode]:
    """Two zones of 8 CPUs and 16 GiB, CPU 0 and 1 GiB reserved, a GPU in each; a pod holds 4 CPUs, 4 GiB and a GPU in
    zone 0.
    """
    with VirtualNode(tmp_path, kubelet(machine(gpus=[[0], [1]]))) as virtual:
        virtual.admit("ml/train", guaranteed({"cpu": 4, "memory": "4Gi", GPU: 1}))
        yield virtual


def settings(node: VirtualNode, **more: Any) -> AgentSettings:
    return settings_for(node, patience=PATIENCE, **more)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


@asynchronous
async def test_a_report_shows_the_node_as_its_kubelet_has_it(node: VirtualNode) -> None:
    report = await Watched(settings(node)).look()
    assert report is not None
    assert columns_of(report) == free_of(node.kubelet)
    assert [zone["name"] for zone in report["zones"]] == ["node-0", "node-1"]
    attributes = attributes_in(report)
    assert attributes["topologyManagerPolicy"] == "restricted"
    held = node.kubelet.pods["ml/train"].containers[0].cpus
    assert attributes["bayplan.io/free-cpus"] == inventory.cpu_list(set(range(1, 16)) - set(held))
    assert inventory.read_pods(attributes) == {
        "ml/train": {"cpu": {0: 4000}, "memory": {0: 4 * GI}, GPU: {0: 1}},
    }


# -- faults ----------------------------------------------------------------------------------------------------------


@asynchronous
async def test_a_missing_socket_is_reported_once_and_found_again(
    node: VirtualNode, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(settings(node))
    await watched.look()
    node.server.stop()
    for _ in range(3):
        assert await watched.look() is None
    assert warnings(caplog) == [f"podresources socket {node.socket} is missing"]
    assert watched.troubles.counts["podresources", "missing"] == 3
    assert b'bayplan_agent_trouble{kind="podresources"} 1.0' in watched.metrics.text()
    node.server.start()
    report = await watched.look()
    assert report is not None
    assert columns_of(report) == free_of(node.kubelet)
    assert b'bayplan_agent_trouble{kind="podresources"} 0.0' in watched.metrics.text()


@pytest.mark.parametrize("cause", ["timeout", "unavailable", "resource_exhausted"])
@asynchronous
async def test_a_kubelet_that_does_not_answer_is_waited_for(
    node: VirtualNode, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(settings(node))
    if cause == "timeout":
        node.server.hang()
    elif cause == "unavailable":
        node.server.stop(leave_socket=True)
    else:
        node.server.refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
    for _ in range(2):
        assert await watched.look() is None
    assert len(warnings(caplog)) == 1
    assert watched.troubles.counts == {("podresources", cause): 2}
    node.server.stop()
    node.server.refusal = None
    node.server.start()
    assert await watched.look() is not None


@asynchronous
async def test_a_kubelet_whose_managers_have_not_started_is_waited_for(
    node: VirtualNode, caplog: pytest.LogCaptureFixture
) -> None:
    """It opens its socket first.

    Until its managers run it lists nothing that they hand out, which would read as if no pod held anything.
    """
    watched = Watched(settings(node))
    node.server.managers_started = False
    for _ in range(3):
        assert await watched.look() is None
    (warning,) = warnings(caplog)
    assert warning == (
        "the kubelet has a CPU Manager with policy static and lists no allocatable CPUs: "
        "it is starting, or was not restarted since its configuration changed"
    )
    assert watched.troubles.counts == {("podresources", "starting"): 3}
    assert b'bayplan_agent_trouble{kind="podresources"} 1.0' in watched.metrics.text()
    node.server.managers_started = True
    report = await watched.look()
    assert report is not None
    assert columns_of(report) == free_of(node.kubelet)


@asynchronous
async def test_a_pod_that_vanishes_during_a_look_does_not_spoil_it(node: VirtualNode) -> None:
    """The kubelet answers, then the pod ends and the files change: it is asked again, and what comes out belongs
    together.
    """
    watched = Watched(settings(node))
    real = node.write_state_files
    answered = len(node.server.asked)

    def vanish() -> None:
        if "ml/train" in node.kubelet.pods:
            node.kubelet.remove("ml/train")
            real()

    node.server.after_answer = vanish
    report = await watched.look()
    assert report is not None
    assert columns_of(report) == free_of(node.kubelet)
    assert attributes_in(report)["bayplan.io/pods"] == "{}"
    assert node.server.asked[answered:].count("List") == 2


@asynchronous
async def test_a_kubelet_that_never_stops_is_taken_at_its_newest_word(node: VirtualNode) -> None:
    numbers = iter(range(1000))

    def busy() -> None:
        node.kubelet.admit(f"ml/{next(numbers)}", guaranteed({"cpu": "500m", "memory": "1Mi"}))
        node.write_state_files()

    node.server.after_answer = busy
    assert await Watched(settings(node)).look() is not None
    assert node.server.asked.count("List") == scanner_module.MAX_REQUESTS


@asynchronous
async def test_bogus_zones_of_a_device_plugin_are_ignored(node: VirtualNode, caplog: pytest.LogCaptureFixture) -> None:
    node.devices = {**node.devices, NIC: (MachineDevice("nic-0", (1,)), MachineDevice("nic-1", (7,)))}
    watched = Watched(settings(node))
    for _ in range(3):
        report = await watched.look()
        assert report is not None
        assert {zone: amounts.get(NIC) for zone, amounts in columns_of(report).items()} == {0: None, 1: 1}
    assert warnings(caplog) == [f"device {NIC}: NUMA node 7 does not exist (there are 0-1): ignored"]
    node.devices.pop(NIC)
    await watched.look()
    assert watched.troubles.numbers()["input"] == 0


@pytest.mark.parametrize(
    "file", ["cpu_manager_state", "memory_manager_state", "device-plugins/kubelet_internal_checkpoint"]
)
@asynchronous
async def test_a_truncated_state_file_is_ignored(
    node: VirtualNode, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken = node.state_folder / file
    broken.write_bytes(broken.read_bytes()[:20])
    watched = Watched(settings(node))
    for _ in range(2):
        report = await watched.look()
        assert report is not None
        # The socket knows what the pod holds.
        assert columns_of(report) == free_of(node.kubelet)
    (warning,) = warnings(caplog)
    assert warning.startswith(f"file {broken}: is not valid JSON")


@pytest.mark.parametrize("file", ["cpu_manager_state", "memory_manager_state"])
@asynchronous
async def test_a_replaced_state_file_behind_a_mount_is_ignored(node: VirtualNode, file: str, tmp_path: Path) -> None:
    """A mount of a single file goes on showing what has no name any more: here, that a pod still holds something."""
    old = tmp_path / "old"
    old.write_bytes((node.state_folder / file).read_bytes())
    for pod in list(node.kubelet.pods):
        node.remove(pod)
    with old.open("rb") as mounted:
        old.unlink()
        (node.state_folder / file).unlink()
        (node.state_folder / file).symlink_to(f"/proc/{os.getpid()}/fd/{mounted.fileno()}")
        report = await Watched(settings(node)).look()
    assert report is not None
    assert columns_of(report) == free_of(node.kubelet)


@asynchronous
async def test_without_the_kubelets_configuration_nothing_is_published(
    node: VirtualNode, caplog: pytest.LogCaptureFixture
) -> None:
    """A report without its policy would read as policy none: every pod fits."""
    text = node.config_file.read_text()
    node.config_file.write_text("topologyManagerPolicy: best-efort")
    watched = Watched(settings(node))
    assert await watched.look() is None
    assert await watched.look() is None
    (warning,) = warnings(caplog)
    assert f'({node.config_file}:1:1): topologyManagerPolicy: "best-efort": must be one of' in warning
    node.config_file.write_text(text)
    assert await watched.look() is not None


@asynchronous
async def test_a_configuration_that_was_known_is_kept(node: VirtualNode, caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(settings(node))
    await watched.look()
    text = node.config_file.read_text()
    node.config_file.unlink()
    report = await watched.look()
    assert report is not None
    assert attributes_in(report)["topologyManagerPolicy"] == "restricted"
    assert warnings(caplog) == [f"kubelet configuration: file {node.config_file}: does not exist"]
    # It is a trouble of its own kind, so that `/readyz` names it.
    assert watched.troubles.current["kubelet-config"].cause == "unreadable"
    node.config_file.write_text(text)
    await watched.look()
    assert not watched.troubles.current


@asynchronous
async def test_a_changed_configuration_is_noticed(node: VirtualNode) -> None:
    watched = Watched(settings(node))
    await watched.look()
    node.config_file.write_text(node.config_file.read_text().replace("restricted", "best-effort"))
    report = await watched.look()
    assert report is not None
    assert attributes_in(report)["topologyManagerPolicy"] == "best-effort"


@asynchronous
async def test_a_policy_that_was_set_by_flags_is_known_from_the_state_files(
    node: VirtualNode, caplog: pytest.LogCaptureFixture
) -> None:
    """The file alone says that no manager is static; what runs is."""
    truth = attributes_in(await Watched(settings(node)).look() or {})
    text = node.config_file.read_text()
    node.config_file.write_text(text.replace("static", "none").replace("Static", "None"))
    watched = Watched(settings(node))
    for _ in range(2):
        report = await watched.look()
        assert report is not None
        told = attributes_in(report)
        assert {name: told[name] for name in told if "Manager" in name} == {
            name: truth[name] for name in truth if "Manager" in name
        }
    assert [warning.partition(":")[0] for warning in warnings(caplog)] == [
        "cpu_manager_state says policy static, the kubelet's configuration does not",
        "memory_manager_state says policy Static, the kubelet's configuration does not",
    ]


@asynchronous
async def test_an_unreadable_sysfs_is_no_reason_to_end(node: VirtualNode, caplog: pytest.LogCaptureFixture) -> None:
    shutil.move(node.sysfs, node.folder / "away")
    watched = Watched(settings(node))
    assert await watched.look() is None
    assert len(warnings(caplog)) == 1
    shutil.move(node.folder / "away", node.sysfs)
    assert await watched.look() is not None


@asynchronous
async def test_a_bug_is_logged_once_with_its_traceback(
    node: VirtualNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(settings(node))
    with monkeypatch.context() as broken:
        broken.setattr(scanner_module, "account", lambda *_: int("?"))
        for _ in range(3):
            assert await watched.look() is None
    assert warnings(caplog) == [
        "a bug in the agent, please report it: ValueError: invalid literal for int() with base 10: '?'"
    ]
    assert caplog.text.count("Traceback") == 1
    assert await watched.look() is not None
    assert not watched.troubles.current


# -- what it notices -------------------------------------------------------------------------------------------------


@asynchronous
async def test_devices_that_register_late_appear(node: VirtualNode) -> None:
    watched = Watched(settings(node))
    await watched.look()
    node.devices = {**node.devices, NIC: (MachineDevice("nic-0", (1,)),)}
    report = await watched.look()
    assert report is not None
    assert columns_of(report)[1][NIC] == 1


@asynchronous
async def test_it_looks_by_itself_when_the_kubelet_writes_its_files(node: VirtualNode) -> None:
    watched = Watched(settings(node))
    async with Wakers(node.state_folder, socket=node.socket, interval=0, calm=0.02, signals=()) as wakers:
        running = asyncio.create_task(watched.agent.run(wakers))
        await watched.reports.came.wait()
        watched.reports.came.clear()
        node.admit("ml/second", guaranteed({"cpu": 2, "memory": "1Gi"}))
        await watched.reports.came.wait()
        running.cancel()
    assert columns_of(watched.reports.documents[-1]) == free_of(node.kubelet)


@asynchronous
async def test_a_signal_makes_it_look_and_write_in_any_case(node: VirtualNode) -> None:
    watched = Watched(settings(node))
    async with Wakers(None, interval=0, calm=0.02, signals=()) as wakers:
        running = asyncio.create_task(watched.agent.run(wakers))
        for doubts, reason in enumerate((SIGNAL, TIMER)):
            await watched.reports.came.wait()
            watched.reports.came.clear()
            assert watched.reports.doubts == doubts
            wakers.wake(reason)
        await watched.reports.came.wait()
        running.cancel()
    assert watched.reports.doubts == 1


@asynchronous
async def test_failures_do_not_pile_up_retries(node: VirtualNode) -> None:
    node.server.stop()
    watched = Watched(settings(node))
    async with Wakers(None, interval=0, calm=0.01, signals=()) as wakers:
        running = asyncio.create_task(watched.agent.run(wakers))
        for _ in range(10):
            await watched.failed.wait()
            watched.failed.clear()
            wakers.wake(TIMER)
        loop: Any = asyncio.get_running_loop()
        waiting = [timer for timer in loop._scheduled if not timer.cancelled() and RETRY in (timer._args or ())]
        running.cancel()
    assert len(waiting) == 1


@asynchronous
async def test_it_recovers_by_itself_when_the_kubelet_comes_back(node: VirtualNode) -> None:
    node.server.stop()
    watched = Watched(settings(node))
    async with Wakers(node.state_folder, socket=node.socket, interval=0, calm=0.02, signals=()) as wakers:
        running = asyncio.create_task(watched.agent.run(wakers))
        await watched.failed.wait()
        node.server.start()
        await watched.reports.came.wait()
        running.cancel()
    assert not watched.troubles.current


@asynchronous
async def test_pods_that_have_ended_are_not_counted_although_the_kubelet_lists_them(node: VirtualNode) -> None:
    ended = KnownPods(frozenset(), frozenset({uid_of("ml/train")}), frozenset({("ml", "train")}))
    report = await Watched(settings(node), known_pods=lambda: ended).look()
    assert report is not None
    node.kubelet.remove("ml/train")
    assert columns_of(report) == free_of(node.kubelet)


@asynchronous
async def test_claims_are_counted_for_the_metric(node: VirtualNode) -> None:
    claim = wire.DynamicResource(claim_namespace="ml", claim_name="gpu")
    main = wire.ContainerResources(name="main", dynamic_resources=[claim])
    node.server.more_pods = [wire.PodResources(name="dra", namespace="ml", containers=[main])]
    watched = Watched(settings(node))
    await watched.look()
    assert b"bayplan_agent_resource_claims 1.0" in watched.metrics.text()


# -- without a socket ------------------------------------------------------------------------------------------------


@asynchronous
async def test_state_files_stand_in_where_there_never_was_a_socket(
    node: VirtualNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.server.stop()
    times = iter([0.0, 30.0, 90.0, 91.0])
    watched = Watched(settings(node), clock=lambda: next(times))
    # At first it may be a kubelet that restarts.
    assert await watched.look() is None
    report = await watched.look()
    assert report is not None
    truth = free_of(node.kubelet)
    assert columns_of(report) == {
        zone: {name: amount for name, amount in amounts.items() if name != GPU} for zone, amounts in truth.items()
    }
    # It does not know the pods' names, and does not say that there are none.
    assert not {inventory.PODS, fingerprint.ATTRIBUTE} & set(attributes_in(report))
    assert "there is no podresources socket" in warnings(caplog)[-1]


@pytest.mark.parametrize("file, held", [("cpu_manager_state", "CPUs"), ("memory_manager_state", "memory")])
@pytest.mark.parametrize("damage", ["cut off", "gone"])
@asynchronous
async def test_without_a_socket_an_unreadable_state_file_fails_the_scan(
    node: VirtualNode, file: str, held: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A report that shows as free what a pod holds would be worse than none."""
    state_file = node.state_folder / file
    text = state_file.read_bytes()
    if damage == "cut off":
        state_file.write_bytes(text[:20])
    else:
        state_file.unlink()
    watched = Watched(replace(settings(node), socket=None))
    for _ in range(2):
        assert await watched.look() is None
    (warning,) = warnings(caplog)
    assert warning.startswith(f"no podresources socket is given, and it is unknown which pods hold {held}: ")
    assert (str(node.state_folder) in warning, file in warning) == (True, True)
    state_file.write_bytes(text)
    assert await watched.look() is not None


@asynchronous
async def test_without_socket_and_memory_manager_no_memory_is_reported(node: VirtualNode) -> None:
    (node.state_folder / "memory_manager_state").unlink()
    node.config_file.write_text(node.config_file.read_text().replace("Static", "None"))
    report = await Watched(replace(settings(node), socket=None)).look()
    assert report is not None
    assert [sorted(amounts) for amounts in columns_of(report).values()] == [["cpu"], ["cpu"]]


@asynchronous
async def test_memory_notes_of_another_machine_are_ignored(node: VirtualNode, caplog: pytest.LogCaptureFixture) -> None:
    state_file = node.state_folder / "memory_manager_state"
    state_file.write_text(state_file.read_text().replace('"1": {', '"5": {'))
    report = await Watched(settings(node)).look()
    assert report is not None
    assert columns_of(report) == free_of(node.kubelet)
    (warning,) = warnings(caplog)
    assert warning.startswith("memory_manager_state: NUMA node 5 does not exist (there are 0-1); ignored")


# -- settings --------------------------------------------------------------------------------------------------------


@asynchronous
async def test_resources_and_pods_can_be_left_out(node: VirtualNode) -> None:
    without = settings(node, excluded_resources=frozenset({GPU}), excluded_pods=(PodPattern("ml", "tr*"),))
    report = await Watched(without).look()
    assert report is not None
    assert columns_of(report)[0] == {"cpu": 7000, "memory": 15 * GI}
    assert attributes_in(report)["bayplan.io/pods"] == "{}"


@asynchronous
async def test_one_namespace_can_be_counted_alone(node: VirtualNode) -> None:
    report = await Watched(settings(node, namespace="web")).look()
    assert report is not None
    assert columns_of(report)[0]["cpu"] == 7000


@pytest.mark.parametrize(
    "method, value",
    [
        (FingerprintMethod.EXCLUSIVE, "with-exclusive-resources"),
        (FingerprintMethod.ALL, "all"),
        (None, None),
    ],
)
@asynchronous
async def test_the_fingerprint_names_its_method(
    node: VirtualNode, method: FingerprintMethod | None, value: str | None
) -> None:
    report = await Watched(settings(node, fingerprint=method)).look()
    assert report is not None
    attributes = attributes_in(report)
    assert attributes.get(fingerprint.METHOD_ATTRIBUTE) == value
    assert (fingerprint.ATTRIBUTE in attributes) == (value is not None)


@asynchronous
async def test_a_reference_container_shows_the_shared_pool(node: VirtualNode) -> None:
    """Kubelets before v1.22 list the shared pool for containers without CPUs of their own."""
    pool = sorted(set(range(1, 16)) - set(node.kubelet.pods["ml/train"].containers[0].cpus))
    main = wire.ContainerResources(name="main", cpu_ids=pool)
    node.server.more_pods = [wire.PodResources(name="web", namespace="web", containers=[main])]
    told = settings(node, reference_container=ReferenceContainer("web", "web", "main"))
    report = await Watched(told).look()
    assert report is not None
    assert columns_of(report) == free_of(node.kubelet)


@pytest.mark.parametrize(
    "report_format, version",
    [
        (ReportFormat.V1ALPHA1, "topology.node.k8s.io/v1alpha1"),
        (ReportFormat.NUMATOPOLOGY, "nodeinfo.volcano.sh/v1alpha1"),
    ],
)
@asynchronous
async def test_other_formats(node: VirtualNode, report_format: ReportFormat, version: str) -> None:
    report = await Watched(settings(node, report_format=report_format)).look()
    assert report is not None
    assert report["apiVersion"] == version


def test_the_agent_stays_small() -> None:
    """Arrays, pictures and simulations are for schedulers and people: they would cost a third of the agent's memory."""
    script = (
        "import sys, bayplan.services.agent.run, bayplan.cli.services.agent; "
        "bayplan.cli.services.agent.duration_of('--interval', '60s'); "
        "sys.exit(', '.join({'numpy', 'rich', 'bayplan.simulate'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
