"""What the commands share: their options, their help with examples first, and the cluster they read.

`ClusterSession` is a cluster loaded from files together with the profiles to judge by; each command asks it for what it
needs. Imports of the rooms below stand inside the functions: a `--help` must not wait for numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import cached_property
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.cli.shared.configuration_file import ConfigurationFile, read_configuration
from bayplan.cli.shared.flags import file_size_option, with_equals_signs_removed
from bayplan.cli.shared.output import screen_width, warn

if TYPE_CHECKING:
    from bayplan.cluster.reports.kubelet_settings import Assumptions
    from bayplan.cluster.reports.topology_report import ObjectRemark
    from bayplan.gangs.trees import Trees
    from bayplan.grouping.group import GroupingSettings
    from bayplan.kube.client.access import Access
    from bayplan.kube.files import Strictness
    from bayplan.kube.object_set import ObjectSet, OtherObject
    from bayplan.kube.wire.core_v1 import Pod
    from bayplan.scheduling.profile import Profile

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Answer = TypeVar("_Answer")

STDIN = Path("/dev/stdin")
STANDARD_INPUT = Path("-")
# What the API server writes into pods that name no scheduler.
DEFAULT_SCHEDULER = "default-scheduler"
# Where objects come from that are not read from files.
LIVE = "cluster"


class _FileOrFolder(click.Path):
    """A path, or `-` for standard input, which is there only once."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Whether the path can be read is found out, with a better message, when it is read."""
        path = super().convert(value, param, ctx)
        if ctx is not None and path == STANDARD_INPUT:
            if ctx.meta.get(__name__):
                raise click.UsageError("'-' is standard input, which can be read only once: give it to one option", ctx)
            ctx.meta[__name__] = True
        return path


FILE_OR_FOLDER = _FileOrFolder(path_type=Path, allow_dash=True)


class ExampleCommand(click.Command):
    """A command whose help begins with what people type most."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Short options take their value as kubectl's do, `-o=json` included."""
        return super().parse_args(ctx, with_equals_signs_removed(args, self.params))

    def invoke(self, ctx: click.Context) -> Any:
        """Tables fit the terminal, if there is one."""
        from bayplan.explain.table import fitting

        with fitting(screen_width()):
            return super().invoke(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples, then the text."""
        program = ctx.find_root().info_name or "bayplan"
        formatter.write("\nExamples:\n")
        for example in self.examples:
            formatter.write(f"  {program} {example}\n")
        super().format_help_text(ctx, formatter)


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Only `ClusterSession.open` reads these, so no command has to pass them on."""
    ctx.meta[f"{__name__}.{param.name}"] = value


def pods_option(*, required: bool, help_text: str) -> Callable[[_Function], _Function]:
    """`-f`: files or folders with pods; `--validate`: what becomes of fields in them that Kubernetes does not know."""
    files = click.option(
        "-f",
        "--filename",
        "files",
        type=FILE_OR_FOLDER,
        multiple=True,
        required=required,
        metavar="PATH",
        help=help_text,
    )
    validate = click.option(
        "--validate",
        type=click.Choice(["strict", "warn", "ignore"]),
        default="strict",
        show_default=True,
        expose_value=False,
        callback=_keep,
        help="Unknown and repeated fields in -f: an error, a warning, or nothing. All else that an API server would "
        "refuse is always an error, and so are unknown fields of bayplan's own PodGroup.",
    )
    return lambda function: files(validate(function))


def kubeconfig_options(function: _Function) -> _Function:
    """`--kubeconfig` and `--context`, for commands that read a running cluster and nothing else.

    `asked_live` uses them.
    """
    context = click.option(
        "--context", metavar="NAME", expose_value=False, callback=_keep, help="Which context of the kubeconfig."
    )
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        expose_value=False,
        callback=_keep,
        help="How to reach the cluster. [default: as kubectl finds it]",
    )
    return kubeconfig(context(function))


