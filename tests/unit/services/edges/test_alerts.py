"""The alerting rules use existing metrics."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from bayplan.services.edges.metrics import SchedulerMetrics

RULES = Path(__file__).parents[4] / "deploy" / "monitoring" / "alerts.yaml"


def test_every_rule_uses_metrics_of_the_scheduler() -> None:
    metrics = SchedulerMetrics()
    metrics.expose_costs({"a": 1.0})
    known = set(re.findall(r"^# TYPE (\S+)", metrics.text().decode(), re.MULTILINE))
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    for rule in rules:
        asked = re.findall(r"\b(?:bayplan|leader)_\w+", rule["expr"] + rule["annotations"].get("description", ""))
        assert asked or rule["alert"] == ""
        assert set(asked) <= known, rule["alert"]
    assert {"BayplanWatchFails", "BayplanNoLeader", "BayplanLoopBlocked"} <= {rule["alert"] for rule in rules}
