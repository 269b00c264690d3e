"""Alerting rules and dashboard use existing metrics, labels and values; each alert has an entry in the runbook."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.services.scheduler.cluster_metrics import REPORT_STATES
from tests.reference.metrics import registries, rows_of

ROOT = Path(__file__).parents[4]
GROUPS = yaml.safe_load((ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text())["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
DASHBOARD = json.loads((ROOT / "deploy" / "monitoring" / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
METRICS = {name: labels for registry in registries().values() for name, _, labels, _ in rows_of(registry)}
PARTS = ("_bucket", "_sum", "_count")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_rule_uses_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    assert_exists(rule["expr"])


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_a_panel_uses_metrics_and_labels_that_exist(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        assert_exists(target["expr"])
        grouped = re.findall(r"by \(([^)]*)\)", target["expr"])
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert shown <= {label.strip() for labels in grouped for label in labels.split(",")}


def test_the_dashboard_can_be_imported_into_any_grafana() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    used = set(re.findall(r"\$(\w+)", json.dumps(PANELS))) - {"__rate_interval"}
    assert used == {variable["name"] for variable in DASHBOARD["templating"]["list"]} - {"datasource"}


def assert_exists(expression: str) -> None:
    asked = re.findall(r"\b((?:bayplan|leader|scheduler)_\w+)(?:\{([^}]*)\})?", expression)
    assert asked or "process_" in expression
    for name, selector in asked:
        metric = next((name.removesuffix(part) for part in PARTS if name.removesuffix(part) in METRICS), name)
        assert metric in METRICS
        assert all(f"`{label}`" in METRICS[metric] for label in re.findall(r"(\w+)[=!]", selector))


def test_reports_are_counted_by_states_that_exist() -> None:
    asked = re.findall(r'bayplan_nodes\{report=~?"([^"]+)"\}', " ".join(rule["expr"] for rule in RULES))
    assert {state for each in asked for state in each.split("|")} == set(REPORT_STATES.values())


def test_every_alert_has_its_entry_in_the_runbook_and_no_entry_is_without_alert() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    assert headings == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
