"""Read a scenario file: the way in to this folder.

In comes a path, out goes a `Scenario` with every node, every pod and every moment decided. All faults of the file and
of those it refers to are raised together, each with file, line and key; what is odd but can be used becomes a remark
(`remarks.py`). The simulation (`simulate/simulation.py`) is next.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from bayplan.cluster.state import pod_key
from bayplan.kube.errors import InvalidObject
from bayplan.simulate.scenario.dump import RecordedCluster, read_cluster
from bayplan.simulate.scenario.gangs import note_what_cannot_be, trees_of
from bayplan.simulate.scenario.lines import Faults, Section, SourcePosition, Wrong, YamlValue, read_yaml
from bayplan.simulate.scenario.manifests import Manifests, is_manifest
from bayplan.simulate.scenario.model import Scenario, SimulatedNode, Workload
from bayplan.simulate.scenario.nodes import nodes_of
from bayplan.simulate.scenario.remarks import remarks_on
from bayplan.simulate.scenario.trace import read_trace
from bayplan.simulate.scenario.values import duration, duration_of_at_least, text, whole_number, yes_or_no
from bayplan.simulate.scenario.workloads import workload_of

KEYS = (
    *("name", "seed", "lasts", "reportDelay", "levels", "preemption", "nodes", "cluster", "groupingRules"),
    *("workloads", "trace"),
)
LASTS = 600.0
LARGEST_SEED = 2**63 - 1
NO_CLUSTER = RecordedCluster((), (), (), ())
# How the simulation calls pods that replace refused ones: upf-0-r1, upf-0-r2, ...
_REPLACEMENT = re.compile(r"-r[1-9][0-9]*$")


def read_scenario(path: Path, seed: int | None = None) -> Scenario:
    """The scenario in a file, with another seed if one is given; raises `ScenarioError` with a line for every fault."""
    faults = Faults()
    section = Section(read_yaml(path, faults), KEYS)
    if not isinstance(section.written.content, dict):
        faults.check()
    written_seed = section.take("seed", whole_number(0, LARGEST_SEED), 0)
    seed = written_seed if seed is None else seed
    recorded = section.take("cluster", _cluster, NO_CLUSTER)
    nodes = _nodes(section, recorded)
    manifests = Manifests(nodes, seed)
    section.take("groupingRules", manifests.add_rules, None)
    workloads = _workloads(section, seed, recorded, manifests)
    scenario = Scenario(
        name=section.take("name", text, path.stem),
        nodes=tuple(nodes),
        workloads=tuple(workload for _, workload in workloads),
        running=recorded.running,
        seed=seed,
        report_delay=section.take("reportDelay", duration, 0.0),
        lasts=section.take("lasts", duration_of_at_least(1.0), LASTS),
        levels=tuple(section.items("levels", text)),
        preemption=section.take("preemption", yes_or_no, default=False),
    )
    _check_gangs(section, scenario, workloads)
    faults.check()
    from_dump = tuple(f"{section.written.at('cluster').place}: {remark}" for remark in recorded.remarks)
    places = {workload.name: place for place, workload in workloads}
    return replace(scenario, remarks=(*from_dump, *manifests.remarks, *remarks_on(scenario, section, places)))


def _check_gangs(section: Section, scenario: Scenario, workloads: list[tuple[SourcePosition, Workload]]) -> None:
    """What a gang asks for must be possible in the tree, of which a workload alone knows nothing."""
    gangs = [(place, workload.together) for place, workload in workloads if workload.together is not None]
    trees = trees_of(scenario.nodes if gangs else (), scenario.levels)
    for place, together in gangs:
        note_what_cannot_be(section.written.at(f"{place.key}.gang"), together, trees)


def _cluster(written: YamlValue) -> RecordedCluster:
    """The recorded cluster at a path that is meant from the scenario's folder."""
    try:
        return read_cluster(written.place.file.parent / text(written))
    except InvalidObject as error:
        raise Wrong(str(error)) from None


def _nodes(section: Section, recorded: RecordedCluster) -> list[SimulatedNode]:
    if section.get("nodes") is None and section.get("cluster") is None:
        section.written.faults.add(section.written.place.child("nodes", 1), "is missing: give nodes, or cluster: FILE")
    found = {node.name: node for node in recorded.nodes}
    for written, nodes in section.items("nodes", lambda group: (group, nodes_of(group))):
        for node in nodes:
            if node.name in found:
                written.at("name").wrong(f'"{node.name}" is the name of another node')
                break
            found[node.name] = node
    return list(found.values())


def _workloads(
    section: Section, seed: int, recorded: RecordedCluster, manifests: Manifests
) -> list[tuple[SourcePosition, Workload]]:
    """Pods that wait in the recorded cluster, then what is written, then the trace; each with the place to name."""
    running = {pod_key(pod) for pod in recorded.running}
    taken = running | {_REPLACEMENT.sub("", key) for key in running}
    found: dict[str, tuple[SourcePosition, Workload]] = {}
    for waiting in recorded.waiting:
        own_name = waiting.name
        while own_name in found or _clashes(waiting, own_name, taken):
            own_name += "-waiting"
        found[own_name] = (section.written.at("cluster").place, replace(waiting, name=own_name))

    def read(entry: YamlValue) -> list[tuple[YamlValue, Workload | None]]:
        if is_manifest(entry):
            return [(entry, each) for each in manifests.workloads_of(entry)]
        return [(entry, workload_of(entry, seed))]

    written = [each for entry in section.items("workloads", read) for each in entry]
    for entry, workload in [*written, *_traced(section)]:
        if workload is None:
            continue
        if workload.name in found:
            entry.at("name").wrong(f'"{workload.name}" is the name of another workload')
        elif _clashes(workload, workload.name, taken):
            entry.at("name").wrong(f'"{workload.name}" would give its pods names that pods of the cluster have')
        else:
            found[workload.name] = (entry.place, workload)
    return list(found.values())


def _traced(section: Section) -> list[tuple[YamlValue, Workload]]:
    """Workloads of the trace, whose path is meant from the scenario's folder."""
    nothing: list[Workload] = []
    return [(section.written.at("trace"), workload) for workload in section.take("trace", _trace, nothing)]


def _trace(written: YamlValue) -> list[Workload]:
    return read_trace(written.place.file.parent / text(written), written.faults)


def _clashes(workload: Workload, own_name: str, taken: set[str]) -> bool:
    """Whether a member, or a pod that replaces it, could be called as a pod that runs already."""
    return any(f"{workload.namespace}/{name}" in taken for name in workload.pod_names(own_name))
