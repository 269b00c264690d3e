"""`bayplan topology`: a topology's blocks and racks, what is free in them, which nodes are not in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.completion import level_names, node_names, topology_names
from bayplan.cli.options.common import ExampleCommand, cluster_options, pods_option
from bayplan.cli.options.flags import (
    DOCUMENTS,
    cluster_scoped,
    levels_option,
    output_option,
    resources_option,
    theme_for,
    theme_option,
    tolerate_option,
)
from bayplan.cli.options.what_if import what_if_options
from bayplan.cli.shared.output import assumptions, print_answer, print_document
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.shared.watching import answered, watch_option

if TYPE_CHECKING:
    from bayplan.cluster.topology.tree import Tree
    from bayplan.explain.gangs.outcome import GangOutcome
    from bayplan.explain.topology.map import TopologyMap


@click.command(
    cls=ExampleCommand,
    examples=(
        "topology --cluster cluster.json",
        "topology network --cluster cluster.json --level block -r cpu -r nvidia.com/gpu",
        "topology --cluster cluster.json --requests cpu=8,memory=64Gi,nvidia.com/gpu=8   # how many such pods fit",
        "topology --cluster cluster.json --level numa              # down to the NUMA zones",
        "topology --cluster cluster.json --distance worker-3       # how far is everything from this node",
        "topology --cluster cluster.json -o svg > network.svg",
    ),
)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=topology_names)
@cluster_options
@what_if_options
@click.option(
    "--level",
    metavar="LEVEL",
    shell_complete=level_names,
    help=(
        "How far down: a label or its last part, 'node', or 'numa' for the NUMA zones below the nodes [default: the "
        "lowest label]."
    ),
)
@levels_option
@resources_option
@click.option(
    "--requests",
    metavar="AMOUNTS",
    help=(
        "Count how many such pods fit: cpu=8,memory=64Gi,nvidia.com/gpu=8 [default: one of the first device shown, "
        "else of cpu]."
    ),
)
@tolerate_option
@click.option(
    "--distance",
    "origin",
    metavar="NODE",
    shell_complete=node_names,
    help="Show how far every domain is from this node, in edges of the tree.",
)
@pods_option(required=False, help_text="A pod that shows the shape, instead of --requests.")
@cluster_scoped
@watch_option
@output_option("text", "wide", "svg", *DOCUMENTS)
@theme_option
def topology(
    *,
    name: str | None,
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    level: str | None,
    levels: str | None,
    resources: tuple[str, ...],
    requests: str | None,
    tolerate: tuple[str, ...],
    origin: str | None,
    files: tuple[Path, ...],
    watch: bool,
    output: str,
    theme: str | None,
) -> int:
    """Show a Topology as a tree: the nodes of every domain, what is free there, how fragmented it is,
    and how large a gang fits.

    Volcano's HyperNodes are one too, called HyperNodes. NAME may be left out if there is only one. Free is what nodes
    have beside their pods; how many pods fit is what filters and kubelets would let in, NUMA zones included. Nodes that
    lack a label of the topology are listed with that label.

    Exit code: 0 shown, 1 no node carries the labels, 2 invalid input.
    """
    from bayplan.cli.shared.shapes import level_named, one_unit, resources_meant, shape_of, slots_for, tree_named
    from bayplan.explain.topology.map import NUMA, topology_document, topology_map
    from bayplan.explain.topology.svg import topology_svg
    from bayplan.explain.topology.text import topology_text

    colours = theme_for(theme, drawn=output == "svg", drawn_by="-o svg")

    def draw(session: ClusterSession) -> int:
        tree = tree_named(session, name, levels)
        depth = level_named(tree, level, [NUMA]) + 1 if level is not None else max(len(tree.levels), 1)
        with_zones = depth > tree.node_level + 1
        shown = resources_meant(session, resources, tree.rows)
        place = _place_of(session, tree, origin) if origin is not None else ()
        named = shape_of(session, requests, files, tolerate)
        pod = named or one_unit(session, shown, tolerate)
        if pod is None:
            drawn = topology_map(session.state, tree, shown, with_zones=with_zones)
        else:
            pod_class, _, _, slots = slots_for(session, tree, pod)
            drawn = topology_map(
                session.state, tree, shown, pod_class, slots, named=named is not None, with_zones=with_zones
            )
        drawn = replace(drawn, origin=place, facts=tuple(assumptions()))
        if output == "svg":
            click.echo(topology_svg(drawn, colours))
        elif output in ("text", "wide"):
            print_answer(topology_text(drawn, depth, wide=output == "wide"), good=bool(drawn.nodes))
        else:
            print_document(topology_document(drawn), output)
        return 0 if drawn.nodes else 1

    return answered(draw, cluster, config, scheduler_name, watch=watch, output=output, files=files)


def _place_of(session: ClusterSession, tree: Tree, node: str) -> tuple[str, ...]:
    """The path of a node in a tree."""
    name = session.state.names[session.row_of(node)]
    if name in tree.outside:
        raise click.UsageError(f"--distance: node '{name}' is outside, {tree.lead}{tree.outside[name]}")
    return next(path for path in tree.paths[tree.node_level] if path[-1] == name)


def map_of_gang(session: ClusterSession, outcome: GangOutcome) -> TopologyMap:
    """The map of a gang's topology with its pods marked.

    Counts are of pods of its most frequent shape, after it was placed.
    """
    from bayplan.explain.amounts import count
    from bayplan.explain.gangs.outcome import parties_of
    from bayplan.explain.gangs.text import gang_text
    from bayplan.explain.topology.levels import in_short
    from bayplan.explain.topology.map import default_resources, topology_map

    tree = session.trees.get(outcome.topology)
    assert tree is not None  # it was placed in it
    if not outcome.shapes:
        raise click.ClickException(f"{outcome.name}: none of its pods wait, so there is nothing to draw")
    shape = max(outcome.shapes, key=lambda each: each.pods)
    pod_class = session.state.classes.of(shape.example)
    drawn = topology_map(session.state, tree, default_resources(session.state, tree.rows), pod_class, shape.slots)
    pods = (count(len(outcome.seats), "pod"), in_short(outcome.decision.bound, outcome.levels))
    return replace(
        drawn,
        parties=parties_of(outcome.seats),
        title=gang_text(outcome).partition("\n")[0],
        facts=(*(pods if outcome.seats else ()), *assumptions()),
    )
