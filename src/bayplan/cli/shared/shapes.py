"""What `topology` and `slots` share: a tree by name, a level by its label or its last part, and the shape of a pod."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

import click
import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.cli.shared.gangs import ALL_SLOTS
from bayplan.cli.shared.output import warn
from bayplan.cli.shared.placing import read_pods
from bayplan.cli.shared.session import ClusterSession
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import CPU, MEMORY, is_memory
from bayplan.cluster.pods.tolerations import taint_text, tolerates
from bayplan.cluster.topology.hyper_nodes import HYPER_NODES
from bayplan.cluster.topology.tree import Tree
from bayplan.dialects.own.members import GROUP
from bayplan.dialects.registry import gang_named
from bayplan.engine.gangs.problem import Counts
from bayplan.engine.numa.demand import HOST_RESOURCES
from bayplan.explain.amounts import count
from bayplan.explain.topology.map import default_resources, leading_resource
from bayplan.gangs.numa_level import NO_BUNDLE
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import NODE
from bayplan.kube.errors import InvalidObject, ObjectPath, did_you_mean
from bayplan.kube.quantity import QuantityError, parse
from bayplan.kube.topology_levels import (
    HOSTNAME,
    NUMA,
    Topology,
    TopologyLevel,
    TopologySpec,
    level_meant,
    levels_meant,
    levels_of,
    not_a_level,
)
from bayplan.kube.validation.resources import container_faults, is_extended
from bayplan.kube.validation.scheduling import TAINT_EFFECTS
from bayplan.kube.wire.core_v1 import (
    Container,
    Metadata,
    Pod,
    PodSpec,
    Quantities,
    ResourceRequirements,
    Taint,
    Toleration,
)
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import Profile

# The name of the tree that `--levels` makes.
BY_LABELS = "node labels"
# What labels of levels are called, in the last part of their name.
LEVEL_WORDS = ("region", "datacenter", "zone", "hall", "row", "spine", "block", "leaf", "rack")
EXPECTED = "expected such as cpu=8,memory=64Gi,nvidia.com/gpu=8"


def tree_named(session: ClusterSession, name: str | None, levels: str | None = None) -> Tree:
    """The tree of a Topology or of the HyperNodes, without a name that of the only one there is;
    or of the labels that `levels` lists.
    """
    if levels is not None:
        if name is not None:
            raise click.UsageError(f"--levels stands for a Topology: leave out '{name}' or --levels")
        return _tree_of_labels(session, levels)
    topologies = session.trees.topologies
    names = [*topologies.levels, *([HYPER_NODES] if session.objects.hyper_nodes else [])]
    if not names:
        raise click.ClickException(
            f"the {session.source} holds no Topology (kueue.x-k8s.io or kai.scheduler) "
            f"and no HyperNode (topology.volcano.sh); {_levels_to_try(session)}"
        )
    different = [*topologies.having(), *names[len(topologies.levels) :]]
    if name is None and len(different) > 1:
        raise click.UsageError(f"the {session.source} holds several Topologies: {', '.join(names)}; name one")
    wanted = names[0] if name is None else topologies.named(name)
    if wanted not in names:
        raise click.UsageError(f"there is no Topology '{wanted}' in the {session.source}; known: {', '.join(names)}")
    tree = session.trees.get(wanted)
    if tree is None:
        raise click.ClickException(f"the HyperNodes are not a tree: {topologies.hyper_nodes_problem}")
    return tree


def _levels_to_try(session: ClusterSession) -> str:
    """Labels that could be levels: some nodes share a value, and not all of them do; the widest first."""
    nodes = [node for node in session.state.nodes if node is not None]
    values: dict[str, set[str]] = {}
    for node in nodes:
        for label, value in (node.metadata.labels or {}).items():
            values.setdefault(label, set()).add(value)
    found = [label for label, each in values.items() if 1 < len(each) < len(nodes)]
    if not found:
        return "no node label could be a level either: kubectl label node NAME example.com/rack=VALUE"
    found.sort(key=lambda label: (len(values[label]), label))
    called = [label for label in found if label.rpartition("/")[2] in LEVEL_WORDS] or found[:1]
    return f"--levels makes a tree of node labels: --levels {','.join(called)}"


def _tree_of_labels(session: ClusterSession, levels: str) -> Tree:
    labels = sorted({label for node in session.state.nodes if node is not None for label in node.metadata.labels or {}})
    written = []
    for text in (part.strip() for part in levels.split(",")):
        meant = level_meant(text, labels)
        if meant is None or meant == NUMA:
            several = len(levels_meant(text, labels)) > 1
            problem = not_a_level(text, labels, "") if several else f'no node has a label "{text}"'
            raise click.UsageError(f"--levels: {problem}{'' if several else _did_you_mean(text, labels)}")
        written.append(TopologyLevel(meant))
    topology = Topology(Metadata(name=BY_LABELS), TopologySpec(written))
    try:
        session.trees.set(BY_LABELS, levels_of(topology))
    except InvalidObject as error:
        raise click.UsageError(f"--levels: {error.problem}") from None
    tree = session.trees.get(BY_LABELS)
    assert tree is not None  # it was just set
    return tree


def level_named(tree: Tree, text: str, below: Sequence[str] = ()) -> int:
    """The number of a level by its whole label, its last part, or `node`.

    `below` are the levels below the nodes that may be meant.
    """
    names = (*tree.levels, NODE, *below)
    if text in names:
        return names.index(text)
    meant = level_meant(text, (*tree.levels, *below))
    if meant is None or (meant == NUMA and NUMA not in below):
        known = f"known: {', '.join(names)}"
        raise click.UsageError(f"--level: {not_a_level(text, names, known)}")
    return names.index(NODE if meant == HOSTNAME else meant)


def resources_meant(session: ClusterSession, texts: Sequence[str], rows: NDArray[np.intp]) -> list[str]:
    """The resources of `-r`; without any, those that tables about these nodes show."""
    known = list(session.state.columns.resource_index)
    expected = f"is not known; expected {', '.join(known)}"
    found = [_by_last_part(each, known, "-r", f"'{each}' {expected}") for each in texts]
    return found or default_resources(session.state, rows)


def _by_last_part(text: str, names: Sequence[str], option: str, unknown: str) -> str:
    """The name that is meant by itself or by what comes after its slash; an error says that it is `unknown`."""
    if text in names:
        return text
    close = [name for name in names if name.rpartition("/")[2] == text]
    if len(close) == 1:
        return close[0]
    if close:
        raise click.UsageError(f"{option}: '{text}' may be {' or '.join(close)}")
    raise click.UsageError(f"{option}: {unknown}{_did_you_mean(text, names)}")


def _did_you_mean(text: str, names: Sequence[str]) -> str:
    """`; did you mean nvidia.com/gpu?`, by the whole name or by what comes after its slash."""
    by_part = {part.lower(): name for name in names for part in (name, name.rpartition("/")[2])}
    close = get_close_matches(text.lower(), by_part, n=1, cutoff=0.6)
    # "gpu" is too short to be close to "mig-gpu-1g.5gb" by letters alone.
    inside = [name for part, name in by_part.items() if text.lower() in part or part in text.lower()]
    found = [by_part[close[0]]] if close else list(dict.fromkeys(inside))[:3]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def shape_of(
    session: ClusterSession, requests: str | None, files: Sequence[Path], tolerate: Sequence[str] = ()
) -> Pod | None:
    """The pod that `--requests` or `-f` describes; None if neither is given."""
    return shape_and_size(session, requests, files, tolerate)[0]


def shape_and_size(
    session: ClusterSession,
    requests: str | None,
    files: Sequence[Path],
    tolerate: Sequence[str] = (),
    group: str | None = None,
) -> tuple[Pod | None, int | None]:
    """The pod that `--requests` or `-f` describes, and how many of them a gang of `-f` has.

    None where neither is given.
    """
    if requests is not None and files:
        raise click.UsageError("--requests and -f both say what a pod looks like: give one of them")
    if files and tolerate:
        raise click.UsageError("--tolerate is for pods of --requests: those of -f have tolerations of their own")
    if files:
        return _shape_in_files(session, files, group)
    if group is not None:
        raise click.UsageError("--group chooses among the pods of -f, which is not given")
    return (None if requests is None else _requesting(session, requests, tolerate)), None


def _requesting(session: ClusterSession, requests: str, tolerate: Sequence[str]) -> Pod:
    written = amounts_in(requests, "--requests")
    amounts = {_resource_meant(session, name): amount for name, amount in written.items()}
    pod = pod_requesting(amounts, "--requests", tolerate)
    _warn_of_unknown_taints(session, tolerate)
    session.state.classes.of(pod)
    return pod


def pod_requesting(
    amounts: Quantities, option: str, tolerate: Sequence[str] = (), devices: Collection[str] | None = None
) -> Pod:
    """A pod of one container with limits equal to its requests, as an option describes it.

    It tolerates taints in the name of a device that it asks for, as if admitted with ExtendedResourceToleration, or of
    any of `devices`.
    """
    container = {"resources": {"requests": amounts, "limits": amounts}}
    for fault in container_faults(container, (), ObjectPath(option)):
        field = fault.at.field.removeprefix("resources").removeprefix(".limits").strip('.[]"')
        raise click.UsageError(f"{option}: {f'{field}: ' if field else ''}{fault.problem}")
    resources = ResourceRequirements(requests=amounts, limits=amounts)
    keys = sorted(filter(is_extended, amounts if devices is None else devices))
    tolerations = [Toleration(key=name, operator="Exists", effect="NoSchedule") for name in keys]
    tolerations += [taint_meant("--tolerate", text) for text in tolerate]
    containers = [Container(name="main", resources=resources)]
    return Pod(metadata=Metadata(name=option), spec=PodSpec(containers=containers, tolerations=tolerations))


def taint_meant(option: str, text: str) -> Toleration:
    """What tolerates the taints that KEY[=VALUE][:EFFECT] means, also with kubectl's dash for removing them."""
    taint, _, effect = text.strip().removesuffix("-").partition(":")
    key, equal, value = taint.partition("=")
    if not key or effect not in ("", *TAINT_EFFECTS):
        raise click.UsageError(f"{option}: '{text}' is not a taint; expected KEY, KEY=VALUE or KEY=VALUE:EFFECT")
    return Toleration(key=key, operator="Equal" if equal else "Exists", value=value, effect=effect)


