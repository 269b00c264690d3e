"""Run the measurements: `python -m benchmarks [NAME ...]`, a name being the start of a group
(engine, placement, ...).
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks import (
    agent,
    attacks,
    client,
    commands,
    engine,
    extender,
    gangs,
    peers,
    placement,
    planted_gangs,
    preemption,
    preemption_throughput,
    queue,
    relations,
    replay,
    scheduler,
    simulation,
    sizing,
    slots,
    soak,
    virtual_kubelet,
    web,
    web_load,
)

GROUPS = {
    "engine": engine.run,
    "placement": placement.run,
    "relations": relations.run,
    "replay": replay.run,
    "slots": slots.run,
    "gangs": gangs.run,
    "planted-gangs": planted_gangs.run,
    "preemption": preemption.run,
    "preemption-throughput": preemption_throughput.run,
    "queue": queue.run,
    "virtual-kubelet": virtual_kubelet.run,
    "simulation": simulation.run,
    "agent": agent.run,
    "client": client.run,
    "scheduler": scheduler.run,
    "extender": extender.run,
    "commands": commands.run,
    "web": web.run,
    "web-load": web_load.run,
    "web-scheduler": web_load.run_scheduler,
}

# These take long, or are parts of others, and run only when they are named.
BY_NAME = {
    "attacks": attacks.run,
    "peers": peers.run,
    "scheduler-cases": scheduler.run_cases,
    "scheduler-start": scheduler.run_start,
    "sizing": sizing.run,
    "soak": soak.run,
}


def main(chosen: list[str]) -> int:
    """Run the chosen groups, or all of them."""
    groups = GROUPS | BY_NAME
    unknown = [name for name in chosen if name not in groups]
    if unknown:
        print(f"no such group: {', '.join(unknown)}; there are {', '.join(groups)}", file=sys.stderr)
        return 2
    for name in chosen or GROUPS:
        groups[name]()
    return 0


sys.exit(main(sys.argv[1:]))
