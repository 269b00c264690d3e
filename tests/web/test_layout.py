"""Text on the page: nothing lies on something else, and no number is cut in two, from a phone's width to a wall's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.bodies import BLOCK, RACK, list_body, node_body, pod_body, report_body, topology_body
from tests.builders.objects import zone
from tests.running_commands import PROGRAM
from tests.web.chromium import Page
from tests.web.conftest import EXAMPLES
from tests.web.running_web import RunningWeb, running_web

WIDTHS = (360, 390, 520, 640, 700, 820, 1000, 1200, 1400, 1600, 1920, 2560)
NODE, WAITING = "worker-0.example.internal", "waits-for-more-than-there-is"
# Texts of which one covers another or touches it, and numbers on two lines; text that is scrolled out of sight is not
# on the page.
COLLISIONS = r"""(() => {
  const found = [], lines = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const rects = (node, from, to) => {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    const frame = node.parentElement.closest('.scroll')?.getBoundingClientRect();
    const inside = (each) => !frame || (each.right <= frame.right + 1 && each.left >= frame.left - 1);
    return [...range.getClientRects()].filter((each) => each.width > 0 && each.left >= 0 && inside(each));
  };
  for (let node; (node = walker.nextNode()); ) {
    const { data, parentElement } = node;
    if (!data.trim() || !parentElement.checkVisibility() || parentElement.closest('option, textarea')) continue;
    rects(node, 0, data.length).forEach((rect) => lines.push({ rect, data }));
    for (const number of data.matchAll(/(?<!\S)-?\d[\d.,]*(?:[A-Za-z]+| %)?(?![^\s,;:)])/g))
      if (new Set(rects(node, number.index, number.index + number[0].length).map((each) => each.top)).size > 1)
        found.push(`${number[0]} is on two lines`);
  }
  lines.sort((one, other) => one.rect.left - other.rect.left);
  lines.forEach((one, at) => {
    for (const other of lines.slice(at + 1)) {
      const [a, b] = [one.rect, other.rect];
      if (b.left > a.right + 3) break;
      if (Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) < 4) continue;
      if (b.left < a.right - 1) found.push(`${one.data} lies on ${other.data}`);
      else if (/[\w)]$/.test(one.data) && /^[\w(]/.test(other.data)) found.push(`${one.data} touches ${other.data}`);
    }
  });
  if (document.documentElement.scrollWidth > innerWidth) found.push(`${document.documentElement.scrollWidth} wide`);
  return found;
})()"""


@pytest.fixture(scope="module")
def eight_zones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWeb]:
    """A node of eight zones in two packages, with long names of resources and pods."""
    amounts = {"cpu": "30", "memory": "85Gi", "hugepages-1Gi": "8Gi", "example.com/sriov_f1u_pool": "8"}
    distances = [{to: 10 if to == at else 12 if to // 4 == at // 4 else 32 for to in range(8)} for at in range(8)]
    items = [
        topology_body(),
        node_body(NODE, {"cpu": "240", "memory": "680Gi"}, **{BLOCK: "b1", RACK: "r1"}),
        report_body(NODE, *(zone(at, amounts, distances[at]) for at in range(8))),
        pod_body(
            "user-plane-function-5d8c7b9f6d-k8x2z",
            "telco",
            {"cpu": "4", "memory": "1Gi"},
            annotations={"bayplan.io/numa-zones": json.dumps({"main": [1]})},
            phase="Running",
            nodeName=NODE,
        ),
        pod_body(WAITING, "telco", {"cpu": "4000", "memory": "1Gi"}),
    ]
    file: Path = tmp_path_factory.mktemp("layout") / "cluster.json"
    file.write_text(json.dumps(list_body(items)))
    with running_web("--cluster", str(file)) as web:
        yield web


@pytest.mark.parametrize(
    "cluster,path",
    [
        *[("eight_zones", path) for path in ("/", f"/node/{NODE}", "/why", f"/why/telco/pod/{WAITING}", "/what-if")],
        *[("gangs", path) for path in ("/", "/gangs", "/gang/ml/finetune")],
    ],
)
def test_no_text_collides_at_any_width(request: pytest.FixtureRequest, page: Page, cluster: str, path: str) -> None:
    web: RunningWeb = request.getfixturevalue(cluster)
    page.open(f"{web.url}{path}")
    for width in WIDTHS:
        page.size(width, 900)
        assert (width, page.run(COLLISIONS)) == (width, [])


def test_the_contestants_of_a_report_are_side_by_side(page: Page, tmp_path: Path) -> None:
    file, scenario = tmp_path / "report.html", str(EXAMPLES / "scenarios" / "late-reports.yaml")
    subprocess.run([*PROGRAM, "simulate", scenario, "--report", str(file)], check=True, capture_output=True)
    page.size(1200, 900)
    page.call("Page.navigate", url=file.as_uri())
    page.until(f"document.readyState === 'complete' && location.href === {file.as_uri()!r}")
    for parts in (".columns > article", ".maps figure"):
        tops = page.run(f"[...document.querySelectorAll({parts!r})].map((each) => each.getBoundingClientRect().top)")
        assert len(tops) > 1
        assert len(set(tops)) == 1
    assert page.run("document.documentElement.scrollWidth") <= 1200
    page.call("Page.navigate", url="about:blank")