def cluster_options(function: _Function) -> _Function:
    """The options of every command that judges pods on a cluster: a dump of one, or one that runs."""
    for option in reversed(
        (
            click.option(
                "--cluster",
                "cluster",
                type=FILE_OR_FOLDER,
                multiple=True,
                metavar="PATH",
                help="File or folder with nodes, pods, NodeResourceTopologies, Topologies and PodGroups (JSON or YAML, "
                "also .gz); "
                "'-' for standard input. May be given several times. Without it: the cluster that kubectl would ask.",
            ),
            click.option(
                "--kubeconfig",
                metavar="FILE",
                expose_value=False,
                callback=_keep,
                help="How to reach the cluster, if no --cluster is given. [default: as kubectl finds it]",
            ),
            click.option(
                "--context",
                metavar="NAME",
                expose_value=False,
                callback=_keep,
                help="Which context of the kubeconfig.",
            ),
            click.option(
                "--config",
                type=FILE_OR_FOLDER,
                metavar="FILE",
                help="A KubeSchedulerConfiguration, or a ConfigMap that holds one. Without it: bayplan's default profile.",
            ),
            click.option(
                "--scheduler-name",
                metavar="NAME",
                help="Which profile of --config to use. Without it: the one a pod names, else the first.",
            ),
            click.option(
                "--grouping-rules",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                metavar="FILE",
                expose_value=False,
                callback=_keep,
                help="Rules for further kinds of workloads, or others for known ones.",
            ),
            file_size_option,
        )
    ):
        function = option(function)
    return function


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
    ) -> None:
        from bayplan.cli.shared.workloads import group_by_owners, unused_kinds
        from bayplan.cluster.loading import load_state
        from bayplan.workloads.grouped import Grouped

        self.objects = objects
        self.source = source
        self.configuration = configuration
        self._profiles = profiles
        if owners and self.runs:
            self._read_owners()
        self.grouped = group_by_owners(objects, self.grouping) if owners else Grouped()
        self.state = load_state(self.objects, live_at=time() if self.runs else None, assumptions=self.assumptions)
        ignored = unused_kinds(self.objects, self.grouping)
        problems = [f"{error}: the object is left out" for error in objects.left_out]
        problems += [*objects.remarks, *map(str, self.state.remarks)]
        if self.state.rows and not any(self.state.reports):
            problems.insert(0, f"the {source} has no NodeResourceTopology: NUMA zones are unknown on every node")
        warn(problems + ([f"not used: {ignored}"] if ignored else []))

    @classmethod
    def open(
        cls,
        cluster: Sequence[Path],
        config: Path | None = None,
        scheduler_name: str | None = None,
        objects: ObjectSet | None = None,
        *,
        owners: bool = False,
    ) -> ClusterSession:
        """Read what the options of a command name; `objects` are those of the cluster if they are known already.

        Commands that decide about pods of the cluster need their `owners`.
        """
        if objects is None:
            objects = _read(cluster) if cluster else _read_live()
        if config is None and scheduler_name is not None:
            raise click.UsageError("--scheduler-name chooses a profile of --config, which is not given")
        written = None if config is None else read_configuration(STDIN if config == STANDARD_INPUT else config)
        configuration = None if written is None else written.document
        profiles = profiles_in(written)
        source = "dump" if cluster else LIVE
        if scheduler_name is None:
            return cls(objects, configuration, profiles, source, owners=owners)
        if scheduler_name not in profiles:
            raise click.UsageError(
                f"--scheduler-name: '{scheduler_name}' is not in {config}; it has {', '.join(profiles)}"
            )
        return cls(objects, configuration, {scheduler_name: profiles[scheduler_name]}, source, owners=owners)

    @cached_property
    def grouping(self) -> GroupingSettings:
        """How workloads become gangs: bayplan's kinds, and those of `--grouping-rules` and of rule files in the dump."""
        from bayplan.cli.shared.grouping_options import grouping_settings
        from bayplan.grouping.group import with_rules
        from bayplan.grouping.rules import rules_of

        context = click.get_current_context(silent=True)
        file = None if context is None else context.meta.get(f"{__name__}.grouping_rules")
        settings = grouping_settings("bayplan", file)
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
        """Read the owners of ungrouped pods, and of the pods beside them, from a running cluster, and add them to the objects."""
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

    @property
    def runs(self) -> bool:
        """Whether this is a cluster that runs."""
        return self.source == LIVE

    @cached_property
    def trees(self) -> Trees:
        """The trees of the Topology objects, and that of the HyperNodes.

        A Topology that appears twice, as Kueue's and as KAI's, counts as it was read last. Where the two differ, that
        is a warning.
        """
        from bayplan.gangs.trees import Trees
        from bayplan.kube.errors import InvalidObject
        from bayplan.kube.topology_levels import aliases_of, levels_of

        trees = Trees(self.state)
        known: dict[str, tuple[str, ...]] = {}
        for topology in self.objects.levels:
            name = topology.metadata.name
            try:
                levels, aliases = levels_of(topology), aliases_of(topology)
            except InvalidObject as error:
                warn([f"{self.objects.naming_the_file(error, topology)}: the object is left out"])
                continue
            if known.setdefault(name, levels) != levels:
                warn(
                    [f"Topology {name}: there are two with different levels; {', '.join(levels)} counts, the last one"]
                )
            trees.set(name, levels, aliases)
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
        from difflib import get_close_matches

        from bayplan.explain.amounts import count

        kind, _, name = node.rpartition("/")
        name = name if kind in ("node", "nodes", "no") else node
        row = self.state.rows.get(name)
        if row is None:
            close = get_close_matches(name, self.state.rows, n=3, cutoff=0.5)
            hint = (
                f"; did you mean {' or '.join(close)}?"
                if close
                else f"; the {self.source} has {count(len(self.state.rows), 'node')}"
            )
            raise click.ClickException(f"there is no node '{name}' in the {self.source}{hint}")
        return row

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

    def is_stranger(self, pod: Pod) -> bool:
        """Whether a pod of a running cluster waits for another scheduler.

        In a dump every pod is judged, regardless of its scheduler.
        """
        return self.runs and not pod.spec.node_name and pod.spec.scheduler_name not in self._profiles

    def ignored_annotations(self, pod: Pod) -> list[ObjectRemark]:
        """What is said about annotations of a pod whose plugins its profile disables."""
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
                f"pod {pod.metadata.name} names scheduler '{name}', but --config has {known}: choose with --scheduler-name"
            )
        return self._profiles[name]


