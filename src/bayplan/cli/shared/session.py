"""`ClusterSession`: a cluster, from files or as it runs, with the profiles to judge by.
Each command asks it for what it needs.

Imports of the rooms below stand inside the functions: a `--help` must not wait for numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.options.common import STANDARD_INPUT, STDIN, kept
from bayplan.cli.options.configuration_file import read_configuration
from bayplan.cli.options.what_if import as_assumed, is_assumed, node_named
from bayplan.cli.shared.output import warn
from bayplan.cli.shared.reading import asked_live, profiles_in, read_cluster_files, read_live

if TYPE_CHECKING:
    from bayplan.cluster.remarks import ObjectRemark
    from bayplan.cluster.reports.kubelet_settings import Assumptions
    from bayplan.cluster.state import ClusterState
    from bayplan.gangs.trees import Trees
    from bayplan.grouping.group import GroupingSettings
    from bayplan.kube.object_set import ObjectSet, OtherObject
    from bayplan.kube.priority_classes import PriorityClass, PriorityClasses
    from bayplan.kube.wire.core_v1 import Pod
    from bayplan.scheduling.profile import Profile

# What the API server writes into pods that name no scheduler.
DEFAULT_SCHEDULER = "default-scheduler"
# Where objects come from that are not read from files.
LIVE = "cluster"


class ClusterSession:
    """A cluster, from files or as it runs, and the profiles to judge pods by.

    `configuration` is the document they were read from.

    `source` is where an object is said to be missing: in the dump, or in the cluster. With `owners`, pods are in the
    gangs that their owners mean.
    """

    def __init__(
        self,
        objects: ObjectSet,
        configuration: Any,
        profiles: dict[str, Profile],
        source: str = "dump",
        *,
        owners: bool = False,
        state: ClusterState | None = None,
    ) -> None:
        from bayplan.cli.shared.workloads import group_by_owners
        from bayplan.cluster.loading import load_state, relabel
        from bayplan.cluster.state import pod_key
        from bayplan.cluster.what_if.changes import Changed
        from bayplan.extensions import misspelt_groups
        from bayplan.kube.repeated_objects import leave_out_repeated
        from bayplan.workloads.grouped import Grouped

        assumed = as_assumed(objects, source) if state is None else Changed(objects)
        self.objects = assumed.objects
        self.drained = frozenset(pod_key(pod) for pod in assumed.waiting_again)
        self.source = source
        self._is_assumed = is_assumed()
        self.configuration = configuration
        self.refused: dict[str, str] = {}
        """Why the API server would refuse pods of `-f`, by their keys."""
        self._profiles = profiles
        if state is None and not self.runs:
            leave_out_repeated(self.objects)
            warn(self._admit())
        if owners and self.runs:
            self._read_owners()
        self.grouped = group_by_owners(self.objects, self.grouping) if owners else Grouped()
        if state is None:
            self.state = load_state(self.objects, live_at=time() if self.runs else None, assumptions=self.assumptions)
        else:
            self.state = state
            relabel(state, self.grouped.pods)
        warn([*misspelt_groups(), *self.problems()])

    def problems(self) -> list[str]:
        """What users should know about the objects."""
        from bayplan.cli.shared.workloads import unused_kinds
        from bayplan.kube.errors import left_out

        ignored = unused_kinds(self.objects, self.grouping)
        problems = [left_out(error) for error in self.objects.left_out]
        problems += [*self.objects.remarks, *map(str, self.state.remarks)]
        if self.state.rows and not any(self.state.reports):
            problems.insert(0, f"the {self.source} has no NodeResourceTopology: NUMA zones are unknown on every node")
        if not self.runs and not self.objects.nodes:
            written = "kubectl get nodes,pods,noderesourcetopologies -A -o json"
            problems.insert(0, f"the {self.source} has no Node; {written} writes one that has")
        return problems + ([f"not used: {ignored}"] if ignored else [])

    @classmethod
    def open(
        cls,
        cluster: Sequence[Path],
        config: Path | None = None,
        scheduler_name: str | None = None,
        objects: ObjectSet | None = None,
        *,
        owners: bool = False,
        state: ClusterState | None = None,
    ) -> ClusterSession:
        """Read what the options of a command name; `objects` are those of the cluster if they are known already, and
        `state` is made of them.

        Commands that decide about pods of the cluster need their `owners`.
        """
        if objects is None:
            objects = read_cluster_files(cluster) if cluster else read_live()
        if config is None and scheduler_name is not None:
            raise click.UsageError("--scheduler-name chooses a profile of --config, which is not given")
        written = None if config is None else read_configuration(STDIN if config == STANDARD_INPUT else config)
        configuration = None if written is None else written.document
        profiles = profiles_in(written)
        source = "dump" if cluster else LIVE
        if scheduler_name is None:
            return cls(objects, configuration, profiles, source, owners=owners, state=state)
        if scheduler_name not in profiles:
            raise click.UsageError(
                f"--scheduler-name: '{scheduler_name}' is not in {config}; it has {', '.join(profiles)}"
            )
        chosen = {scheduler_name: profiles[scheduler_name]}
        return cls(objects, configuration, chosen, source, owners=owners, state=state)

    @cached_property
    def grouping(self) -> GroupingSettings:
        """How workloads become gangs: bayplan's kinds,
        and those of `--grouping-rules` and of rule files in the dump.
        """
        from bayplan.cli.options.grouping import grouping_settings
        from bayplan.grouping.group import with_rules
        from bayplan.grouping.rules import rules_of

        settings = grouping_settings("bayplan", kept("grouping_rules"))
        for source, document in self.objects.rule_documents:
            settings = with_rules(settings, rules_of(document, str(source)))
        return settings

    def read_named(
        self, text: str, kinds: Sequence[tuple[str, str]], name: str, namespace: str | None
    ) -> list[OtherObject]:
        """In a cluster that runs: the objects of a kind with a name, and those above them, now among the objects."""
        if not self.runs:
            return []
        from bayplan.kube.client.named_objects import read_named

        pods = self.objects.pods
        found = asked_live(lambda access: read_named(access, text, kinds, name, namespace, pods))
        self.objects.others += found
        return found

    def _read_owners(self) -> None:
        """Read the owners of ungrouped pods, and of the pods beside them, from a running cluster,
        and add them to the objects.
        """
        from bayplan.grouping.group import awaits_look
        from bayplan.kube.client.named_objects import MOST_OWNERS, read_owners

        waiting = [pod for pod in self.objects.pods if not pod.spec.node_name and awaits_look(pod)]
        ours = [pod for pod in waiting if not self.is_stranger(pod)]
        if not ours:
            return
        found, left_out = asked_live(lambda access: read_owners(access, ours, self.objects.pods))
        self.objects.others += found
        if left_out:
            warn([f"pods wait for more than {MOST_OWNERS} owners: {left_out} of them are not read"])

    def _admit(self) -> list[str]:
        """Set the priorities of a dump's pods; a cluster that runs has admitted its pods."""
        from bayplan.cli.shared.admission import admit_cluster

        return admit_cluster(self.objects, self.priority_classes(), self.source)

    def priority_classes(self, work: ObjectSet | None = None) -> PriorityClasses:
        """The PriorityClasses of the cluster and of `-f`."""
        from bayplan.kube.priority_classes import PriorityClasses

        written = [*self._priority_classes_of_cluster, *(work.priority_classes if work is not None else ())]
        return PriorityClasses(written, complete=bool(written))

    @cached_property
    def _priority_classes_of_cluster(self) -> list[PriorityClass]:
        """Those of the dump; of a cluster that runs, read when they are needed."""
        if self.runs and not self.objects.priority_classes:
            from bayplan.kube.client.live import read_priority_classes

            self.objects.priority_classes = asked_live(read_priority_classes)
        return self.objects.priority_classes

    @property
    def runs(self) -> bool:
        """Whether this is a cluster that runs."""
        return self.source == LIVE

    @property
    def now(self) -> datetime:
        """The present; of a dump the newest moment that its objects name."""
        from bayplan.cluster.loading import newest_moment

        newest = None if self.runs else newest_moment(self.objects.pods, self.state.reports)
        return datetime.now(UTC) if newest is None else datetime.fromtimestamp(newest, UTC)

    @cached_property
    def trees(self) -> Trees:
        """The trees of the Topology objects, and that of the HyperNodes."""
        from bayplan.gangs.trees import Trees
        from bayplan.kube.errors import InvalidObject, left_out
        from bayplan.kube.topology_levels import aliases_of, levels_of

        trees = Trees(self.state)
        for topology in self.objects.levels:
            try:
                levels, aliases = levels_of(topology), aliases_of(topology)
            except InvalidObject as error:
                warn([left_out(self.objects.naming_the_file(error, topology))])
                continue
            trees.set(topology.metadata.name, levels, aliases, topology.system)
        for hyper_node in self.objects.hyper_nodes:
            trees.set_hyper_node(hyper_node)
        return trees

    @property
    def assumptions(self) -> Assumptions:
        """What the (first) profile believes about kubelets that do not say how they are configured."""
        from bayplan.cluster.reports.kubelet_settings import Assumptions

        topology = next(iter(self._profiles.values())).topology
        return topology.arguments.assumptions if topology else Assumptions()

    def row_of(self, node: str) -> int:
        """The row of a node named on the command line, NAME or node/NAME, as kubectl takes it."""
        return self.state.rows[node_named(node, self.state.rows, self.source)]

    def refuse_if_there(self, pod: Pod) -> None:
        """A pod that is on a node already cannot be placed once more."""
        from bayplan.cluster.state import pod_key
        from bayplan.kube.errors import InvalidObject, ObjectPath

        placed = self.state.pods.get(pod_key(pod))
        if placed is not None:
            node = self.state.names[placed.row]
            raise InvalidObject(
                ObjectPath.of(pod), f"is already on node {node}; to place another one like it, give it another name"
            )

    @property
    def schedulers(self) -> list[str]:
        """The names of the profiles, by which pods choose them."""
        return list(self._profiles)

    def held_back(self, pod: Pod) -> str:
        """Why a pod must not be placed whatever nodes offer; empty if it can."""
        from bayplan.cluster.state import pod_key

        return self.grouped.held_back(pod) or self.refused.get(pod_key(pod), "")

    def is_stranger(self, pod: Pod) -> bool:
        """Whether a pod of a running cluster waits for another scheduler.

        In a dump, and in a cluster that is assumed, every pod is judged, regardless of its scheduler.
        """
        return (
            self.runs
            and not self._is_assumed
            and not pod.spec.node_name
            and pod.spec.scheduler_name not in self._profiles
        )

    def ignored_annotations(self, pod: Pod) -> list[ObjectRemark]:
        """Remarks on annotations of a pod whose plugins its profile disables."""
        from bayplan.cluster.reports.numa_policy import ignored_annotations

        profile = self.profile_for(pod)
        return ignored_annotations(pod, profile.name, profile.filter_names)

    def profile_for(self, pod: Pod) -> Profile:
        """The profile named by the pod; the first one for pods that leave the choice to the cluster."""
        first = next(iter(self._profiles.values()))
        name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
        if len(self._profiles) == 1 or (name == DEFAULT_SCHEDULER and name not in self._profiles):
            return first
        if name not in self._profiles:
            known = ", ".join(self._profiles)
            raise click.UsageError(
                f"pod {pod.metadata.name} names scheduler '{name}', but --config has {known}: "
                "choose with --scheduler-name"
            )
        return self._profiles[name]
