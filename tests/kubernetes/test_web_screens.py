"""Every screen of the page about a live cluster: virtual kubelets, and a scheduler that serves the page itself."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.builders.bodies import RACK, gang_body, pod_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.test_end_to_end import SINGLE, SMALL, phases
from tests.kubernetes.virtual_nodes import virtual_nodes
from tests.web.chromium import browser_program, opened_page
from tests.web.running_web import RunningWeb
from tests.web.test_accessibility import serious_findings
from tests.web.test_beside import answers, free_port

GANG = 4
NODES = ("--machine", SMALL, "--nodes", "8", "--kubelet", SINGLE, "--tree", "block:2 rack:2", "--heartbeat", "0")


def test_every_screen_shows_what_the_scheduler_and_the_kubelets_did(plane: ControlPlane, namespace: str) -> None:
    program = browser_program()
    if program is None:
        pytest.skip("no chromium or google-chrome on this machine")
    port = free_port()
    web = RunningWeb(f"http://127.0.0.1:{port}")
    with (
        virtual_nodes(plane, *NODES),
        running_scheduler(plane, "--web-address", f"127.0.0.1:{port}"),
        opened_page(program) as page,
    ):
        plane.apply(gang_body("train", namespace, GANG, topology="network", required=RACK))
        for rank in range(GANG):
            plane.apply(pod_body(f"train-{rank}", namespace, {"cpu": 4, "memory": "4Gi"}, gang="train"))
        plane.apply(pod_body("too-large", namespace, {"cpu": 400, "memory": "4Gi"}))
        wait_until(lambda: phases(plane, namespace)["Running", ""] == GANG, "the gang runs", timeout=120)
        wait_until(lambda: answers(web), "the page is served", timeout=120)

        number = len(plane.get("/api/v1/nodes")["items"])
        page.open(f"{web.url}/")
        page.until(f"document.querySelector('.facts li').innerText === '{number} nodes'")

        page.open(f"{web.url}/gang/{namespace}/train")
        page.until(f"document.querySelectorAll('.matrix tbody tr').length === {GANG}")
        assert "required rack" in page.text(".facts")
        assert page.texts(".matrix tbody td")[0] == "0"

        node = plane.get(f"/api/v1/namespaces/{namespace}/pods/train-0")["spec"]["nodeName"]
        page.open(f"{web.url}/node/{node}")
        owner = f"document.querySelectorAll('.squares i[title=\"{namespace}/train-0\"]').length"
        page.until(f"{owner} === 4")

        page.open(f"{web.url}/why/{namespace}/pod/too-large")
        assert "does not fit" in page.text(".answer")
        assert page.texts(".bars b")[-1] == "0"

        page.open(f"{web.url}/what-if")
        page.run("document.querySelector('form.card').requestSubmit()")
        page.until("document.querySelector('.result .answer')")
        assert page.text(".result .answer").startswith("default/example fits")

        page.run("document.querySelector('nav a[href=\"/why\"]').click()")
        page.until(f"document.querySelector('main').innerText.includes('{namespace}/too-large')")
        page.run("window.marker = 'kept'")
        plane.delete(f"/api/v1/namespaces/{namespace}/pods/too-large")
        page.until(f"!document.querySelector('main').innerText.includes('{namespace}/too-large')")
        assert page.run("window.marker") == "kept"
        for path in ("/", f"/gang/{namespace}/train", f"/node/{node}", "/why"):
            for dark in (False, True):
                page.size(1280, 860, dark=dark)
                page.open(f"{web.url}{path}")
                assert serious_findings(page) == []
        assert page.errors == []
        assert {urlsplit(url).hostname for url in page.requests if url.startswith("http")} == {"127.0.0.1"}
    wait_until(lambda: not answers(web), "the page ends with the scheduler", timeout=60)