def read_all(paths: Sequence[Path]) -> ObjectSet:
    """The objects that `-f` submits, as one set. Pods are looked at at once, so that an error names the file.

    A folder may hold the file of `--cluster` as well, which is not submitted.
    """
    from bayplan.cluster.pods.pod_class import PodClasses
    from bayplan.kube.errors import InvalidObject
    from bayplan.kube.files import Strictness

    context = click.get_current_context(silent=True)
    validate = None if context is None else context.meta.get(f"{__name__}.validate")
    dumps = () if context is None else context.params.get("cluster") or ()
    found = _read(paths, Strictness(validate or "strict"), [dump for dump in dumps if dump.is_file()])
    warn(found.remarks)
    classes = PodClasses()
    for pod in found.pods:
        try:
            classes.of(pod)
        except InvalidObject as error:
            raise found.naming_the_file(error, pod) from None
    return found


def read_cluster_files(paths: Sequence[Path]) -> ObjectSet:
    """The objects of a cluster in files."""
    return _read(paths)


def live_access() -> Access:
    """How to reach the cluster that the options of the running command name."""
    from bayplan.kube.client.access import find_access
    from bayplan.kube.client.credentials import AccessError

    meta = click.get_current_context().meta
    try:
        return find_access(meta.get(f"{__name__}.kubeconfig"), meta.get(f"{__name__}.context"))
    except AccessError as error:
        raise click.ClickException(f"{error}; a dump can be given with --cluster FILE") from None


def _read(paths: Sequence[Path], submitted: Strictness | None = None, without: Sequence[Path] = ()) -> ObjectSet:
    """The objects of several files or folders, `-` being standard input; of a cluster unless they are submitted."""
    from bayplan.kube.files import read_objects
    from bayplan.kube.object_set import ObjectSet

    found = ObjectSet()
    for path in paths:
        found.add(read_objects(STDIN if path == STANDARD_INPUT else path, submitted, without))
    return found


def _read_live() -> ObjectSet:
    """The objects of the cluster that the kubeconfig names."""
    from bayplan.kube.client.live import read_cluster

    found, problems = asked_live(read_cluster)
    warn_unused(problems)
    return found


def asked_live(
    question: Callable[[Access], Coroutine[Any, Any, _Answer]], instead: str = "a dump can be given with --cluster FILE"
) -> _Answer:
    """What the cluster that the kubeconfig names answers.

    Errors say what to do, `instead` where there is no cluster.
    """
    import asyncio

    from bayplan.kube.client.access import find_access
    from bayplan.kube.client.client import ApiError, Unreachable
    from bayplan.kube.client.credentials import AccessError

    meta = click.get_current_context().meta
    try:
        access = find_access(meta.get(f"{__name__}.kubeconfig"), meta.get(f"{__name__}.context"))
        return asyncio.run(question(access))
    except AccessError as error:
        raise click.ClickException(f"{error}; {instead}") from None
    except (ApiError, Unreachable) as error:
        raise click.ClickException(f"cannot read the cluster: {error}") from None


def warn_unused(problems: Sequence[str]) -> None:
    """Say what of a cluster could not be read."""
    warn([f"not used: {problem}" for problem in problems])


def profiles_in(written: ConfigurationFile | None) -> dict[str, Profile]:
    """The profiles of a configuration, bayplan's default without one; what is wrong with it is said with its source."""
    from bayplan.config.configuration import ConfigurationError, configuration_of
    from bayplan.plugins.node_resource_topology_args import ArgumentError
    from bayplan.scheduling.profile import default_profile

    if written is None:
        profile = default_profile()
        return {profile.name: profile}
    try:
        read = configuration_of(written.document)
    except (ConfigurationError, ArgumentError) as error:
        raise ConfigurationError(written.located(str(error))) from None
    warn([f"{written.source}: {remark}" for remark in read.remarks])
    return read.profiles
