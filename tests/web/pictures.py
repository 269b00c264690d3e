"""`make web-pictures`: the screens of docs/web.md, from the examples, with the distribution's Chromium."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.web.chromium import browser_program, opened_page
from tests.web.conftest import EXAMPLES
from tests.web.running_web import running_web

IMAGES = Path(__file__).parents[2] / "docs" / "images"
# Cluster, address, picture.
PICTURES = (
    (EXAMPLES / "gangs" / "cluster.yaml", "/", "web-cluster.png"),
    (EXAMPLES / "cluster", "/node/telco-1", "web-node.png"),
    (EXAMPLES / "cluster", "/why/telco/pod/upf-large", "web-why.png"),
)


def main() -> None:
    program = browser_program()
    if program is None:
        sys.exit("make web-pictures needs chromium or google-chrome")
    with opened_page(program) as page:
        for cluster, address, name in PICTURES:
            with running_web("--cluster", str(cluster)) as web:
                page.size(1100, 700)
                page.open(f"{web.url}{address}")
                page.picture(IMAGES / name)


if __name__ == "__main__":
    main()
