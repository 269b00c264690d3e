"""`bayplan place`: where would these pods and gangs go?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.options.common import ExampleCommand, cluster_options, pods_option
from bayplan.cli.options.flags import DOCUMENTS, output_option, theme_for, theme_option
from bayplan.cli.options.what_if import what_if_options
from bayplan.cli.shared.output import print_answer, print_document, working
from bayplan.cli.shared.session import ClusterSession
from bayplan.kube.visible import visible_lines

if TYPE_CHECKING:
    from bayplan.engine.gangs.objective import Objective
    from bayplan.explain.theme import Theme
    from bayplan.kube.object_set import ObjectSet

RANKED = 5
RANKED_WIDE = 20


@click.command(
    cls=ExampleCommand,
    examples=(
        "place -f pod.yaml --cluster cluster.json",
        "place -f pods/ --cluster nodes.yaml --cluster topology.yaml",
        "place -f pod.yaml --cluster cluster.json -o wide         # scores of every plugin",
        "place -f pod.yaml --cluster cluster.json --config scheduler-config.yaml",
        "place -f deployment.yaml --cluster cluster.json         # every replica; also Jobs, JobSets, PyTorchJobs, ...",
        "place -f podgroup.yaml --cluster cluster.json           # a gang: all pods or none",
        "place -f podgroup.yaml --cluster cluster.json --objective closest",
        "place -f podgroup.yaml --cluster cluster.json -o svg > gang.svg",
        "place -f deployment.yaml --cluster cluster.json -o name  # pod/NAMESPACE/NAME node/NODE",
        "place -f pod.yaml --cluster cluster.json --preempt       # who would be evicted for it?",
        "place -f podgroup.yaml --add-nodes 4 --like gpu-1       # what if there were four more nodes?",
    ),
)
@pods_option(
    required=True,
    help_text=(
        "File or folder with the pods, workloads and PodGroups to place; '-' for standard input. May be given several "
        "times."
    ),
)
@cluster_options
@what_if_options
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of pods that do not name theirs [default: default].")
@click.option(
    "--objective",
    metavar="GOALS",
    help="Goals for the best place of a gang, in this order: fewest-domains, mean-distance, fewest-nodes, "
    "least-leftover, closest, separated by commas. Overrides the objective of PodGroups.",
)
@click.option(
    "--preempt",
    is_flag=True,
    help="Show which pods preemption would evict for each pod or gang without a place. Nothing is evicted.",
)
@output_option("text", "wide", "name", "svg", *DOCUMENTS)
@theme_option
def place(
    *,
    files: tuple[Path, ...],
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    namespace: str | None,
    objective: str | None,
    preempt: bool,
    output: str,
    theme: str | None,
) -> int:
    """Place pods, workloads and gangs on a cluster, one after another, each seeing what the earlier ones took.

    Nothing is created. A pod that fits gets its node, its NUMA zones and the best alternatives; one that does not gets
    the reasons, the nearest misses and the smallest change that would help.

    A PodGroup (bayplan's own, or that of Kubernetes, KAI, Volcano or coscheduling with its pods), a Volcano Job and a
    Kueue pod group are placed as a whole, before the pods that belong to none: the answer says where its pods sit,
    whether a better place exists, and what room is left; or proves that there is none.

    Of a Deployment, StatefulSet, Job, JobSet, PyTorchJob or another workload the pods are made as its controller would
    make them, and the gangs as the pod grouper would; pods that exist already are not made again. docs/place.md
    lists the kinds.

    Exit code: 0 all fit, 1 some do not, 2 invalid input.
    """
    from bayplan.cli.shared.placing import (
        by_workload,
        place_gangs,
        place_in_turn,
        placed_document,
        placed_names,
        read_work,
    )
    from bayplan.cli.shared.preempting import preemption_for_refused
    from bayplan.explain.preemption import with_plans
    from bayplan.explain.workload_text import work_text
    from bayplan.scheduling.answers import ClassAnswers

    if preempt and output in ("svg", "name"):
        raise click.UsageError(f"--preempt and -o {output} exclude each other")
    goals = _objective(objective)
    colours = theme_for(theme, drawn=output == "svg", drawn_by="-o svg")
    with working("reading the cluster"):
        session = ClusterSession.open(cluster, config, scheduler_name, owners=True)
    read = read_work(session, files, namespace)
    work = read.objects
    if output == "svg":
        return _draw(session, work, namespace, goals, colours)
    answers = ClassAnswers(session.state)
    now = session.now
    gangs, pods = place_gangs(session, work, namespace, answers, now, goals)
    outcomes = place_in_turn(session, pods, RANKED if output == "text" else RANKED_WIDE, answers)
    all_fit = all(gang.good for gang in gangs) and all(outcome.decision.placed for outcome in outcomes)
    workloads, others = by_workload(read.plans, outcomes)
    plans = preemption_for_refused(session, gangs, pods, outcomes, now) if preempt else None
    if output == "name":
        click.echo(visible_lines(placed_names(gangs, outcomes)))
    elif output in ("text", "wide"):
        text = work_text(gangs, workloads, others, wide=output == "wide")
        print_answer(with_plans(text, plans or {}, len(gangs) + len(outcomes)), good=all_fit)
    else:
        print_document(placed_document(gangs, outcomes, workloads, others, plans), output)
    return 0 if all_fit else 1


def _objective(written: str | None) -> Objective | None:
    """The order of goals of `--objective`."""
    from bayplan.engine.gangs.objective import objective_of

    if written is None:
        return None
    try:
        return objective_of([name.strip() for name in written.split(",")])
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="--objective") from None


def _draw(
    session: ClusterSession, work: ObjectSet, namespace: str | None, goals: Objective | None, colours: Theme
) -> int:
    """One gang as a map of its topology."""
    from bayplan.cli.shared.placing import place_gangs
    from bayplan.cli.topology import map_of_gang
    from bayplan.explain.topology.svg import topology_svg
    from bayplan.scheduling.answers import ClassAnswers

    gangs, _ = place_gangs(session, work, namespace, ClassAnswers(session.state), session.now, goals)
    if len(gangs) != 1:
        raise click.UsageError(f"-o svg draws one gang, and -f makes {len(gangs)} gangs; 'numa' draws a node")
    click.echo(topology_svg(map_of_gang(session, gangs[0]), colours))
    return 0 if gangs[0].good else 1
