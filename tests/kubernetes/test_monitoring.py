"""Alerting rules and dashboard in a real Prometheus that scrapes a real scheduler.

Needs `prometheus` and `promtool` on PATH (Debian: `apt install prometheus`).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.bodies import pod_body, topology_body
from tests.kubernetes.control_plane.objects import remove_namespace, remove_nodes
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.ports import LOOPBACK, free_port
from tests.kubernetes.control_plane.process import Process
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import RunningScheduler, running_scheduler
from tests.kubernetes.virtual_nodes import virtual_nodes
from tests.kubernetes.workloads import CRDS, ROOT, create_all, wait_until_told

MONITORING = ROOT / "deploy" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
QUERIES = [
    (panel["title"], target["expr"])
    for panel in DASHBOARD["panels"]
    if panel["type"] != "row"
    for target in panel["targets"]
]
ASKED = [each for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
# What happens in no test here, and has no series before it happens.
NEVER_HERE = {"Preemption", "Gang attempts by result"}
VARIABLES = {"$__rate_interval": "1m", "$topology": ".*", "$resource": ".*", "$job": ".*"}
SHAPE = "cpu=2,memory=1Gi"


class Prometheus:
    """A running one."""

    def __init__(self, port: int) -> None:
        self._url = f"http://{LOOPBACK}:{port}"

    def get(self, path: str, **query: str) -> Any:
        """What the API answers; raises AssertionError with its words if it refuses."""
        address = f"{self._url}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            raise AssertionError(refused.read().decode()) from None

    def samples(self, expression: str) -> list[Any]:
        """The series that a query finds now."""
        found: list[Any] = self.get("/api/v1/query", query=expression)["result"]
        return found

    def is_ready(self) -> bool:
        """True once it answers."""
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@pytest.fixture(scope="module")
def scheduler(control_plane: ControlPlane) -> Iterator[RunningScheduler]:
    """A scheduler that has placed a pod and leaves another one waiting."""
    for crd in CRDS:
        control_plane.apply(crd)
    control_plane.apply(topology_body())
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "watched"}})
    machine = ("--machine", "pack:2 numa:1 core:8 pu:1 mem:32Gi", "--nodes", "4", "--tree", "block:2 rack:1")
    with virtual_nodes(control_plane, *machine), running_scheduler(control_plane, "--slot-metrics", SHAPE) as started:
        started.wait_until_leading()
        bodies = [pod_body("fits", "watched", {"cpu": 2, "memory": "1Gi"}), pod_body("large", "watched", {"cpu": 500})]
        create_all(control_plane.kubeconfig, bodies)
        wait_until_told(control_plane, "watched", "large", "no node has cpu ")
        wait_until(lambda: started.metric("bayplan_topology_largest_gang") > 0, "slots are measured")
        yield started
    remove_namespace(control_plane.api, "watched")
    remove_nodes(control_plane.api)


@pytest.fixture(scope="module")
def prometheus(scheduler: RunningScheduler, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus with the rules, after two scrapes."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("needs prometheus on PATH")
    folder: Path = tmp_path_factory.mktemp("prometheus")
    scrape = {"job_name": "bayplan", "static_configs": [{"targets": [f"{LOOPBACK}:{scheduler.port}"]}]}
    settings = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration = {"global": settings, "rule_files": [str(ALERTS)], "scrape_configs": [scrape]}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    port = free_port()
    running = Prometheus(port)
    command = [
        program,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={LOOPBACK}:{port}",
    ]
    with Process("prometheus", command, folder / "log", running.is_ready) as process:
        process.start()
        # A rate needs two samples.
        wait_until(lambda: bool(running.samples("rate(process_cpu_seconds_total[1m])")), "the scheduler is scraped")
        yield running


@pytest.mark.parametrize("title,expression", QUERIES)
def test_a_panel_of_the_dashboard_shows_something(prometheus: Prometheus, title: str, expression: str) -> None:
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    # Asked again: on a busy machine a scrape can come too late, and what it missed is shown as gone until the next.
    if title not in NEVER_HERE:
        wait_until(lambda: bool(prometheus.samples(expression)), f"{title} shows something")
    else:
        prometheus.samples(expression)


@pytest.mark.parametrize("variable", ASKED, ids=lambda each: str(each["name"]))
def test_a_variable_of_the_dashboard_has_values(prometheus: Prometheus, variable: dict[str, Any]) -> None:
    metric, label = variable["definition"].removeprefix("label_values(").removesuffix(")").split(", ")
    assert prometheus.get(f"/api/v1/label/{label}/values", **{"match[]": metric})


def test_every_rule_is_evaluated_without_error(prometheus: Prometheus) -> None:
    def rules() -> list[Any]:
        return [rule for group in prometheus.get("/api/v1/rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] != "unknown" for rule in rules()), "all rules are evaluated")
    assert {rule["name"]: rule.get("lastError", "") for rule in rules()} == {rule["alert"]: "" for rule in RULES}


def test_a_sound_scheduler_raises_no_alarm(prometheus: Prometheus) -> None:
    firing = prometheus.samples('ALERTS{alertstate="firing"}')
    assert [each["metric"]["alertname"] for each in firing] == []


# The series of each alert, as promtool writes them: a value each minute. `0+1x60` rises by one for an hour.
FIRES = {
    "BayplanWatchFails": 'bayplan_watch_failing_seconds{resource="pods"} 0+60x60',
    "BayplanWatchRestarts": 'bayplan_watch_restarts_total{resource="pods"} 0+3x60',
    "BayplanNoLeader": 'leader_election_master_status{name="bayplan"} 0x60',
    "BayplanLeaderFlapping": 'leader_election_master_status{name="bayplan"} ' + "0 1 " * 20,
    "BayplanLoopBlocked": "bayplan_loop_longest_turn_seconds 2x60",
    "BayplanQueueSlow": 'scheduler_pod_scheduling_sli_duration_seconds_bucket{attempts="1", le="64"} 0+1x60',
    "BayplanGangsWait": 'bayplan_gang_attempts_total{result="unschedulable"} 0+1x100',
    "BayplanGangsReleased": "bayplan_gang_pods_released_total 0+1x60",
    "BayplanBindsFail": 'bayplan_binds_total{result="refused"} 0+1x60',
    "BayplanKubeletsRefuse": 'bayplan_kubelet_refusals_total{reason="TopologyAffinityError"} 0 0 1x60',
    "BayplanEvictionsInVain": "bayplan_preemption_in_vain_total 0 0 1x60",
    "BayplanApiErrors": 'bayplan_api_requests_total{verb="POST", status="403"} 0+1x60',
    "BayplanNodesWithoutReport": 'bayplan_nodes{report="no report"} 1x60',
    "BayplanReportsUnusable": 'bayplan_nodes{report="stale"} 1x60',
    "BayplanReportsOld": 'bayplan_topology_report_age_seconds{quantile="1.0"} 0+60x60',
    "BayplanNamespaceInDebt": "bayplan_namespaces_in_debt 1x60",
    "BayplanBrokenObjects": 'bayplan_broken_objects{resource="pods"} 1x60',
    "BayplanUnreadableVersions": 'bayplan_unreadable_api_versions{resource="podgroups.bayplan.io", version="v9"} 1x60',
    "BayplanAgentInTrouble": 'bayplan_agent_trouble{instance="n1", kind="kubelet"} 1x60',
    "BayplanCollectorInTrouble": 'bayplan_agent_gc_trouble{kind="list"} 1x60',
}
LATER = {"BayplanGangsWait": "75m"}
# What belongs to a sound cluster, beside the series of the alert.
BESIDE = {
    "BayplanQueueSlow": ['scheduler_pod_scheduling_sli_duration_seconds_bucket{attempts="1", le="+Inf"} 0+1x60'],
    "BayplanGangsWait": ['bayplan_gang_attempts_total{result="scheduled"} 5x100'],
    "BayplanNodesWithoutReport": ['bayplan_nodes{report="usable"} 3x60'],
}


@pytest.mark.parametrize("alert", [rule["alert"] for rule in RULES])
def test_an_alert_fires_for_its_series_and_not_without(alert: str, tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool on PATH")
    (tmp_path / "alerts.yaml").write_text(ALERTS.read_text())
    series = []
    for line in (FIRES[alert], *BESIDE.get(alert, ())):
        name, _, values = line.rpartition("} ") if "}" in line else line.partition(" ")
        series.append({"series": f"{name}}}" if "}" in line else name, "values": values})
    query = {"expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})', "eval_time": LATER.get(alert, "35m")}
    test = {
        "rule_files": ["alerts.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "promql_expr_test": [{**query, "exp_samples": [{"labels": "{}", "value": 1}]}],
            },
            {"interval": "1m", "input_series": [], "promql_expr_test": [{**query, "exp_samples": []}]},
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    done = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "test.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