def unknown_taint(option: str, text: str, taints: Iterable[Taint]) -> str:
    """What to say of an option that means none of these taints; empty if it means one."""
    meant, known = taint_meant(option, text), set(taints)
    if any(tolerates(meant, taint) for taint in known):
        return ""
    hint = did_you_mean(meant.key, {taint.key for taint in known if taint.key != meant.key})
    listed = f"; taints are {', '.join(sorted(map(taint_text, known))) or 'none'}"
    return f"{option}: no node has the taint '{text}'{hint or listed}"


def _shape_in_files(session: ClusterSession, files: Sequence[Path], group: str | None) -> tuple[Pod, int]:
    """The one shape of pods that `-f` holds, and how many pods of it a gang has.

    Of a workload with several shapes that of a group.
    """
    shapes: dict[PodClass, list[Pod]] = {}
    for pod in read_pods(session, files, None):
        unbound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=None))
        if group is None or (pod.metadata.labels or {}).get(GROUP) == group:
            shapes.setdefault(session.state.classes.of(unbound), []).append(unbound)
    if len(shapes) == 1:
        (pods,) = shapes.values()
        return pods[0], sum(gang_named(pod) == gang_named(pods[0]) for pod in pods)
    found = ", ".join(f"{_called(pods[0])} ({count(len(pods), 'pod')})" for pods in list(shapes.values())[:5])
    if not shapes:
        raise click.UsageError(f"--group: no pod of -f is in group '{group}'")
    hint = (
        "; choose one with --group" if any(GROUP in (pods[0].metadata.labels or {}) for pods in shapes.values()) else ""
    )
    raise click.UsageError(f"-f must hold pods of one shape; it holds {len(shapes)}: {found}{hint}")


