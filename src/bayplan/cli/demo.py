"""`bayplan demo`: bayplan at work without a cluster, from the examples that come with it.

Each step is a command that users can type themselves, shown above its output.
"""

from __future__ import annotations

import os
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import click

from bayplan.cli.options.common import ExampleCommand
from bayplan.cli.shared.packaged import examples_folder
from bayplan.explain.folding import fitted, typed

OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)


class DemoStep(NamedTuple):
    """One question: what it shows, and the command.

    A word that begins with `examples/` is a file that comes with bayplan.
    """

    heading: str
    words: tuple[str, ...]


STEPS = (
    DemoStep(
        "A pod that waits in a recorded cluster. Why?",
        ("why", "telco/upf-large", "--cluster", "examples/cluster"),
    ),
    DemoStep(
        "Where pods would stand: the NUMA zones of telco-1 after placing those of examples/pods",
        ("numa", "telco-1", "--cluster", "examples/cluster", "-f", "examples/pods"),
    ),
    DemoStep(
        "A gang of 16 pods, together in one block and in few racks",
        ("place", "-f", "examples/gangs/pretrain.yaml", "--cluster", "examples/gangs/cluster.yaml"),
    ),
)
# How a line begins that readers may type.
COMMANDS = ("   $ ", "     ")
NEXT = """
-- Try next

   on your own cluster
     kubectl get nodes,pods,noderesourcetopologies,jobs,statefulsets,replicasets,deployments -A -o json > cluster.json
     bayplan place -f your-pod.yaml --cluster cluster.json
   gangs against a scheduler that does not know them
     bayplan simulate gangs
   a scenario of your own: start from {scenarios}, see docs/scenarios.md
   where pods would go, and what every plugin says
     bayplan place -f {pods} --cluster {cluster} -o wide
   every option: bayplan --help, or docs/commands.md"""


@click.command(cls=ExampleCommand, examples=("demo", "demo --report demo.html            # and a page with pictures"))
@click.option("--report", type=OUTPUT_FILE, metavar="FILE", help="Also write the simulation as one HTML page.")
@click.option("--picture", type=OUTPUT_FILE, metavar="FILE", help="Also write the NUMA zones as one SVG.")
def demo(report: Path | None, picture: Path | None) -> int:
    """Show bayplan at work, without a cluster.

    Simulates 72 nodes under three schedulers, then queries a recorded cluster and places a gang.
    """
    # A command that answers "no" ends with 1, which is part of the story.
    page = ["--report", str(report)] if report else []
    code = _run(["simulate", _here("examples/scenarios/demo.yaml"), *page])
    if report:
        _show(f"\n   Time lines, every node, and NUMA maps of up to three nodes at the end: {report}")
    for step in STEPS:
        words = [_here(word) for word in step.words]
        _show(f"\n-- {step.heading}\n   $ bayplan {shlex.join(words)}\n")
        code = max(code, _run(words))
        if picture and words[0] == "numa":
            with picture.open("w", encoding="utf-8") as file, redirect_stdout(file):
                _run([*words, "-o", "svg"])
            _show(f"\n   The same as a picture: {picture}")
    files = {name: _here(f"examples/{name}") for name in ("pods", "cluster")}
    _show(NEXT.format(scenarios=_here("examples/scenarios/two-nodes.yaml"), **files))
    return code


def _show(text: str) -> None:
    for line in text.split("\n"):
        click.echo("\n".join(typed(line) if line.startswith(COMMANDS) else fitted(line)))


def _run(words: list[str]) -> int:
    """The exit code, without that of an answer that is "no"."""
    from bayplan.cli.program import run

    code = run(["bayplan", *words])
    return 0 if code == 1 else code


def _here(word: str) -> str:
    """The path of a file that comes with bayplan, relative to the current folder where that is shorter."""
    first, _, rest = word.partition("/")
    if first != "examples" or not rest:
        return word
    path = str(examples_folder() / rest)
    return min(path, os.path.relpath(path), key=len)
