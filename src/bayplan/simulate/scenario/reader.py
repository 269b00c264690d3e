"""Read a scenario file: the way in to this folder.

In comes a path, out goes a `Scenario` with every node, every pod and every moment decided. All faults of the file and of those it
refers to are raised together, each with file, line and key; what is odd but can be used becomes a remark. The simulation
(`simulate/simulation.py`) is next.
"""

from __future__ import annotations

from pathlib import Path

from bayplan.simulate.scenario.lines import Faults, Section, read_yaml
from bayplan.simulate.scenario.model import Scenario, SimulatedNode, Workload
from bayplan.simulate.scenario.nodes import nodes_of
from bayplan.simulate.scenario.values import duration, duration_of_at_least, text, whole_number
from bayplan.simulate.scenario.workloads import workload_of

KEYS = ("name", "seed", "lasts", "reportDelay", "levels", "nodes", "cluster", "workloads", "trace")
LASTS = 600.0


def read_scenario(path: Path) -> Scenario:
    """The scenario in a file; raises `ScenarioError` with a line for every fault."""
    faults = Faults()
    section = Section(read_yaml(path, faults), KEYS)
    seed = section.take("seed", whole_number(0, 2**63 - 1), 0)
    nodes = _nodes(section)
    workloads = _workloads(section, seed)
    scenario = Scenario(
        name=section.take("name", text, path.stem),
        nodes=tuple(nodes),
        workloads=tuple(workloads),
        seed=seed,
        report_delay=section.take("reportDelay", duration, 0.0),
        lasts=section.take("lasts", duration_of_at_least(1.0), LASTS),
        levels=tuple(section.items("levels", text)),
    )
    faults.check()
    return scenario


def _nodes(section: Section) -> list[SimulatedNode]:
    found: dict[str, SimulatedNode] = {}
    for written, nodes in section.items("nodes", lambda group: (group, nodes_of(group))):
        for node in nodes:
            if node.name in found:
                written.at("name").wrong(f'"{node.name}" is the name of another node')
                break
            found[node.name] = node
    return list(found.values())


def _workloads(section: Section, seed: int) -> list[Workload]:
    found: dict[str, Workload] = {}
    for written, workload in section.items("workloads", lambda entry: (entry, workload_of(entry, seed))):
        if workload is not None and workload.name in found:
            written.at("name").wrong(f'"{workload.name}" is the name of another workload')
        elif workload is not None:
            found[workload.name] = workload
    return list(found.values())
