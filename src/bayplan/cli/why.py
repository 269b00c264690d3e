"""`bayplan why`: why does a pod or a gang wait, or where is it?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.flags import output_option
from bayplan.cli.options import ExampleCommand, Session, cluster_options
from bayplan.cli.output import print_answer, print_document, working

if TYPE_CHECKING:
    from bayplan.explain.gang_outcome import GangOutcome
    from bayplan.kube.core_v1 import Pod


@click.command(
    cls=ExampleCommand,
    examples=(
        "why upf-0 -n telco --cluster cluster.json",
        "why telco/upf-0 --cluster cluster.json",
        "why pod/upf-0 -n telco --cluster cluster.json -o json",
        "why telco/upf-0 --node worker-3 --cluster cluster.json",
        "why podgroup/pretrain -n ml --cluster cluster.json       # a whole gang",
    ),
)
@click.argument("pod", metavar="POD|PODGROUP")
@cluster_options
@click.option("-n", "--namespace", metavar="NAME", help="The pod's namespace, unless POD names it.")
@click.option(
    "--node", metavar="NODE", help="Ask about this node alone: does the pod fit there, and if not, what is missing?"
)
@output_option("text", "json", "yaml")
@click.option("--now", metavar="TIME", help="Count the waiting time up to this RFC 3339 time instead of the clock's.")
def why(
    *,
    pod: str,
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    namespace: str | None,
    node: str | None,
    output: str,
    now: str | None,
) -> int:
    """Explain one pod or gang of a cluster dump: NAME, NAMESPACE/NAME, pod/NAME or podgroup/NAME.

    A pending pod: which nodes fell away for which reason, the nearest misses, the smallest change that would let it in; or
    where it would go now. A member of a gang that waits: the same about its gang. A running pod: its node and zones. A failed
    pod: why, and where it would go now.

    A PodGroup, bayplan's own or another system's: where it would go now, or what room each level of its topology has, which nodes fell away
    for which reason, and whether it is proven that there is no place.

    Exit code: 0 fits or runs, 1 does not fit, 2 the input cannot be used.
    """
    from bayplan.cli.gangs import find_gang, find_member, outcome_of, outcome_of_gang_with
    from bayplan.cli.standing import find_pod, now_or, standing_of
    from bayplan.explain.standing import standing_document, standing_text

    moment = now_or(now)
    with working("reading the cluster"):
        session = Session.open(cluster, config, scheduler_name)
    member = find_member(session, pod, namespace)
    gang = find_gang(session, pod, namespace) if member is None else None
    if (gang or member) is not None and node is not None:
        raise click.UsageError("--node asks about one pod, and this is a gang")
    if member is not None:
        return _about_gang(outcome_of_gang_with(session, member, moment), output)
    if gang is not None:
        return _about_gang(outcome_of(session, gang, moment), output)
    found = find_pod(session, pod, namespace)
    if node is not None:
        return _on_one_node(session, found, node, output)
    standing = standing_of(session, found, moment)
    if output == "text":
        print_answer(standing_text(standing), good=standing.good)
    else:
        print_document(standing_document(standing), output)
    return 0 if standing.good else 1


def _about_gang(outcome: GangOutcome, output: str) -> int:
    from bayplan.explain.gang_document import gang_explanation
    from bayplan.explain.gang_text import gang_text
    from bayplan.explain.standing import pending_for

    if output == "text":
        print_answer(gang_text(outcome, pending_for(outcome.waiting_seconds)), good=outcome.good)
    else:
        print_document(gang_explanation(outcome), output)
    return 0 if outcome.good else 1


def _on_one_node(session: Session, pod: Pod, node: str, output: str) -> int:
    from bayplan.cli.gangs import unbound
    from bayplan.cluster.state import pod_key
    from bayplan.explain.node_verdict import node_verdict_document, node_verdict_text
    from bayplan.scheduling.answers import ClassAnswers
    from bayplan.scheduling.node_verdict import verdict_on
    from bayplan.scheduling.relations import answer_for

    state, profile, row = session.state, session.profile_for(pod), session.row_of(node)
    asked = unbound(pod)
    pod_class = state.classes.of(asked)
    answer = answer_for(state, asked, pod_class, profile, ClassAnswers(state))
    verdict = verdict_on(state, pod_class, profile, answer, row)
    if output == "text":
        print_answer(node_verdict_text(state, pod_key(pod), verdict), good=verdict.fits)
    else:
        print_document(node_verdict_document(state, pod_key(pod), verdict), output)
    return 0 if verdict.fits else 1
