"""`make web-pictures`: the screens of docs/web.md, from the examples, with the distribution's Chromium."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.web.chromium import browser_program, opened_page
from tests.web.conftest import EXAMPLES
from tests.web.running_web import running_simulation, running_web

IMAGES = Path(__file__).parents[2] / "docs" / "images"
HIGHEST = 1300
# Cluster, address, picture, and how high the window is: maps are as large as it allows.
PICTURES = (
    (EXAMPLES / "gangs" / "cluster.yaml", "/", "web-cluster.png", 700),
    (EXAMPLES / "cluster", "/node/telco-1", "web-node.png", 700),
    (EXAMPLES / "gangs" / "cluster.yaml", "/gang/ml/finetune", "web-gang.png", HIGHEST),
    (EXAMPLES / "cluster", "/why/telco/pod/upf-large", "web-why.png", 700),
)
SCENARIO = EXAMPLES / "scenarios" / "demo.yaml"


def main() -> None:
    program = browser_program()
    if program is None:
        sys.exit("make web-pictures needs chromium or google-chrome")
    with opened_page(program) as page:
        for cluster, address, name, height in PICTURES:
            with running_web("--cluster", str(cluster)) as web:
                page.size(1100, height)
                page.open(f"{web.url}{address}")
                page.picture(IMAGES / name, HIGHEST)
        with running_web("--cluster", str(EXAMPLES / "gangs" / "cluster.yaml")) as web:
            page.size(1100, 700)
            page.open(f"{web.url}/what-if")
            manifest = (EXAMPLES / "gangs" / "pretrain.yaml").read_text(encoding="utf-8")
            page.run(f"document.querySelector('textarea').value = {manifest!r}")
            page.run("document.querySelector('form.card').requestSubmit()")
            page.until("document.querySelector('.matrix')")
            page.picture(IMAGES / "web-what-if.png", HIGHEST)
        with running_simulation(str(SCENARIO)) as web:
            page.call("Page.navigate", url=f"{web.url}/simulation")
            page.until("document.querySelector('.simulation .answer')")
            page.open(f"{web.url}/simulation?at=64")
            page.picture(IMAGES / "web-simulation.png", HIGHEST)


if __name__ == "__main__":
    main()
