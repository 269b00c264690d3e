"""Find the pod that `bayplan why` was asked about, and its state.

Pods that have failed or are done occupy nothing and are not part of the cluster's state, so the objects as read are
searched.
"""

from __future__ import annotations

from datetime import datetime
from difflib import get_close_matches

import click

from bayplan.cli.shared.gang_objects import warn_of_stranger
from bayplan.cli.shared.gangs import outcome_of_gang_with
from bayplan.cli.shared.output import warn
from bayplan.cli.shared.placing import in_namespace, outcome_for
from bayplan.cli.shared.session import DEFAULT_SCHEDULER, ClusterSession
from bayplan.cli.shared.workloads import warn_of_owners
from bayplan.cluster.arrangements import inferred_zones_on
from bayplan.cluster.node_status import closing
from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.reports.pod_zones import zones_on_node
from bayplan.cluster.state import TERMINAL_PHASES, pod_key
from bayplan.dialects.registry import gang_named
from bayplan.engine.numa.demand import demand_of
from bayplan.explain.amounts import count
from bayplan.explain.gangs.outcome import GangOutcome
from bayplan.explain.pod_view import FAILED, PENDING, RUNNING, PodView
from bayplan.explain.refusal import description
from bayplan.explain.topology.levels import path_text
from bayplan.gangs.closeness import unbound
from bayplan.kube.times import moment_of
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.workloads.kinds import every_kind

RANKED = 5


def now_or(text: str | None, session: ClusterSession) -> datetime:
    """The time given, or the session's."""
    if text is None:
        return session.now
    moment = moment_of(text)
    if moment is None:
        raise click.UsageError(f"--now: '{text}' is not a time; expected the form 2026-01-31T12:00:00Z")
    return moment


def find_pod(session: ClusterSession, name: str, namespace: str | None) -> Pod:
    """The pod called NAME, NAMESPACE/NAME or pod/NAME. A name that only one namespace has needs no namespace."""
    pods = {pod_key(pod): pod for pod in session.objects.pods}
    kind, _, rest = name.partition("/")
    if rest and name not in pods and kind in ("pod", "pods", "po"):
        name = rest
    if "/" in name:
        if namespace and name.partition("/")[0] != namespace and name in pods:
            raise click.UsageError(f"'{name}' names another namespace than -n {namespace}: leave out one of them")
        wanted = [name]
    elif namespace:
        wanted = [f"{namespace}/{name}"]
    else:
        matching = [key for key in pods if key.partition("/")[2] == name]
        wanted = [f"default/{name}"] if f"default/{name}" in pods else matching
    found = [key for key in wanted if key in pods]
    if len(found) == 1:
        pod = pods[found[0]]
        return pod if pod.metadata.namespace else in_namespace(pod, "default")
    if found:
        raise click.ClickException(f"pod '{name}' is in several namespaces: {', '.join(found)}; choose with -n")
    asked = wanted[0] if wanted else name
    if meant := _kind_meant(session, kind if rest else ""):
        raise click.ClickException(
            f"'{kind}' is neither a namespace with pods nor a kind; did you mean {meant}/{rest}?"
        )
    # By name: a shared namespace would make all of its pods alike.
    by_name: dict[str, list[str]] = {}
    for key in pods:
        by_name.setdefault(key.rpartition("/")[2], []).append(key)
    alike = get_close_matches(asked.rpartition("/")[2], by_name, n=3, cutoff=0.5)
    close = [key for each in alike for key in by_name[each]]
    hint = f"; did you mean {' or '.join(close)}?" if close else f"; the {session.source} has {count(len(pods), 'pod')}"
    raise click.ClickException(f"there is no pod '{asked}' in the {session.source}{hint}")


def _kind_meant(session: ClusterSession, text: str) -> str:
    """The kind of workload that a misspelt word resembles; empty if it is the namespace of a pod, or resembles none."""
    if any((pod.metadata.namespace or "default") == text for pod in session.objects.pods):
        return ""
    names = [name for kind in every_kind(session.grouping.rules) for name in kind.names if "." not in name]
    return next(iter(get_close_matches(text.lower(), names, n=1, cutoff=0.75)), "")


def view_of(session: ClusterSession, pod: Pod, now: datetime) -> PodView:
    """The pod's state, and the decision about it now if it is not running."""
    state = session.state
    pod_class = state.classes.of(pod)
    phase = (pod.status.phase if pod.status else None) or PENDING
    node = pod.spec.node_name or ""
    settled = phase == "Succeeded" or (node and phase not in TERMINAL_PHASES)
    waits = phase not in (FAILED, RUNNING) and not settled
    problems: list[ObjectRemark] = [] if settled else session.ignored_annotations(pod)
    row = state.rows.get(node)
    report = state.reports[row] if row is not None else None
    zones = zones_on_node(pod, pod_key(pod), pod_class.request, report, problems)
    if not zones and row is not None:
        zones = inferred_zones_on(state, row).get(pod_key(pod), {})
    warn([str(problem) for problem in problems])
    warn_of_owners(session.grouped, [pod], session.source)
    outcome, gang = None, None
    if not settled and not gang_named(pod):
        warn_of_stranger(session, pod)
    if (phase == PENDING and not settled and gang_named(pod)) or (
        settled and node and phase != "Succeeded" and gang_named(pod)
    ):
        gang = outcome_of_gang_with(session, pod, now)
    elif not settled:
        outcome = outcome_for(session, unbound(pod), ClassAnswers(state), RANKED)
    conditions = (pod.status.conditions if pod.status else None) or ()
    said = next((each.message for each in conditions if each.type == "PodScheduled" and each.status == "False"), "")
    return PodView(
        pod=pod_key(pod),
        # Whatever a bound pod's phase says, it holds its place on the node.
        phase=RUNNING if settled and phase == PENDING else phase,
        request=pod_class.request,
        described=description(state, pod_class),
        reason=(pod.status.reason if pod.status else None) or "",
        node=node,
        zones=zones,
        aligned=not demand_of(pod_class.request).nothing_to_align,
        waiting_seconds=_seconds_since(pod.metadata.creation_timestamp, now) if waits else None,
        outcome=outcome,
        gang=gang,
        path=_path(session, node, gang) if node else "",
        not_ready=node in state.rows and closing(state, state.rows[node]).not_ready,
        scheduler=(pod.spec.scheduler_name or (DEFAULT_SCHEDULER if said else "")) if waits else "",
        condition=said if waits else "",
    )


def _path(session: ClusterSession, node: str, gang: GangOutcome | None) -> str:
    """A node's path in the tree of its pod's gang, or in the only Topology; empty if it is in none."""
    tree = session.trees.get(gang.topology if gang is not None else session.trees.topologies.only())
    paths = tree.paths[tree.node_level] if tree is not None and tree.levels else ()
    return next((path_text(path) for path in paths if path[-1] == node), "")


def _seconds_since(created: str | None, now: datetime) -> int | None:
    """Seconds since something was created, if it says when and that is not in the future."""
    moment = moment_of(created or "")
    seconds = int((now - moment).total_seconds()) if moment else -1
    return seconds if seconds >= 0 else None
