"""Shell completion: `bayplan completion SHELL`, and the program by which kubectl completes `kubectl bayplan`.

kubectl runs `kubectl_complete-bayplan` with the words typed so far, the last one incomplete or empty, and reads one
candidate per line (a tab goes before its description) and a last line `:NUMBER`, which says whether files are
candidates too. Names of nodes, pods and namespaces come from the cluster or the dump that the words name; where that
cannot be read in time there are none.
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
from bayplan.cli.shared.reading import asked_live
from bayplan.kube.visible import visible_lines

if TYPE_CHECKING:
    from bayplan.kube.client.access import Access
    from bayplan.kube.object_set import ObjectSet

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


def _completing(names: Callable[[ObjectSet, click.Context], Iterable[str]]) -> Candidates:
    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        try:
            with ctx.scope(cleanup=False):
                found = set(names(_objects(ctx.params.get("cluster") or ()), ctx))
        except Exception:
            if os.environ.get("BAYPLAN_DEBUG"):
                raise
            return []
        return sorted(name for name in found if name.startswith(incomplete) and name.isprintable())

    return complete


def _objects(cluster: Sequence[str | os.PathLike[str]]) -> ObjectSet:
    """Nodes and pods of the dump that `--cluster` names, or of the cluster that kubectl asks."""
    import asyncio
    from pathlib import Path

    from bayplan.kube.client.live import read_nodes_and_pods
    from bayplan.kube.files import read_objects
    from bayplan.kube.object_set import ObjectSet

    async def in_time(access: Access) -> ObjectSet:
        return await asyncio.wait_for(read_nodes_and_pods(access), LONGEST_WAIT)

    if not cluster:
        return asked_live(in_time)
    found = ObjectSet()
    for path in cluster:
        found.add(read_objects(Path(path)))
    return found


def _pods(objects: ObjectSet, ctx: click.Context) -> Iterable[str]:
    wanted = ctx.params.get("namespace")
    for pod in objects.pods:
        namespace = pod.metadata.namespace or "default"
        if wanted is None:
            yield f"{namespace}/{pod.metadata.name}"
        elif namespace == wanted:
            yield pod.metadata.name


node_names = _completing(lambda objects, _: (node.metadata.name for node in objects.nodes))
pod_names = _completing(_pods)
namespace_names = _completing(lambda objects, _: (pod.metadata.namespace or "default" for pod in objects.pods))
