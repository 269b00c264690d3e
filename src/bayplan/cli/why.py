"""`bayplan why`: why does a pod or a gang wait, or where is it?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.completion import namespace_names, node_names, pod_names
from bayplan.cli.shared.flags import output_option
from bayplan.cli.shared.options import ClusterSession, ExampleCommand, cluster_options
from bayplan.cli.shared.output import no_resources, print_answer, print_document
from bayplan.cli.shared.selecting import POD_FIELDS, selected, selector_options
from bayplan.cli.shared.watching import answered, watch_option
from bayplan.kube.visible import visible_lines

if TYPE_CHECKING:
    from bayplan.explain.gangs.outcome import GangOutcome
    from bayplan.explain.preemption import PreemptionView
    from bayplan.kube.wire.core_v1 import Node, Pod
    from bayplan.workloads.plan import WorkloadPlan


@click.command(
    cls=ExampleCommand,
    examples=(
        "why upf-0 -n telco --cluster cluster.json",
        "why telco/upf-0 --cluster cluster.json",
        "why pod/upf-0 -n telco --cluster cluster.json -o json",
        "why telco/upf-0 --node worker-3 --cluster cluster.json",
        "why podgroup/pretrain -n ml --cluster cluster.json       # a whole gang",
        "why deploy/web -n shop                                   # a workload: also job/, sts/, jobset/, pytorchjob/, ...",
        "why -A --cluster cluster.json                            # everything that waits, by cause",
        "why -n telco -l app=upf",
        "why telco/upf-0 --preempt                                # who would be evicted for it",
    ),
)
@click.argument("words", metavar="[POD|PODGROUP|KIND/NAME]", nargs=-1, shell_complete=pod_names)
@cluster_options
@click.option(
    "-n",
    "--namespace",
    shell_complete=namespace_names,
    metavar="NAME",
    help="The pod's namespace, unless POD names it; without POD: all that waits there.",
)
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="Everything that waits or was refused by a kubelet, by cause."
)
@selector_options("pods, of -A and -n,", POD_FIELDS)
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=node_names,
    help="Ask about this node alone: does the pod fit there, and if not, what is missing?",
)
@click.option(
    "--preempt", is_flag=True, help="Which pods would be evicted for a pod or gang without a place? Nothing is evicted."
)
@watch_option
@output_option("text", "wide", "name", "json", "yaml")
@click.option("--now", metavar="TIME", help="Count the waiting time up to this RFC 3339 time instead of the clock's.")
def why(
    *,
    words: tuple[str, ...],
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    namespace: str | None,
    all_namespaces: bool,
    label_selector: str | None,
    field_selector: str | None,
    node: str | None,
    preempt: bool,
    watch: bool,
    output: str,
    now: str | None,
) -> int:
    """Explain one pod, gang or workload (NAME, NAMESPACE/NAME, pod/NAME, podgroup/NAME, deploy/NAME, ...), or everything that waits (-A, or -n alone).

    A pending pod: which nodes fell away for which reason, the nearest misses, the smallest change that would let it in; or
    where it would go now. A member of a gang that waits: the same about its gang. A running pod: its node and zones. A failed
    pod: why, and where it would go now.

    A PodGroup, bayplan's own or another system's: where it would go now, or what room each level of its topology has, which nodes fell away
    for which reason, and whether it is proven that there is no place.

    A workload by KIND/NAME, with kubectl's short names or kind.group: how many of its pods run, and what would become of the others, also of those
    that its controller has not created yet.

    With -A, or with -n and without POD: pods that wait and pods that a kubelet refused, grouped by cause. They are decided in turn, gangs first, each seeing what
    the earlier ones took.

    Exit code: 0 fits or runs, 1 does not fit, 2 the input cannot be used.
    """
    from bayplan.cli.shared.asked_workload import find_workload
    from bayplan.cli.shared.gangs import find_gang, find_member, outcome_of, outcome_of_gang_with
    from bayplan.cli.shared.pod_views import find_pod, now_or, standing_of
    from bayplan.cli.shared.preempting import preemption_for_gang, preemption_for_pod
    from bayplan.dialects.registry import gang_named, key_of
    from bayplan.explain.pod_view import standing_document, standing_text

    pod = _named(words)
    _check(pod, namespace, label_selector or field_selector, node, output, everything=all_namespaces)
    if preempt and (pod is None or node is not None):
        raise click.UsageError("--preempt asks about one pod or gang: name it, without --node")

    def draw(session: ClusterSession) -> int:
        moment = now_or(now)
        if pod is None:
            return _overview(
                session, namespace or "", selected(label_selector, field_selector, POD_FIELDS), moment, output
            )
        workload = find_workload(session, pod, namespace)
        if workload is not None and preempt:
            raise click.UsageError("--preempt asks about one pod or gang; name a pod of the workload")
        if workload is not None:
            return _about_workload(session, workload, node, moment, output)
        member = find_member(session, pod, namespace)
        gang = find_gang(session, pod, namespace) if member is None else None
        if (gang or member) is not None and node is not None:
            raise click.UsageError("--node asks about one pod, and this is a gang")
        if member is not None:
            outcome = outcome_of_gang_with(session, member, moment)
            return _about_gang(outcome, output, _for_gang(session, outcome, gang_named(member), moment, wanted=preempt))
        if gang is not None:
            outcome = outcome_of(session, gang, moment)
            return _about_gang(outcome, output, _for_gang(session, outcome, key_of(gang), moment, wanted=preempt))
        found = find_pod(session, pod, namespace)
        if node is not None:
            return _on_one_node(session, found, node, output)
        standing = standing_of(session, found, moment)
        view = None
        if preempt and not standing.good:
            gang_key = gang_named(found) if standing.gang is not None else ""
            view = (
                preemption_for_gang(session, gang_key, moment)
                if gang_key
                else preemption_for_pod(session, found, moment)
            )
        if output == "text":
            print_answer(_with_lines(standing_text(standing), view), good=standing.good)
        else:
            print_document(_with_document(standing_document(standing), view), output)
        return 0 if standing.good else 1

    return answered(draw, cluster, config, scheduler_name, watch=watch, output=output, owners=True)


def _named(words: tuple[str, ...]) -> str | None:
    """`pod NAME` means pod/NAME, as with kubectl; None if nothing is named."""
    match words:
        case ():
            return None
        case (one,):
            return one
        case (kind, name) if "/" not in kind and "/" not in name:
            return f"{kind}/{name}"
    raise click.UsageError(f"one pod, gang or workload at a time: {', '.join(words)}")


def _check(
    pod: str | None, namespace: str | None, selectors: str | None, node: str | None, output: str, *, everything: bool
) -> None:
    """One pod or many: options that belong to the other are an error."""
    if pod is None:
        if not everything and namespace is None:
            raise click.UsageError(
                "which pod? Give POD or PODGROUP; or -A for everything that waits, -n for a namespace"
            )
        if everything and namespace is not None:
            raise click.UsageError("-A and -n exclude each other: all namespaces, or one")
        if node is not None:
            raise click.UsageError("--node asks about one pod: give POD")
        return
    if everything or selectors:
        raise click.UsageError(
            f"-A, -l and --field-selector ask about many pods, '{pod}' is one: leave out one of them"
        )
    if output in ("wide", "name"):
        raise click.UsageError(f"-o {output} goes with -A or -n alone; about one pod there are text, json, yaml")


def _overview(
    session: ClusterSession, namespace: str, is_meant: Callable[[Node | Pod], bool], moment: datetime, output: str
) -> int:
    """Everything that waits, in one namespace or in all of them."""
    from bayplan.cli.shared.waiting import findings
    from bayplan.explain.overview.causes import overview_document, overview_of, overview_text

    def in_view(pod: Pod) -> bool:
        return (not namespace or (pod.metadata.namespace or "default") == namespace) and is_meant(pod)

    if not any(in_view(pod) for pod in session.objects.pods):
        return no_resources(namespace or None)
    overview = overview_of(findings(session, in_view, moment), namespace)
    if output == "name":
        pods = [pod for cause in overview.causes for pod in cause.pods]
        click.echo(visible_lines(f"pod/{pod.removeprefix(f'{namespace}/')}" for pod in pods), nl=bool(pods))
    elif output in ("text", "wide"):
        print_answer(overview_text(overview, wide=output == "wide"), good=overview.good)
    else:
        print_document(overview_document(overview), output)
    return 0 if overview.good else 1


def _about_workload(session: ClusterSession, plan: WorkloadPlan, node: str | None, now: datetime, output: str) -> int:
    from bayplan.cli.shared.asked_workload import outcome_of_workload
    from bayplan.explain.workload_text import explanation, explanation_text

    if node is not None:
        return _on_one_node(session, plan.example, node, output)
    gangs, workload = outcome_of_workload(session, plan, now)
    good = workload.good and all(gang.good for gang in gangs)
    if output == "text":
        print_answer(explanation_text(gangs, workload), good=good)
    else:
        print_document(explanation(gangs, workload), output)
    return 0 if good else 1


def _for_gang(
    session: ClusterSession, outcome: GangOutcome, key: str, moment: datetime, *, wanted: bool
) -> PreemptionView | None:
    from bayplan.cli.shared.preempting import preemption_for_gang

    return preemption_for_gang(session, key, moment) if wanted and not outcome.good else None


def _with_lines(text: str, view: PreemptionView | None) -> str:
    from bayplan.explain.preemption import preemption_lines

    return text if view is None else visible_lines([*text.split("\n"), *preemption_lines(view)])


def _with_document(document: dict[str, Any], view: PreemptionView | None) -> dict[str, Any]:
    from bayplan.explain.preemption import preemption_document

    return document if view is None else {**document, "preemption": preemption_document(view)}


def _about_gang(outcome: GangOutcome, output: str, view: PreemptionView | None = None) -> int:
    from bayplan.explain.gangs.document import gang_explanation
    from bayplan.explain.gangs.text import gang_text
    from bayplan.explain.pod_view import pending_for

    if output == "text":
        text = gang_text(outcome, pending_for(outcome.waiting_seconds))
        print_answer(_with_lines(text, view), good=outcome.good)
    else:
        print_document(_with_document(gang_explanation(outcome), view), output)
    return 0 if outcome.good else 1


def _on_one_node(session: ClusterSession, pod: Pod, node: str, output: str) -> int:
    from bayplan.cluster.state import pod_key
    from bayplan.explain.pod_view import node_verdict_document, node_verdict_text
    from bayplan.gangs.closeness import unbound
    from bayplan.scheduling.answers import ClassAnswers
    from bayplan.scheduling.relations import answer_for, incoming_pod
    from bayplan.scheduling.shortfall import verdict_on

    state, profile, row = session.state, session.profile_for(pod), session.row_of(node)
    asked = unbound(pod)
    pod_class = state.classes.of(asked)
    answer = answer_for(state, asked, pod_class, profile, ClassAnswers(state))
    verdict = verdict_on(state, pod_class, profile, answer, row, incoming_pod(state, asked, pod_class))
    if output == "text":
        print_answer(node_verdict_text(state, pod_key(pod), verdict), good=verdict.fits)
    else:
        print_document(node_verdict_document(state, pod_key(pod), verdict), output)
    return 0 if verdict.fits else 1
