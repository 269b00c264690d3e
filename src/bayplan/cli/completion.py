"""Shell completion: `bayplan completion SHELL`, and the program by which kubectl completes `kubectl bayplan`.

kubectl runs `kubectl_complete-bayplan` with the words typed so far, the last one incomplete or empty, and reads one
candidate per line (a tab goes before its description) and a last line `:NUMBER`, which says whether files are
candidates too. Names of nodes, pods, workloads, Topologies and resources come from the cluster or the dump that the
words name; where that cannot be read in time there are none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from bayplan.cli.options.common import ExampleCommand
from bayplan.cli.options.flags import COMPLETE_VARIABLE
from bayplan.cli.shared.packaged import scenario_names
from bayplan.cli.shared.reading import asked_live
from bayplan.kube.visible import visible_lines

if TYPE_CHECKING:
    from bayplan.kube.client.access import Access
    from bayplan.kube.object_set import ObjectSet
    from bayplan.kube.wire.core_v1 import OwnerReference, Pod

Candidates = Callable[[click.Context, click.Parameter, str], list[str]]

LONGEST_WAIT = 3.0  # seconds; people press Tab again, or go on typing
SHELLS = ("bash", "zsh", "fish")
# cobra's directives, which kubectl hands on to the shell.
FILES_TOO, NO_FILES = 0, 4


@click.command(
    cls=ExampleCommand,
    examples=(
        "completion bash > /etc/bash_completion.d/bayplan",
        "completion zsh > ~/.zsh/completion/_bayplan",
        "completion fish > ~/.config/fish/completions/bayplan.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
def completion(*, shell: str) -> int:
    """Print the completion script of a shell: commands, flags, and names of nodes, pods and namespaces.

    For `kubectl bayplan`, kubectl's own completion asks the program kubectl_complete-bayplan, which is installed beside
    bayplan.
    """
    from bayplan.cli.program import bayplan

    kind = get_completion_class(shell)
    assert kind is not None  # click has all of them
    script = kind(bayplan, {}, "bayplan", COMPLETE_VARIABLE)
    # `source` would ask the installed bash for its version, and warn where there is none.
    click.echo(script.source_template % script.source_vars())
    return 0


def main() -> None:
    """What `kubectl_complete-bayplan` runs."""
    from bayplan.cli.program import prepare

    prepare()
    click.echo(visible_lines(for_kubectl(sys.argv[1:])))


def for_kubectl(words: Sequence[str]) -> list[str]:
    """Candidates for the last word, in the form that kubectl reads."""
    from bayplan.cli.program import bayplan

    items: list[CompletionItem[str]] = []
    try:
        complete = ShellComplete(bayplan, {}, "kubectl bayplan", COMPLETE_VARIABLE)
        items = complete.get_completions(list(words[:-1]), words[-1] if words else "")
    except Exception:
        # Completion never fails: a wrong word is reported when the command runs.
        if os.environ.get("BAYPLAN_DEBUG"):
            raise
    lines = [f"{item.value}\t{item.help}" if item.help else item.value for item in items if item.type == "plain"]
    return [*lines, f":{FILES_TOO if any(item.type != 'plain' for item in items) else NO_FILES}"]


# -- names of things in the cluster ------------------------------------------------------------------------------------


def _completing(
    names: Callable[[ObjectSet, click.Context], Iterable[str]], *kinds: str, lists: bool = False
) -> Candidates:
    """Candidates from the objects of some kinds, by the names of `kube/resources.py`; `lists`: separated by commas."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if lists else ("", "", incomplete)
        try:
            with ctx.scope(cleanup=False):
                found = set(names(_objects(ctx.params.get("cluster") or (), kinds), ctx))
        except Exception:
            if os.environ.get("BAYPLAN_DEBUG"):
                raise
            return []
        fitting = sorted(name for name in found if name.startswith(last) and name.isprintable())
        return [f"{before}{comma}{name}" for name in fitting if name not in before.split(",")]

    return complete


