"""`bayplan slots`: how many gangs of equal pods fit now, and in which domains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.completion import level_names, topology_names
from bayplan.cli.options.common import ExampleCommand, cluster_options, pods_option
from bayplan.cli.options.flags import DOCUMENTS, cluster_scoped, levels_option, output_option, tolerate_option
from bayplan.cli.options.what_if import what_if_options
from bayplan.cli.shared.output import print_answer, print_document
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.shared.watching import answered, watch_option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bayplan.cluster.pods.pod_class import PodClass
    from bayplan.cluster.state import ClusterState
    from bayplan.explain.topology.closed import ClosedNodeGroup

# As many as a PodGroup may have.
MOST_PODS = 100_000


@click.command(
    cls=ExampleCommand,
    examples=(
        "slots --requests cpu=8,memory=64Gi,nvidia.com/gpu=8 --pods 64 --cluster cluster.json",
        "slots --requests cpu=8,memory=64Gi,nvidia.com/gpu=8 --pods 8 --level rack --cluster cluster.json",
        "slots -f pod.yaml --pods 16 --topology network --cluster cluster.json -o json",
        "slots -f mpijob.yaml --group worker --add-nodes 16 --like gpu-1",
        "slots -f mpijob.yaml --group worker --cluster cluster.json       # as many pods as the workload has",
    ),
)
@click.option("--requests", metavar="AMOUNTS", help="What each pod asks for: cpu=8,memory=64Gi,nvidia.com/gpu=8.")
@tolerate_option
@pods_option(
    required=False,
    help_text="A pod or workload that shows the shape (with tolerations, selectors), instead of --requests.",
)
@click.option(
    "--group", metavar="NAME", help="Of a workload with several shapes of pods the ones to count: worker, launcher, ..."
)
@click.option(
    "--pods",
    type=click.IntRange(min=1, max=MOST_PODS),
    metavar="NUMBER",
    help="How many pods a gang has. [default: as many as the workload of -f]",
)
@click.option(
    "--level",
    metavar="LEVEL",
    shell_complete=level_names,
    help=(
        "Put each gang into one domain of this level: a label or its short name, 'node', or 'numa' (one NUMA zone) "
        "[default: the lowest that holds one]."
    ),
)
@click.option(
    "--topology",
    "name",
    metavar="NAME",
    shell_complete=topology_names,
    help="The Topology to use, if there are several.",
)
@levels_option
@cluster_options
@what_if_options
@cluster_scoped
@watch_option
@output_option("text", *DOCUMENTS)
def slots(
    *,
    requests: str | None,
    tolerate: tuple[str, ...],
    files: tuple[Path, ...],
    group: str | None,
    pods: int | None,
    level: str | None,
    name: str | None,
    levels: str | None,
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    watch: bool,
    output: str,
) -> int:
    """Count how many gangs of so many equal pods fit into each domain of a level now.

    A slot is a place for one pod: what filters and the node's kubelet would let in, NUMA zones included. Limits are
    taken to be equal to requests; a pod that asks for cpu and memory is then Guaranteed, and its CPUs are aligned where
    the kubelet does that.

    Exit code: 0 at least one fits, 1 none does, 2 invalid input.
    """
    from bayplan.cli.shared.shapes import level_named, shape_and_size, slots_for, tree_named
    from bayplan.explain.gangs.outcome import stages_in_tree
    from bayplan.explain.headline import headline
    from bayplan.explain.refusal import description
    from bayplan.explain.topology.slots_text import SlotCount, slot_count_of, slots_document, slots_text
    from bayplan.gangs.numa_level import NO_BUNDLE, is_numa
    from bayplan.gangs.trees import rooms_of
    from bayplan.scheduling.shortfall import shortfall_of

    def draw(session: ClusterSession) -> int:
        tree = tree_named(session, name, levels)
        in_zone = is_numa(level, tree.levels)
        wanted = tree.node_level if in_zone else level_named(tree, level) if level is not None else None
        pod, size = shape_and_size(session, requests, files, tolerate, group)
        if pod is None:
            raise click.UsageError("one of --requests and -f is needed: what does a pod ask for?")
        size = pods or size
        if size is None:
            raise click.UsageError("--pods is missing: how many pods does a gang have?")
        pod_class, profile, answers, counts = slots_for(session, tree, pod, size if in_zone else NO_BUNDLE)
        rooms = rooms_of(tree, counts, size)
        holding = [number for number, room in enumerate(rooms) if room.holding_all]
        chosen = wanted if wanted is not None else max(holding, default=0)
        gangs, domains = slot_count_of(tree, counts, size, chosen)
        answer = answers.for_class(pod_class, profile)
        shortfall = shortfall_of(session.state, pod_class, profile, answer, list(answer.refused_by_replay.items()))
        _, stages = stages_in_tree(tree, shortfall, pod_class, profile)
        found = SlotCount(
            topology=tree.name,
            levels=tree.levels,
            level=chosen,
            pods=size,
            request=pod_class.request,
            described=description(session.state, pod_class),
            nodes=len(session.state.rows),
            slots=int(counts.sum()),
            rooms=rooms,
            gangs=gangs,
            domains=domains,
            stages=stages,
            closed=_closed(session.state, tree.rows, pod_class, shortfall.matter),
            nowhere="" if counts.any() else headline(session.state, pod_class, shortfall, stages),
            in_zone=in_zone,
        )
        if output == "text":
            print_answer(slots_text(found), good=bool(found.fit))
        else:
            print_document(slots_document(found), output)
        return 0 if found.fit else 1

    return answered(draw, cluster, config, scheduler_name, watch=watch, output=output, files=files)


def _closed(
    state: ClusterState, rows: NDArray[np.intp], pod: PodClass, matter: frozenset[str]
) -> tuple[ClosedNodeGroup, ...]:
    """The nodes that are closed to a pod, of those that matter to it."""
    from bayplan.cluster.node_status import closings
    from bayplan.explain.topology.closed import closed_nodes

    rows = rows[[state.names[row] in matter for row in rows.tolist()]]
    found = closings(state, rows, pod.tolerations, exactly=True)
    return closed_nodes(state, rows, found, tuple(pod.request.total))