def _called(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(GROUP) or pod.metadata.name


def one_unit(session: ClusterSession, resources: Sequence[str], tolerate: Sequence[str] = ()) -> Pod | None:
    """The pod by which the largest gang is told where no shape is asked for: one device,
    one CPU or 1Gi of the resource that is shown; none of others. Nodes that are kept for devices are open to it.
    """
    name = leading_resource(resources)
    amount = "1" if name == CPU or "/" in name else "1Gi" if name == MEMORY else ""
    container = {"resources": {"limits": {name: amount}}}
    if not amount or any(True for _ in container_faults(container, (), ObjectPath(name))):
        return None  # a node may have a device with a name that no pod can ask for
    pod = pod_requesting({name: amount}, "--requests", tolerate, session.state.columns.resource_index)
    _warn_of_unknown_taints(session, tolerate)
    session.state.classes.of(pod)
    return pod


def _warn_of_unknown_taints(session: ClusterSession, tolerate: Sequence[str]) -> None:
    """What `--tolerate` misspells makes no difference, and is told."""
    sets = session.state.taint_sets
    taints = [taint for number in range(len(sets)) for taint in sets[number]]
    warn([told for text in tolerate if (told := unknown_taint("--tolerate", text, taints))])


def _resource_meant(session: ClusterSession, name: str) -> str:
    """A resource of `--requests`: as it is, or by what comes after its slash where only one resource of the nodes has
    that.
    """
    columns = session.state.columns
    known = [each for each, index in columns.resource_index.items() if columns.allocatable[index].any()]
    if name in (CPU, MEMORY) or is_memory(name) or name in HOST_RESOURCES:
        return name
    if "/" in name and name not in known:
        warn([f"--requests: no node has {name}{_did_you_mean(name.rpartition('/')[2], known)}"])
        return name
    return _by_last_part(name, known, "--requests", f"no node has {name}")


def amounts_in(text: str, option: str) -> Quantities:
    """The amounts that an option lists: `cpu=8,memory=64Gi`."""
    amounts: Quantities = {}
    for part in text.split(","):
        name, separator, amount = part.strip().partition("=")
        if not separator or not name or not amount:
            raise click.UsageError(f"{option}: '{part}' is not an amount; {EXPECTED}")
        if name in amounts:
            raise click.UsageError(f"{option}: '{name}' appears twice")
        try:
            parse(amount)
        except QuantityError as error:
            raise click.UsageError(f"{option}: {name}: {error}") from None
        amounts[name] = amount
    return amounts


def slots_for(
    session: ClusterSession, tree: Tree, pod: Pod, bundle: int = NO_BUNDLE
) -> tuple[PodClass, Profile, ClassAnswers, Counts]:
    """By position in the tree how many such pods fit now, in units that share a NUMA zone,
    and what was asked for that.
    """
    answers = ClassAnswers(session.state)
    profile = session.profile_for(pod)
    pod_class = session.state.classes.of(pod)
    scheduler = GangScheduler(session.state, session.trees, profile, answers)
    return pod_class, profile, answers, scheduler.slots(pod_class, tree, ALL_SLOTS, bundle)
