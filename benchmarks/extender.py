"""What the extender adds to a scheduling cycle: filter and prioritize, for names and whole nodes, beside an extender
that does nothing.

A cycle is what the stock scheduler sends for one pod: filter, prioritize, bind, over one connection. Latency is what
the client waits for the first two. The servers' CPU time is what a busy machine does not disturb, so the ratio to the
no-op extender is taken from it.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.clusters import node, pod
from benchmarks.measure import report
from benchmarks.scheduler_contestants import Program

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
    """All sizes and forms."""
    for nodes in SIZES:
        for form in CYCLES:
            noop = _measured("noop", nodes, form)
            ours = _measured("bayplan", nodes, form)
            report(f"extender: {nodes} {form}: CPU time of filter and prioritize over no-op's", ours / noop, "times")


def _measured(kind: str, nodes: int, form: str) -> float:
    """The server's CPU seconds for filter and prioritize."""
    with _server(kind, nodes) as (program, connection):
        cycles = [_cycle(number, nodes, form) for number in range(WARM_UP + CYCLES[form])]
        for cycle in cycles[:WARM_UP]:
            _ask(connection, cycle, 0, program.pid)
        began = time.perf_counter()
        asked = [_ask(connection, cycle, number, program.pid) for number, cycle in enumerate(cycles[WARM_UP:])]
        took = time.perf_counter() - began
    latencies = sorted(latency for latency, _ in asked)
    cpu = statistics.median(seconds for _, seconds in asked)
    name = f"extender: {nodes} {form}, {kind}"
    report(f"{name}: filter and prioritize p50", statistics.median(latencies) * 1e3, "ms")
    report(f"{name}: filter and prioritize p99", latencies[int(0.99 * (len(latencies) - 1))] * 1e3, "ms")
    report(f"{name}: requests", 3 * len(latencies) / took, "/s")
    report(f"{name}: filter and prioritize, CPU time", cpu * 1e3, "ms")
    return cpu


@contextmanager
def _server(kind: str, nodes: int) -> Iterator[tuple[Program, http.client.HTTPConnection]]:
    command = [sys.executable, "-m", "benchmarks.extender_servers", kind, str(nodes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            yield Program(server.pid), http.client.HTTPConnection("127.0.0.1", port)
        finally:
            server.kill()


def _cycle(number: int, nodes: int, form: str) -> tuple[bytes, dict[str, str]]:
    """The body of filter and prioritize, and the bind without its node."""
    written = msgspec.to_builtins(pod(f"pod-{number}", **SHAPES[number % len(SHAPES)]))
    written["metadata"] |= {"uid": f"uid-{number}", "namespace": "default"}
    names = [f"node-{row}" for row in range(nodes)]
    body: dict[str, Any] = {"Pod": written, "Nodes": None, "NodeNames": names}
    if form == "objects":
        body |= {"Nodes": {"items": [node(name) for name in names]}, "NodeNames": None}
    bind = {"PodName": f"pod-{number}", "PodNamespace": "default", "PodUID": f"uid-{number}"}
    return json.dumps(body).encode(), bind


def _ask(
    connection: http.client.HTTPConnection, cycle: tuple[bytes, dict[str, str]], number: int, server: int
) -> tuple[float, float]:
    """Seconds for filter and prioritize: as the client sees them, and of the server's CPU."""
    body, bind = cycle
    began, cpu = time.perf_counter(), _cpu_seconds(server)
    _post(connection, "/filter", body)
    answer = _post(connection, "/prioritize", body)
    took = time.perf_counter() - began, _cpu_seconds(server) - cpu
    scores = json.loads(answer)
    chosen = {**bind, "Node": scores[number * 7 % len(scores)]["Host"]}
    bound = json.loads(_post(connection, "/bind", json.dumps(chosen).encode()))
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
