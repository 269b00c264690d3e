"""The nodes on the page: every node as a small cell, and the NUMA maps of a few nodes under two schedulers.

In comes a `Comparison`; out go the parts of `page.py` that show where in the cluster something was refused. The maps
are those of `bayplan numa`, of nodes on which the schedulers differ most.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.pods.request import CPU
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import ClusterState
from bayplan.explain.numa.map import numa_map
from bayplan.explain.numa.svg import numa_svg
from bayplan.explain.theme import PAGE
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.simulate.results.comparison import Comparison
from bayplan.simulate.results.markup import Markup, element, joined
from bayplan.simulate.results.numbers import counted, number, percent
from bayplan.simulate.run import Run
from bayplan.simulate.scenario.model import Scenario, SimulatedNode

MOST_MAPS = 3
# From here on cells are small and hold no numbers; more nodes than the second would only make the page large.
MANY_NODES = 300
MOST_NODES = 5000
# A node with more than this share of its CPUs in use gets the first shade, the second, ...
SHADES = (0.0, 0.25, 0.5, 0.75)


def overview(comparison: Comparison) -> Markup:
    """Every node under every scheduler: shaded by the CPUs in use, marked where kubelets refused pods.

    One line is one rack or group of nodes, so that it stands beside itself under the other schedulers.
    """
    nodes, runs = comparison.scenario.nodes, comparison.runs
    small = len(nodes) > MANY_NODES
    lines = [
        element("tr", element("th", name, scope="row"), *(_nodes(run, members, small=small) for run in runs))
        for name, members in grouped(comparison.scenario).items()
    ]
    names = [element("th", run.scheduler, scope="col") for run in runs]
    table = joined(element("thead", element("tr", element("td"), *names)), element("tbody", *lines))
    shown = f"; these are the first {number(MOST_NODES)} of {number(len(nodes))}" if len(nodes) > MOST_NODES else ""
    explained = element("p", f"One cell is one node{shown}.", class_="dim")
    scrolling = element("div", element("table", table, class_="nodes small" if small else "nodes"), class_="scroll")
    return joined(explained, scrolling, _legend(small=small))


def grouped(scenario: Scenario) -> dict[str, list[SimulatedNode]]:
    """The nodes that are shown, by their place in the topology where the scenario names levels, else by their group."""
    levels = [level for level in scenario.levels if level != HOSTNAME]
    groups: dict[str, list[SimulatedNode]] = {}
    for node in scenario.nodes[:MOST_NODES]:
        place = " / ".join(node.labels[level] for level in levels if level in node.labels)
        groups.setdefault(place or node.group, []).append(node)
    return groups


def numa_maps(comparison: Comparison) -> Markup:
    """Some nodes at the end: under the scheduler that lost most pods, and under the one the answer is about."""
    worst = max(comparison.others, key=lambda run: run.refusals_in_all, default=None)
    runs = [comparison.judged] if worst is None else [worst, comparison.judged]
    rows = []
    for node in nodes_that_differ(comparison.scenario, runs):
        figures = [_map(run, node) for run in runs]
        if all(figures):
            rows.append(element("div", *figures, class_="maps"))
    return joined(*rows)


def nodes_that_differ(scenario: Scenario, runs: Sequence[Run]) -> list[str]:
    """One node for each group, the groups with most refusals first: where most was refused, else where use differs
    most.
    """

    def difference(node: SimulatedNode) -> tuple[int, float]:
        uses = [cpu_share(run.state, node.name) for run in runs]
        return max(run.refused_by_node.get(node.name, 0) for run in runs), max(uses) - min(uses)

    best: dict[str, SimulatedNode] = {}
    for node in scenario.nodes:
        if node.group not in best or difference(node) > difference(best[node.group]):
            best[node.group] = node
    chosen = [node for node in best.values() if difference(node) > (0, 0.0) or len(runs) == 1]
    return [node.name for node in sorted(chosen, key=difference, reverse=True)[:MOST_MAPS]]


def cpu_share(state: ClusterState, node: str) -> float:
    """The share of a node's CPUs that its pods have asked for, at the end."""
    row, cpu = state.rows[node], state.columns.resource(CPU)
    allocatable = float(state.columns.allocatable[cpu, row])
    return 1.0 - float(state.columns.free[cpu, row]) / allocatable if allocatable else 0.0


def _nodes(run: Run, nodes: Sequence[SimulatedNode], *, small: bool) -> Markup:
    """The nodes of one rack or group under one scheduler, and how many pods their kubelets refused."""
    refused = {node.name: run.refused_by_node.get(node.name, 0) for node in nodes}
    lost = sum(refused.values())
    cells = [_cell(node.name, cpu_share(run.state, node.name), refused[node.name], small=small) for node in nodes]
    told = element("span", f"{number(lost)} refused", class_="bad") if lost else Markup()
    return element("td", element("div", element("span", *cells, class_="cells"), told))


def _cell(node: str, share: float, refused: int, *, small: bool) -> Markup:
    told = f"{node}: cpu {percent(share)}" + (f", {counted(refused, 'refusal')}" if refused else "")
    shade = f"u{sum(share > least for least in SHADES)}"
    text = "" if small or not refused else number(refused) if refused < 1000 else f"{refused // 1000}k"
    return element("i", text, class_=f"{shade} r" if refused else shade, title=told)


def _legend(*, small: bool) -> Markup:
    words = ("idle", "up to 25 %", "up to 50 %", "up to 75 %", "more of its CPUs in use")
    entries = [
        element("span", element("span", element("i", class_=f"u{shade}"), class_="cells"), text)
        for shade, text in enumerate(words)
    ]
    mark = element("span", element("i", "" if small else "3", class_="u2 r"), class_="cells")
    told = "pods refused by its kubelet" if small else "so many pods refused by its kubelet"
    return element("p", *entries, element("span", mark, told), class_="legend small" if small else "legend")


def _map(run: Run, node: str) -> Markup:
    """One node's picture; empty if it has no zones to show."""
    drawn = numa_map(run.state, run.state.rows[node], Assumptions())
    if drawn is None:
        return Markup()
    refused = run.refused_by_node.get(node, 0)
    told = f", {counted(refused, 'refusal')}" if refused else ", no refusal"
    caption = element("figcaption", element("b", f"{node} under {run.scheduler}"), told)
    return element("figure", caption, element("div", Markup(numa_svg(drawn, PAGE, columns=1)), class_="picture"))
