"""Write the simulation's figures and picture into the README, as the command itself prints them: `make figures`.

`python -m benchmarks.figures --check` changes nothing and fails if the README says anything else; `make test` runs it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "simulation.svg"
SCENARIO = "examples/scenarios/demo.yaml"
BEGIN, END = "<!-- figures: begin (make figures) -->\n", "<!-- figures: end -->\n"


def main(arguments: list[str]) -> int:
    """Write or check; 1 if the README is not what the command says."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "simulation.svg"
        text = simulated(picture)
        drawn = picture.read_text()
    before = README.read_text()
    head, _, rest = before.partition(BEGIN)
    _, _, tail = rest.partition(END)
    after = f"{head}{BEGIN}```\n$ bayplan simulate {SCENARIO}\n{text}```\n{END}{tail}"
    if arguments == ["--check"]:
        stale = [path.name for path, new in ((README, after), (PICTURE, drawn)) if path.read_text() != new]
        if stale:
            sys.stderr.write(f"{', '.join(stale)}: not what the simulation says now; run 'make figures'\n")
        return 1 if stale else 0
    README.write_text(after)
    PICTURE.write_text(drawn)
    return 0


def simulated(picture: Path) -> str:
    """The comparison as text; the parts about single workloads are left to those who run it."""
    command = [sys.executable, "-c", "from bayplan.cli.main import main; main()"]
    arguments = ["simulate", SCENARIO, "--picture", str(picture)]
    ran = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    sections = ran.stdout.split("\n\n")
    return "\n\n".join(sections[:3]).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
