"""`bayplan numa`: a node's NUMA zones as a picture."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from bayplan.cli.completion import node_names
from bayplan.cli.options.common import ExampleCommand, cluster_options, pods_option
from bayplan.cli.options.flags import DOCUMENTS, output_option, theme_for, theme_option
from bayplan.cli.shared.output import print_document, print_styled, warn
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.shared.watching import answered, watch_option
from bayplan.explain.folding import WIDTH

if TYPE_CHECKING:
    from bayplan.cluster.remarks import ObjectRemark
    from bayplan.engine.numa.placement import ContainerZones
    from bayplan.explain.numa.map import NumaMap


@click.command(
    cls=ExampleCommand,
    examples=(
        "numa worker-3 --cluster cluster.json",
        "numa worker-3 --cluster cluster.json -f pod.yaml          # after placing these pods",
        "numa worker-3 --cluster cluster.json -o svg > worker-3.svg",
    ),
)
@click.argument("node", metavar="NODE", shell_complete=node_names)
@cluster_options
@pods_option(required=False, help_text="Place these pods first, and show those that come to this node.")
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of pods of -f that do not name theirs.")
@watch_option
@output_option("text", "svg", *DOCUMENTS)
@theme_option
def numa(
    *,
    node: str,
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    files: tuple[Path, ...],
    namespace: str | None,
    watch: bool,
    output: str,
    theme: str | None,
) -> int:
    """Draw a node: its packages and NUMA zones, what is free in each, the pods that are there, the distances.

    Bars show what is free. Pods stand in the zones that the node reports for them, else in those of their annotation
    bayplan.io/numa-zones; others are listed below the map.

    Exit code: 0 drawn, 2 the node is unknown or reports no zones, or the input cannot be used.
    """
    colours = theme_for(theme, drawn=output == "svg", drawn_by="-o svg")

    def draw(session: ClusterSession) -> int:
        drawn = drawn_node(session, node, files, namespace)
        if output == "svg":
            from bayplan.explain.numa.svg import numa_svg

            click.echo(numa_svg(drawn, colours))
        elif output == "text":
            from bayplan.explain.numa.text import numa_text

            print_styled(numa_text(drawn, get_terminal_size((WIDTH, 24)).columns))
        else:
            from bayplan.explain.numa.map import numa_document

            print_document(numa_document(drawn), output)
        return 0

    return answered(draw, cluster, config, scheduler_name, watch=watch, output=output, files=files, owners=bool(files))


def drawn_node(
    session: ClusterSession, node: str, files: tuple[Path, ...] = (), namespace: str | None = None
) -> NumaMap:
    """The map of a node, after placing what `files` hold."""
    from bayplan.explain.numa.map import numa_map

    state = session.state
    row = session.row_of(node)
    name = state.names[row]
    placed = _placed(session, files, namespace) if files else {}
    problems: list[ObjectRemark] = []
    parents = _parents(session, name)
    drawn = numa_map(state, row, session.assumptions, parents=parents, placed=placed, problems=problems)
    warn([str(problem) for problem in problems])
    if drawn is None:
        report = state.reports[row]
        reason = (
            f"has no NodeResourceTopology in the {session.source}" if report is None else "reports no usable NUMA zones"
        )
        raise click.ClickException(f"Node {name}: {reason}")
    return drawn


def _placed(
    session: ClusterSession, files: tuple[Path, ...], namespace: str | None
) -> dict[str, tuple[ContainerZones, ...]]:
    """Place what `-f` holds, gangs as gangs; the zones of each pod that fits."""
    from bayplan.cli.shared.placing import place_gangs, place_in_turn, read_work
    from bayplan.scheduling.answers import ClassAnswers

    work, answers = read_work(session, files, namespace).objects, ClassAnswers(session.state)
    gangs, pods = place_gangs(session, work, namespace, answers, session.now)
    found = {pod: zones for gang in gangs for pod, zones in gang.zones.items()}
    for outcome in place_in_turn(session, pods, 1, answers):
        found[outcome.decision.pod] = outcome.decision.containers
    return found


def _parents(session: ClusterSession, node: str) -> dict[int, str]:
    """The package of each zone, where the node's report names one."""
    from bayplan.cluster.reports.zone_reports import zone_id_of
    from bayplan.kube.wire.node_resource_topology_v1alpha2 import zones_of

    found = {}
    for topology in session.objects.topologies:
        if topology.metadata.name == node:
            for zone in zones_of(topology):
                zone_id = zone_id_of(zone.name) if zone.type == "Node" else None
                if zone_id is not None and zone.parent:
                    found[zone_id] = zone.parent
    return found