def _objects(cluster: Sequence[str | os.PathLike[str]], kinds: Sequence[str]) -> ObjectSet:
    """The objects of the dump that `--cluster` names, or those of some kinds of the cluster that kubectl asks."""
    import asyncio
    from pathlib import Path

    from bayplan.kube import resources
    from bayplan.kube.client.live import read_some
    from bayplan.kube.files import read_objects
    from bayplan.kube.object_set import ObjectSet

    async def in_time(access: Access) -> ObjectSet:
        return await asyncio.wait_for(read_some(access, [getattr(resources, kind) for kind in kinds]), LONGEST_WAIT)

    found = ObjectSet()
    if not cluster and kinds:
        return asked_live(in_time)
    for path in cluster if kinds else ():
        found.add(read_objects(Path(path)))
    return found


def _pods(objects: ObjectSet, ctx: click.Context) -> Iterable[str]:
    """Pods, and the workloads and gangs above them, by the names that `why` takes."""
    from bayplan.kube.wire.core_v1 import Pod

    wanted = ctx.params.get("namespace")
    for each in (*objects.pods, *objects.gangs, *objects.other_gangs):
        namespace = each.metadata.namespace or "default"
        if wanted in (None, namespace):
            yield each.metadata.name if wanted else f"{namespace}/{each.metadata.name}"
            if isinstance(each, Pod):
                yield from (_workload(owner, each) for owner in each.metadata.owner_references or ())


def _workload(owner: OwnerReference, pod: Pod) -> str:
    """`job/train`; of the ReplicaSet of a Deployment, the Deployment."""
    of_template = f"-{(pod.metadata.labels or {}).get('pod-template-hash', '')}"
    if owner.kind == "ReplicaSet" and len(of_template) > 1 and owner.name.endswith(of_template):
        return f"deployment/{owner.name.removesuffix(of_template)}"
    return f"{owner.kind.lower()}/{owner.name}"


def _levels(objects: ObjectSet, ctx: click.Context) -> Iterable[str]:
    """The levels of the Topologies, or of the one that was named, and those below them."""
    named, labels = ctx.params.get("name"), (ctx.params.get("levels") or "").split(",")
    for topology in objects.levels:
        if named in (None, topology.metadata.name, f"{topology.system}/{topology.metadata.name}"):
            labels += [level.node_label for level in topology.spec.levels or ()]
    for label in filter(None, labels):
        yield from (label, label.rpartition("/")[2])
    yield from ("node", "numa")


def _level_labels(objects: ObjectSet, _: click.Context) -> Iterable[str]:
    """Labels of nodes that are called as levels usually are."""
    from bayplan.cli.shared.shapes import LEVEL_WORDS

    labels = {label for node in objects.nodes for label in node.metadata.labels or ()}
    return (label for label in labels if label.rpartition("/")[2] in LEVEL_WORDS)


def _schedulers(_objects: ObjectSet, _: click.Context) -> Iterable[str]:
    from bayplan.simulate.schedulers import ON_REQUEST, SCHEDULERS

    return (*SCHEDULERS, *ON_REQUEST)


def scenarios(_: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The scenarios that bayplan brings, and files."""
    names = [CompletionItem(name) for name in scenario_names() if name.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="file")]


TOPOLOGIES = ("KAI_TOPOLOGIES", "KUEUE_TOPOLOGIES")

node_names = _completing(lambda objects, _: (node.metadata.name for node in objects.nodes), "NODES")
pod_names = _completing(_pods, "PODS", "POD_GROUPS")
namespace_names = _completing(lambda objects, _: (pod.metadata.namespace or "default" for pod in objects.pods), "PODS")
topology_names = _completing(lambda objects, _: (each.metadata.name for each in objects.levels), *TOPOLOGIES)
level_names = _completing(_levels, *TOPOLOGIES)
labels_of_levels = _completing(_level_labels, "NODES", lists=True)
resource_names = _completing(
    lambda objects, _: (name for node in objects.nodes for name in node.status.allocatable or ()), "NODES"
)
scheduler_names = _completing(_schedulers, lists=True)
