"""Write the figures and pictures of the README as the commands themselves print them: `make figures`.

`python -m benchmarks.figures --check` changes nothing and fails if the README says anything else; `make test` runs it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
IMAGES = ROOT / "docs" / "images"
SCENARIO = "examples/scenarios/demo.yaml"
CLUSTER, GANGS = "examples/cluster", "examples/gangs"
PICTURES = {
    "numa.svg": ("numa", "telco-1", "--cluster", CLUSTER, "-f", "examples/pods", "-o", "svg"),
    "gang.svg": ("place", "-f", f"{GANGS}/pretrain.yaml", "--cluster", f"{GANGS}/cluster.yaml", "-o", "svg"),
}
THEMES = ("light", "dark")
BEGIN, END = "<!-- figures: begin (make figures) -->\n", "<!-- figures: end -->\n"


def main(arguments: list[str]) -> int:
    """Write or check; 1 if the README is not what the commands say."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        simulations = [pool.submit(simulated, theme) for theme in THEMES]
        others = {
            image(name, theme): (*command, "--theme", theme) for name, command in PICTURES.items() for theme in THEMES
        }
        drawn = dict(zip(others, pool.map(lambda command: printed(*command), others.values()), strict=True))
    for theme, simulation in zip(THEMES, simulations, strict=True):
        drawn[image("simulation.svg", theme)] = simulation.result()[1]
    text = simulations[0].result()[0]
    before = README.read_text()
    head, _, rest = before.partition(BEGIN)
    _, _, tail = rest.partition(END)
    after = f"{head}{BEGIN}```\n$ bayplan simulate {SCENARIO}\n{text}```\n{END}{tail}"
    if arguments == ["--check"]:
        stale = [path.name for path, new in {README: after, **drawn}.items() if path.read_text() != new]
        if stale:
            sys.stderr.write(f"{', '.join(stale)}: not what the commands say now; run 'make figures'\n")
        return 1 if stale else 0
    for path, new in {README: after, **drawn}.items():
        path.write_text(new)
    return 0


def image(name: str, theme: str) -> Path:
    """Where a picture is kept: `numa.svg`, and `numa-dark.svg` for readers of dark pages."""
    return IMAGES / (name if theme == "light" else name.replace(".svg", f"-{theme}.svg"))


def simulated(theme: str) -> tuple[str, str]:
    """The comparison as text, without the parts about single workloads, and its picture."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "simulation.svg"
        sections = printed("simulate", SCENARIO, "--picture", str(picture), "--theme", theme).split("\n\n")
        return "\n\n".join(sections[:3]).rstrip() + "\n", picture.read_text()


def printed(*arguments: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-c", "from bayplan.cli.main import main; main()", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
