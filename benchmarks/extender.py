"""What the extender adds to a scheduling cycle: filter and prioritize, for names and whole nodes, beside an extender
that does nothing; then pods per second of the stock scheduler without an extender and with each
(`extender_throughput.py`).

A cycle is what the stock scheduler sends for one pod: filter, prioritize, bind, over one connection, with the nodes in
another order each time. Latency is what the client waits for the first two. Both servers run at the same time and take
turns, so that a busy machine disturbs both alike; their CPU time it disturbs hardly.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from benchmarks import extender_throughput
from benchmarks.clusters import node, pod
from benchmarks.measure import report

SIZES = (1000, 5000)
# Cycles of a measurement by form; whole nodes take far longer.
CYCLES = {"names": 300, "objects": 25}
WARM_UP = 10
# Three kinds of pods in turn: a workload of replicas has few classes.
SHAPES: tuple[dict[str, Any], ...] = (
    {"cpu": 1, "memory": "1Gi"},
    {"cpu": 2, "memory": "4Gi"},
    {"cpu": 4, "memory": "8Gi"},
)


def run() -> None:
    """All sizes and forms, then the throughput."""
    for nodes in SIZES:
        for form in CYCLES:
            _compare(nodes, form)
    extender_throughput.run()


@dataclass(slots=True)
class _Server:
    """A server and what it was measured with: seconds of each cycle for the client, and of its own CPU."""

    pid: int
    connection: http.client.HTTPConnection
    latencies: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def _compare(nodes: int, form: str) -> None:
    with _server("noop", nodes) as noop, _server("bayplan", nodes) as ours:
        for number in range(-WARM_UP, CYCLES[form]):
            cycle = _cycle(WARM_UP + number, nodes, form)
            for server in (noop, ours):
                latency, cpu = _ask(server, cycle, number)
                if number >= 0:
                    server.latencies.append(latency)
                    server.cpu.append(cpu)
    for kind, server in (("no-op", noop), ("bayplan", ours)):
        name = f"extender: {nodes} {form}, {kind}: filter and prioritize"
        for percent in (50, 99):
            report(f"{name} p{percent}", _percentile(server.latencies, percent) * 1e3, "ms")
        report(f"{name}, CPU time", _percentile(server.cpu, 50) * 1e3, "ms")
        report(f"{name}", 2 * len(server.latencies) / sum(server.latencies), "requests/s")
    for what, percent, of_ours, of_noop in (
        ("latency p50", 50, ours.latencies, noop.latencies),
        ("latency p99", 99, ours.latencies, noop.latencies),
        ("CPU time", 50, ours.cpu, noop.cpu),
    ):
        ratio = _percentile(of_ours, percent) / _percentile(of_noop, percent)
        report(f"extender: {nodes} {form}: {what} over no-op's", ratio, "times")


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[(len(values) - 1) * percent // 100]


@contextmanager
def _server(kind: str, nodes: int) -> Iterator[_Server]:
    with extender_throughput.server_process(kind, nodes) as (pid, port):
        yield _Server(pid, http.client.HTTPConnection("127.0.0.1", port))


def _cycle(number: int, nodes: int, form: str) -> tuple[bytes, dict[str, str]]:
    """The body of filter and prioritize, and the bind without its node."""
    written = msgspec.to_builtins(pod(f"pod-{number}", **SHAPES[number % len(SHAPES)]))
    written["metadata"] |= {"uid": f"uid-{number}", "namespace": "default"}
    names = [f"node-{row}" for row in range(nodes)]
    Random(number).shuffle(names)
    body: dict[str, Any] = {"Pod": written, "Nodes": None, "NodeNames": names}
    if form == "objects":
        body |= {"Nodes": {"items": [node(name) for name in names]}, "NodeNames": None}
    bind = {"PodName": f"pod-{number}", "PodNamespace": "default", "PodUID": f"uid-{number}"}
    return msgspec.json.encode(body), bind


def _ask(server: _Server, cycle: tuple[bytes, dict[str, str]], number: int) -> tuple[float, float]:
    """Seconds for filter and prioritize: as the client sees them, and of the server's CPU."""
    body, bind = cycle
    began, cpu = time.perf_counter(), _cpu_seconds(server.pid)
    _post(server.connection, "/filter", body)
    answer = _post(server.connection, "/prioritize", body)
    took = time.perf_counter() - began, _cpu_seconds(server.pid) - cpu
    scores = json.loads(answer)
    chosen = {**bind, "Node": scores[number * 7 % len(scores)]["Host"]}
    bound = json.loads(_post(server.connection, "/bind", json.dumps(chosen).encode()))
    assert bound == {"Error": ""}, bound
    return took


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process with one busy thread, in nanoseconds where `Program.cpu_seconds` counts ticks."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def _post(connection: http.client.HTTPConnection, path: str, body: bytes) -> bytes:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    assert response.status == 200, answer[:200]
    return answer
