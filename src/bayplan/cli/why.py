"""`bayplan why`: why does a pod or a gang wait, or where is it?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.completion import namespace_names, node_names, pod_names
from bayplan.cli.options.common import ExampleCommand, cluster_options
from bayplan.cli.options.flags import DOCUMENTS, output_option
from bayplan.cli.options.selecting import POD_FIELDS, selected, selector_options
from bayplan.cli.options.what_if import what_if_options
from bayplan.cli.shared.output import no_resources, print_answer, print_document
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.shared.watching import answered, watch_option
from bayplan.kube.visible import visible_lines

if TYPE_CHECKING:
    from bayplan.kube.wire.core_v1 import Node, Pod


@click.command(
    cls=ExampleCommand,
    examples=(
        "why upf-0 -n telco --cluster cluster.json",
        "why telco/upf-0 --cluster cluster.json",
        "why pod/upf-0 -n telco --cluster cluster.json -o json",
        "why telco/upf-0 --node worker-3 --cluster cluster.json",
        "why podgroup/pretrain -n ml --cluster cluster.json       # a whole gang",
        (
            "why deploy/web -n shop                                   # a workload: also job/, sts/, jobset/, "
            "pytorchjob/, ..."
        ),
        "why -A --cluster cluster.json                            # everything that waits, by cause",
        "why -n telco -l app=upf",
        "why -A --without-node worker-3                           # which pods a drain would leave without a place",
        "why telco/upf-0 --preempt                                # who would be evicted for it",
    ),
)
@click.argument("words", metavar="[POD|PODGROUP|KIND/NAME]", nargs=-1, shell_complete=pod_names)
@cluster_options
@what_if_options
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
    help="Check this node only: does the pod fit there, and if not, what is missing?",
)
@click.option(
    "--preempt",
    is_flag=True,
    help="Show which pods preemption would evict for a pod or gang without a place. Nothing is evicted.",
)
@watch_option
@output_option("text", "wide", "name", *DOCUMENTS)
@click.option(
    "--now",
    metavar="TIME",
    help="Measure the waiting time to this RFC 3339 time [default: now; of a dump its newest time].",
)
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
    """Explain one pod, gang or workload (NAME, NAMESPACE/NAME, pod/NAME, podgroup/NAME, deploy/NAME, ...), or
    everything that waits (-A, or -n alone).

    A pending pod: which nodes fell away for which reason, the nearest misses, the smallest change that would let it in;
    or where it would go now. A member of a gang that waits: the same about its gang. A running pod: its node and zones.
    A failed pod: why, and where it would go now.

    A PodGroup, bayplan's own or another system's: where it would go now, or what room each level of its topology has,
    which nodes fell away for which reason, and whether it is proven that there is no place.

    A workload by KIND/NAME, with kubectl's short names or kind.group: how many of its pods run, and what would become
    of the others, also of those that its controller has not created yet.

    With -A, or with -n and without POD: pods that wait and pods that a kubelet refused, grouped by cause. They are
    decided in turn, gangs first, each seeing what the earlier ones took.

    Exit code: 0 fits or runs, 1 does not fit, 2 invalid input.
    """
    from bayplan.cli.shared.explaining import explained
    from bayplan.cli.shared.pod_views import now_or

    pod = _named(words)
    _check(pod, namespace, label_selector or field_selector, node, output, everything=all_namespaces)
    if preempt and (pod is None or node is not None):
        raise click.UsageError("--preempt asks about one pod or gang: name it, without --node")

    def draw(session: ClusterSession) -> int:
        moment = now_or(now, session)
        if pod is None:
            return _overview(
                session, namespace or "", selected(label_selector, field_selector, POD_FIELDS), moment, output
            )
        about = explained(session, pod, namespace, moment, node=node, preempt=preempt)
        if output == "text":
            print_answer(about.text(), good=about.good)
        else:
            print_document(about.document(), output)
        return 0 if about.good else 1

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
    overview = overview_of(findings(session, in_view, moment), namespace, session.drained)
    if output == "name":
        pods = [pod for cause in overview.causes for pod in cause.pods]
        click.echo(visible_lines(f"pod/{pod.removeprefix(f'{namespace}/')}" for pod in pods), nl=bool(pods))
    elif output in ("text", "wide"):
        print_answer(overview_text(overview, wide=output == "wide"), good=overview.good)
    else:
        print_document(overview_document(overview), output)
    return 0 if overview.good else 1
