"""The node agent: what a look costs, how often and how much it writes, how much memory and CPU it takes.

`scan` is one look over the socket at 110 pods on a node with 2 and with 8 zones, CPU time of the agent only;
`scan-anew` reads sysfs and the kubelet's configuration too, on 256 CPUs. `writes` and `bytes` are those of one hour on
a node where nothing happens and on one where a pod comes or goes every ten seconds; `every-event` is what an agent
writes that writes at each event, as those in use today do: the timer of a minute and every state file that is replaced.
`memory` and `idle` are of the program on a node with 256 CPUs, 8 zones and 110 pods; the first after pods came and went
for a while.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

from aiohttp import web

from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy
from bayplan.kube.client.client import KubeClient
from bayplan.kube.wire.core_v1 import Metadata, Node
from bayplan.services.agent.publisher import Publisher
from bayplan.services.agent.scanner import Scanner
from bayplan.services.agent.troubles import Troubles
from bayplan.simulate.kubelet import Cpu, KubeletConfiguration, Machine, MachineDevice, MachineZone, VirtualKubelet
from benchmarks.clusters import GIB
from benchmarks.measure import median_seconds, report
from tests.builders.bodies import Json
from tests.builders.objects import GPU
from tests.closed_loop import settings_for
from tests.unit.simulate.kubelet.nodes import guaranteed
from tests.virtual_node import VirtualNode, state_files

PODS = 110
POD_BYTES = 8000
CPUS = 256
PLAIN = guaranteed({"cpu": 2, "memory": "1Gi"})
WITH_GPU = guaranteed({"cpu": 2, "memory": "1Gi", GPU: 1})
HOUR = 3600
TIMER = 60
BETWEEN_PODS = 10
IDLE_SECONDS = 125.0  # two timers
CHURN = 60
PROGRAM = "import sys; from bayplan.cli.main import main; sys.exit(main())"
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def run() -> None:
    """Print all figures of this group."""
    for zones in (2, 8):
        with tempfile.TemporaryDirectory() as folder, VirtualNode(Path(folder) / "n1", kubelet(zones)) as node:
            fill(node, PODS)
            with asyncio.Runner() as runner:
                scanner = Scanner(settings_for(node))
                for name, rescan in (("scan", False), ("scan-anew", True)):
                    once = partial(look, runner, scanner, rescan=rescan)
                    report(f"agent/{name}/{PODS}-pods/{zones}-zones", median_seconds(once) * 1e3, "ms")
                _hours(runner, node, zones)
    asyncio.run(_program())


def look(runner: asyncio.Runner, scanner: Scanner, *, rescan: bool) -> None:
    """One look, in an event loop that is kept."""
    runner.run(scanner.scan(rescan=rescan))


def kubelet(zones: int) -> VirtualKubelet:
    """256 CPUs in so many zones on two sockets, two threads a core, 8 GPUs; static managers."""
    cores = CPUS // 2
    per_zone = cores // zones
    machine = Machine(
        zones=tuple(
            MachineZone(zone, 128 * GIB, distances=tuple(10 if other == zone else 21 for other in range(zones)))
            for zone in range(zones)
        ),
        cpus=tuple(
            Cpu(core=core, socket=core * 2 // cores, zone=core // per_zone, cache=core // 8)
            for core in (cpu % cores for cpu in range(CPUS))
        ),
        devices={GPU: tuple(MachineDevice(f"gpu-{number}", (number % zones,)) for number in range(8))},
    )
    settings = KubeletSettings(policy=Policy.BEST_EFFORT, cpu_static=True, memory_static=True)
    return VirtualKubelet(
        machine,
        KubeletConfiguration(
            settings, reserved_cpus=frozenset({0, cores}), reserved_memory={0: {"memory": GIB}}, most_pods=250
        ),
    )


def fill(node: VirtualNode, count: int) -> None:
    """Pods of two CPUs and a GiB; a few of them have a GPU."""
    for number in range(count):
        admission = node.kubelet.admit(f"default/pod-{number}", WITH_GPU if number % 20 == 0 else PLAIN)
        assert admission.admitted, admission
    node.write_state_files()


# -- an hour ---------------------------------------------------------------------------------------------------------


class _Counting:
    """An API server that counts what it is sent."""

    def __init__(self) -> None:
        self.writes = 0
        self.bytes = 0

    async def get(self, _resource: object, name: str) -> Node:
        return Node(metadata=Metadata(name=name, uid="1"))

    async def patch(self, _resource: object, _name: str, body: bytes, **_how: Any) -> bytes:
        self.writes += 1
        self.bytes += len(body)
        return b"{}"


def _hours(runner: asyncio.Runner, node: VirtualNode, zones: int) -> None:
    for name, between in (("idle", 0), ("busy", BETWEEN_PODS)):
        ours, theirs = runner.run(_hour(node, between))
        for who, server in (("agent", ours), ("every-event", theirs)):
            report(f"agent/writes-an-hour/{name}/{who}/{zones}-zones", server.writes, "writes")
            report(f"agent/bytes-an-hour/{name}/{who}/{zones}-zones", server.bytes / 1e6, "MB")


async def _hour(node: VirtualNode, between_pods: int) -> tuple[_Counting, _Counting]:
    """One hour; pods come and go in pairs, so that the node stays as full as it was."""
    random = Random(1)
    ours, theirs = _Counting(), _Counting()
    clock = 0.0
    publisher = Publisher(cast("KubeClient", ours), "n1", Troubles(), clock=lambda: clock, chance=lambda: 0.5)
    scanner = Scanner(settings_for(node))
    for second in range(HOUR):
        clock = float(second)
        files = 0
        if between_pods and second % between_pods == 5:
            files = _one_pod_more_or_less(node, random)
        if not files and second % TIMER:
            continue
        scan = await scanner.scan(rescan=second == 0)
        publisher.offer(scan.document)
        await publisher.write()
        for _ in range(files + (second % TIMER == 0)):
            other = Publisher(cast("KubeClient", theirs), "n1", Troubles())
            other.offer(scan.document)
            await other.write()
    return ours, theirs


def _one_pod_more_or_less(node: VirtualNode, random: Random) -> int:
    """A pod goes or comes; gives how many state files the kubelet replaced."""
    before = state_files(node.kubelet)
    if len(node.kubelet.pods) >= PODS:
        node.remove(random.choice(sorted(node.kubelet.pods)))
    else:
        node.admit(f"default/new-{random.getrandbits(32)}", WITH_GPU if random.random() < 0.05 else PLAIN)
    after = state_files(node.kubelet)
    return sum(before[name] != after[name] for name in before)


# -- the program -----------------------------------------------------------------------------------------------------


async def _program() -> None:
    """Memory and CPU of `bayplan agent`, as deploy/agent starts it, at a server that takes everything and knows the
    node's pods.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        if request.path == "/api/v1/pods":
            return await _quiet_watch(request) if "watch" in request.query else web.json_response(_pod_list())
        return web.json_response({"metadata": {"name": "n1", "uid": "1"}})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    server = web.AppRunner(application, shutdown_timeout=0.1)
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", 0).start()
    with tempfile.TemporaryDirectory() as folder, VirtualNode(Path(folder) / "n1", kubelet(8)) as node:
        fill(node, PODS)
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(_kubeconfig(server.addresses[0][1]))
        process = await asyncio.create_subprocess_exec(
            *_command(node, kubeconfig), env={**os.environ, "MALLOC_ARENA_MAX": "1"}, stderr=subprocess.DEVNULL
        )
        try:
            await asyncio.sleep(8)
            random = Random(2)
            for _ in range(CHURN):
                _one_pod_more_or_less(node, random)
                await asyncio.sleep(0.5)
            await asyncio.sleep(3)
            report("agent/memory/256-cpus", _status(process.pid, "VmHWM") / 1024, "MiB")
            before = _cpu_seconds(process.pid)
            await asyncio.sleep(IDLE_SECONDS)
            report("agent/idle-cpu/256-cpus", 100 * (_cpu_seconds(process.pid) - before) / IDLE_SECONDS, "% of a CPU")
            assert process.returncode is None
        finally:
            process.terminate()
            await process.wait()
    await server.cleanup()


async def _quiet_watch(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.sleep(float(request.query["timeoutSeconds"]))
    return response


def _pod_list() -> Json:
    """As many pods as the node has, each as large as pods usually are."""
    rest = {"containers": "x" * POD_BYTES}
    pods = [
        {"metadata": {"name": f"p{number}", "namespace": "default", "uid": f"u{number}"}, "spec": rest}
        for number in range(PODS)
    ]
    return {"metadata": {"resourceVersion": "1"}, "items": pods}


def _command(node: VirtualNode, kubeconfig: Path) -> list[str]:
    return [
        *(sys.executable, "-c", PROGRAM, "agent", "--node-name=n1", "--health-address=127.0.0.1:0"),
        *(f"--sysfs-root={node.sysfs}", f"--kubelet-state-dir={node.state_folder}"),
        *(f"--kubelet-config={node.config_file}", f"--podresources-socket={node.socket}", f"--kubeconfig={kubeconfig}"),
    ]


def _kubeconfig(port: int) -> str:
    return (
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
    )


def _status(pid: int, field: str) -> int:
    """A figure of /proc/PID/status, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND
